"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from ggeur.cli.screen import Voice, speak
from ggeur.core.errors import GgeurError

CLIP = "openai/clip-vit-base-patch16"  # the default encoder's name, where importing it would slow `--help` down

ExperimentFile = Annotated[
    Path | None, typer.Argument(help="Experiment file (TOML); may be left out with --resume.", show_default=False)
]
Out = Annotated[Path | None, typer.Option("--out", help="Run folder to write; it must not exist or be empty.")]
Resume = Annotated[Path | None, typer.Option("--resume", help="Run folder to go on in.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="Override a value: section.key=value; may be repeated.")
]
Data = Annotated[Path | None, typer.Option("--data", help="Folder with datasets' own files; default: $GGEUR_DATA.")]
Seeds = Annotated[
    int,
    typer.Option(
        min=1,
        help="Repetitions: of heads, batches and noise, and of split and partition where the table leaves them open.",
    ),
]
PictureEncoder = Annotated[
    str | None, typer.Option("--encoder", help="What embeds pictures: builtin, onnx:PATH, or a Hugging Face model.")
]
FittedModel = Annotated[Path, typer.Argument(help="Model folder that `ggeur fit` wrote.")]
ChooseAgain = Annotated[
    bool, typer.Option("--choose-again", help="Choose the constants anew, by the rows of all sites, which are named.")
]
OwnMethod = Annotated[
    bool, typer.Option("--custom", help="The model's method is your own, and its module may be imported.")
]
MethodHead = Annotated[
    bool, typer.Option("--custom", help="The model's head is your own, and its module may be imported.")
]
Trial = Annotated[str, typer.Option("--trial", help="Of a run folder: a trial's number, an arm's name, or last.")]


def _speak(form: Voice) -> Callable[[bool], bool]:
    def chosen(wanted: bool) -> bool:
        if wanted:
            speak(form)
        return wanted

    return chosen


Quiet = Annotated[
    bool, typer.Option("--quiet", callback=_speak(Voice.QUIET), help="Print nothing but errors, on the error stream.")
]
JsonLines = Annotated[
    bool,
    typer.Option(
        "--json-lines",
        callback=_speak(Voice.EVENTS),
        help="For programs: print a JSON object a line (rounds, progress, notes, rows) and nothing else.",
    ),
]


_KEPT = (  # files that a model or a run is read from
    *("model.json", "head.npz", "head.safetensors", "card.md", "ledger.json"),
    *("config.toml", "result.json", "metrics.jsonl", "inputs.json", "versions.json", "reproduction.json"),
)
_KEPT_IN = ("model.json", "metrics.jsonl")


def check_out_file(out: Path, suffix: str = "") -> None:
    """Refuse an --out that cannot be a file, or not one of this `suffix`, or that a model or a run is read from."""
    if out.is_dir() or not out.absolute().parent.is_dir():
        raise GgeurError(f"Cannot write {out}: name a file in a folder that exists.", code="output-folder-missing")
    if suffix and out.suffix != suffix:
        raise GgeurError(
            f"Cannot write {out}: what is written is {suffix[1:]}, so call it {out.with_suffix(suffix)}.",
            code="output-file-suffix",
        )
    there = out.resolve()
    if there.name in _KEPT and there.exists() and any((there.parent / name).exists() for name in _KEPT_IN):
        raise GgeurError(
            f"Cannot write {out}: it is a file of a model or a run; name another.", code="output-file-protected"
        )
