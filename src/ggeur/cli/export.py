"""`ggeur export`: write a model as ONNX, torch or a hub folder, or copy it without statistics."""

from pathlib import Path
from typing import Annotated

import typer

from ggeur.cli.options import Custom, Trial, check_out_file, open_model
from ggeur.cli.screen import mark, notes, say
from ggeur.stats.errors import GgeurError


def export(
    model: Annotated[Path, typer.Argument(help="Model folder, run folder, or an exported model.")],
    onnx: Annotated[
        Path | None, typer.Option("--onnx", help="ONNX file to write: the head, or with --encoder both.")
    ] = None,
    torch: Annotated[
        Path | None, typer.Option("--torch", help="Folder to write: safetensors and a torch module.")
    ] = None,
    hub: Annotated[Path | None, typer.Option("--hub", help="Folder to write in the Hugging Face hub's layout.")] = None,
    without_statistics: Annotated[
        bool, typer.Option("--without-statistics", help="Copy the model folder without its sites' statistics.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder of the copy; default: MODEL-without-statistics."),
    ] = None,
    encoder: Annotated[
        str | None, typer.Option("--encoder", help="With --onnx: the encoder (onnx:PATH) to include.")
    ] = None,
    trial: Trial = "last",
    custom: Custom = False,
) -> None:
    """Export a model: ONNX, torch, Hugging Face hub.

    Every format gives the same probabilities as `ggeur predict`.
    """
    if not (onnx or torch or hub or without_statistics):
        raise GgeurError(
            "Say what to export: --onnx FILE, --torch FOLDER, --hub FOLDER or --without-statistics.",
            code="export-target-missing",
        )
    if out is not None and not without_statistics:
        raise GgeurError(
            "--out goes with --without-statistics: --onnx, --torch and --hub name their own place.",
            code="option-conflict-out",
        )
    if encoder is not None and (onnx is None or not encoder.startswith("onnx:")):
        raise GgeurError(
            "--encoder goes with --onnx FILE and names an ONNX file, onnx:PATH: both become one graph.",
            code="option-conflict-encoder",
        )
    if onnx is not None:
        check_out_file(onnx, ".onnx")
    from ggeur.models.exports.export_folder import input_of, write_hub, write_torch, write_without_statistics
    from ggeur.models.exports.onnx_graph import write_onnx
    from ggeur.models.prediction import encoder_of

    with notes():
        head, folder = open_model(model, trial, custom)
        if without_statistics:
            copy = out or Path(f"{folder.resolve().name}-without-statistics")
            write_without_statistics(folder, copy, custom=custom)
            say(f"{copy} holds {_names(copy)}, and no statistics of sites", soft_wrap=True)
        if onnx is not None:
            tower = None if encoder is None else encoder_of(head, encoder)
            write_onnx(head, onnx, tower)  # type: ignore[arg-type]  # onnx:PATH is one of ONNX
            takes = input_of(head) if tower is None else "prepared pixels"
            say(f"{onnx} takes {takes} and gives label (B,) and probabilities (B, {len(head.class_names)})")
            if tower is None and str(head.encoder.get("encoder", "")).startswith("onnx:"):
                mark("note", "the encoder is ONNX too; with --encoder onnx:PATH both become one graph.")
        for new, write in ((torch, write_torch), (hub, write_hub)):
            if new is not None:
                write(head, new)
                say(f"{new} holds {_names(new)}")


def _names(folder: Path) -> str:
    return ", ".join(sorted(path.name for path in folder.iterdir() if path.is_file()))
