"""`ggeur embed`: images, from a dataset or a folder, to an embedding table."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ggeur.cli.options import CLIP, Data, check_out_file
from ggeur.cli.screen import mark, notes, progress_bar, say
from ggeur.core.errors import GgeurError

if TYPE_CHECKING:
    from ggeur.encode.job import OnBatch

_LISTED = 20  # unreadable images named on the screen
Colours = tuple[float, float, float]  # red, green, blue


def embed(
    source: Annotated[str, typer.Argument(help="A dataset's name, or a folder <domain>/<class>/* or <class>/*.")],
    out: Annotated[Path, typer.Option("--out", help="Embedding table to write (.npz).")],
    encoder: Annotated[str, typer.Option(help="builtin, onnx:PATH, a Hugging Face model, or pixels:SIZE.")] = CLIP,
    data: Data = None,
    share: Annotated[
        float | None, typer.Option(help="Share of each domain's training images to take; default: the paper's.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Images per call of the encoder.")] = 64,
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Leave unreadable images out, and list them.")
    ] = False,
    prompt: Annotated[
        list[str] | None,
        typer.Option(help="Template for class names, with {}; may be repeated. Default: 'a photo of a {}'."),
    ] = None,
    normalize: Annotated[bool, typer.Option("--normalize", help="Scale embeddings to unit length.")] = False,
    size: Annotated[int | None, typer.Option(help="ONNX: side of the square that the model takes, in pixels.")] = None,
    resize: Annotated[str | None, typer.Option(help="ONNX: shorter-side (and centre crop), or squeeze.")] = None,
    interpolation: Annotated[str | None, typer.Option(help="ONNX: nearest, bilinear, bicubic or lanczos.")] = None,
    mean: Annotated[Colours | None, typer.Option(help="ONNX: mean of red, green, blue; default: ImageNet's.")] = None,
    std: Annotated[Colours | None, typer.Option(help="ONNX: standard deviation; default: ImageNet's.")] = None,
) -> None:
    """Turn images into an embedding table: in batches, cached, and going on where it stopped."""
    check_out_file(out)  # better now than after hours of work
    if any("{}" not in template for template in prompt or []):
        raise GgeurError("A --prompt must contain {} where the name of the class goes.")
    from ggeur.data.datasets import load
    from ggeur.encode.encoder import load_encoder
    from ggeur.encode.job import TEMPLATES
    from ggeur.encode.job import embed as embed_images

    shape = {"size": size, "resize": resize, "interpolation": interpolation, "mean": mean, "std": std}
    with notes():
        images = load(source, data, share)
        tower = load_encoder(encoder, normalize=normalize, **shape)
        say(
            f"{len(images):,} images, {len(images.class_names)} classes, domains: {', '.join(images.domain_names)}; "
            f"{tower.name} gives {tower.dimension} dimensions"
        )
        with _progress(len(images)) as on_batch:
            table, unreadable = embed_images(
                images,
                tower,
                batch=batch,
                skip_unreadable=skip_unreadable,
                templates=prompt or TEMPLATES,
                on_batch=on_batch,
            )
    table.save(out)
    for line in unreadable[:_LISTED]:
        mark("skipped", line, soft_wrap=True)
    if len(unreadable) > _LISTED:
        mark("skipped", f"{len(unreadable) - _LISTED} more")
    skipped = f"; left out as unreadable: {len(unreadable)}" if unreadable else ""
    text = "" if table.text is None else " and the class names"
    what = "embeddings" if table.x.dtype.kind == "f" else "pictures"
    say(f"{len(table):,} {what}{text} are in {out}{skipped}")


@contextmanager
def _progress(total: int) -> Iterator["OnBatch"]:
    from rich import progress as bars
    from rich.text import Text

    class Speed(bars.ProgressColumn):
        """Images per second that the encoder really computed: those from the cache would flatter it."""

        def render(self, task: bars.Task) -> Text:
            computed = task.fields["computed"]
            if not computed or not task.elapsed:
                return Text("from the cache" if task.completed else "")
            return Text(f"{computed / task.elapsed:.1f} images/s")

    with progress_bar(Speed()) as bar:
        task = bar.add_task("embedding", total=total, computed=0)
        yield lambda done, computed: bar.update(task, completed=done, computed=computed)
