"""Options that several commands share, and the model that a command opens."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ggeur.cli.screen import Voice, mark, speak
from ggeur.stats.errors import GgeurError

if TYPE_CHECKING:
    from ggeur.data.tables.columns import TableColumns
    from ggeur.models.model import Model


CLIP = "openai/clip-vit-base-patch16"  # the default encoder's name, where importing it would slow `--help` down

ExperimentFile = Annotated[
    Path | None, typer.Argument(help="Experiment file (TOML); optional with --resume.", show_default=False)
]
Out = Annotated[Path | None, typer.Option("--out", help="Run folder to write; new or empty.")]
Resume = Annotated[Path | None, typer.Option("--resume", help="Run folder to resume.")]
Overrides = Annotated[list[str] | None, typer.Option("--set", help="Override a value: section.key=value; repeatable.")]
Data = Annotated[Path | None, typer.Option("--data", help="Folder with the datasets' files; default: $GGEUR_DATA.")]
Seeds = Annotated[int, typer.Option(min=1, help="Number of random seeds.")]
PictureEncoder = Annotated[
    str | None, typer.Option("--encoder", help="Encoder: builtin, onnx:PATH or a Hugging Face model.")
]
TrustedKeys = Annotated[
    Path | None, typer.Option("--trust", help="Folder of public keys: admit signed files of these sites alone.")
]
PlanFile = Annotated[Path | None, typer.Option("--plan", help="Plan of the federation (TOML).")]
FittedModel = Annotated[Path, typer.Argument(help="Model folder that `ggeur fit` wrote.")]
KeepUnits = Annotated[
    bool, typer.Option("--keep-units", help="Kernel: keep the units of features; say what is not exact.")
]
ChooseAgain = Annotated[bool, typer.Option("--choose-again", help="Select the solver again, from all statistics.")]
Custom = Annotated[bool, typer.Option("--custom", help="Allow the import of the model's custom parts.")]
Trial = Annotated[str, typer.Option("--trial", help="Run folder: a trial's number, an arm's name, or last.")]


EncoderId = Annotated[str | None, typer.Option("--encoder-id", help="Encoder of a table: NAME@SHA of its weights.")]
ColumnX = Annotated[str | None, typer.Option("--x", help="Column of embeddings, or prefix of numbered ones.")]
ColumnY = Annotated[str | None, typer.Option("--y", help="Column of labels.")]
ColumnDomain = Annotated[str | None, typer.Option("--domain", help="Column of domains.")]
ColumnTest = Annotated[str | None, typer.Option("--test", help="Column that marks test samples.")]
ColumnId = Annotated[str | None, typer.Option("--id", help="Column that names the samples.")]
ColumnGroup = Annotated[str | None, typer.Option("--group", help="Column of groups, such as patients.")]


def table_columns(
    x: str | None,
    y: str | None,
    domain: str | None,
    test: str | None,
    id: str | None,
    group: str | None,
    encoder_id: str | None,
) -> "TableColumns | None":
    """Return the columns that are named; None where none are."""
    if not any((x, y, domain, test, id, group, encoder_id)):
        return None
    from ggeur.data.tables.columns import TableColumns

    return TableColumns(x, y, domain, test, id, group, encoder_id)


def _speak(form: Voice) -> Callable[[bool], bool]:
    def chosen(requested: bool) -> bool:
        if requested:
            speak(form)
        return requested

    return chosen


Quiet = Annotated[
    bool, typer.Option("--quiet", callback=_speak(Voice.QUIET), help="Print nothing but errors, on stderr.")
]
JsonLines = Annotated[
    bool,
    typer.Option(
        "--json-lines",
        callback=_speak(Voice.EVENTS),
        help="Print one JSON object per line and nothing else.",
    ),
]


_KEPT = (  # files that a model or a run is read from
    *("model.json", "head.npz", "head.safetensors", "card.md", "ledger.json"),
    *("config.toml", "result.json", "metrics.jsonl", "inputs.json", "versions.json", "reproduction.json"),
)
_KEPT_IN = ("model.json", "metrics.jsonl")


def check_out_file(out: Path, suffix: str = "") -> None:
    """Refuse an --out that is a folder, has another suffix than `suffix`, or is a file of a model or a run."""
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


class OpenedModel(NamedTuple):
    """A model and its folder."""

    model: "Model"
    folder: Path


def open_model(path: Path, trial: str, custom: bool) -> OpenedModel:
    """Open the model at `path`, or that of the `trial` of a run; `custom` allows a custom head."""
    from ggeur.models.model import Model
    from ggeur.models.places import model_folder

    place = model_folder(path, int(trial) if trial.isdecimal() else trial)
    model = Model.load(place.folder, custom=custom)
    if place.why:
        mark("note", place.why)
    return OpenedModel(model, place.folder)
