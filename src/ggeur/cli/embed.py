"""`ggeur embed`: images, from a dataset or a folder, to an embedding table."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from ggeur.cli.screen import console, notes
from ggeur.core.errors import GgeurError
from ggeur.data.datasets import load
from ggeur.encode.encoder import resolve
from ggeur.encode.job import TEMPLATES, OnBatch
from ggeur.encode.job import embed as embed_images

_LISTED = 20  # unreadable images named on the screen


def embed(
    source: str,
    encoder_name: str,
    out: Path,
    *,
    data: Path | None,
    share: float | None,
    batch: int,
    skip_unreadable: bool,
    prompts: Sequence[str],
    normalize: bool,
    **preprocessing: Any,
) -> None:
    if out.is_dir() or not out.absolute().parent.is_dir():  # better now than after hours of work
        raise GgeurError(f"Cannot write {out}: --out must name a file in a folder that exists.")
    if any("{}" not in prompt for prompt in prompts):
        raise GgeurError("A --prompt must contain {} where the name of the class goes.")
    with notes():
        images = load(source, data, share)
        encoder = resolve(encoder_name, normalize=normalize, **preprocessing)
        console.print(
            f"{len(images):,} images, {len(images.class_names)} classes, domains: {', '.join(images.domain_names)}; "
            f"{encoder.name} gives {encoder.dimension} dimensions",
            markup=False,
            highlight=False,
        )
        with _progress(len(images)) as on_batch:
            table, unreadable = embed_images(
                images,
                encoder,
                batch=batch,
                skip_unreadable=skip_unreadable,
                templates=prompts or TEMPLATES,
                on_batch=on_batch,
            )
    table.save(out)
    for line in unreadable[:_LISTED]:
        console.print(f"[yellow]skipped:[/] {escape(line)}", highlight=False, soft_wrap=True)
    if len(unreadable) > _LISTED:
        console.print(f"[yellow]skipped:[/] {len(unreadable) - _LISTED} more", highlight=False)
    skipped = f"; left out as unreadable: {len(unreadable)}" if unreadable else ""
    text = "" if table.text is None else " and the class names"
    console.print(f"{len(table):,} embeddings{text} are in {out}{skipped}", markup=False, highlight=False)


class _Speed(ProgressColumn):
    """Images per second that the encoder really computed: those from the cache would flatter it."""

    def render(self, task: Task) -> Text:
        computed = task.fields["computed"]
        if not computed or not task.elapsed:
            return Text("from the cache" if task.completed else "")
        return Text(f"{computed / task.elapsed:.1f} images/s")


@contextmanager
def _progress(total: int) -> Iterator[OnBatch]:
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Speed(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
    )
    with bar:
        task = bar.add_task("embedding", total=total, computed=0)
        yield lambda done, computed: bar.update(task, completed=done, computed=computed)
