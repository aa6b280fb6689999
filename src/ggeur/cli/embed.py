"""`ggeur embed`: images, from a dataset or a folder, to an embedding table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ggeur.cli.options import CLIP, Data, JsonLines, Quiet, check_out_file
from ggeur.cli.screen import embedding_bar, notes, say, tell_skipped
from ggeur.core.errors import GgeurError

if TYPE_CHECKING:
    from ggeur.encode.encoder import Encoder
    from ggeur.encode.prompts import Prompts

Colours = tuple[float, float, float]  # red, green, blue


def embed(
    source: Annotated[
        str, typer.Argument(help="A dataset's name, a folder <domain>/<class>/* or <class>/*, or unsorted pictures.")
    ],
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
        typer.Option(help="Template of your own for class names, with {}; may be repeated. They make the set 'own'."),
    ] = None,
    prompts: Annotated[
        list[str] | None,
        typer.Option(
            help="Class names in the prompts single, fedclip, bare, clip18, clip80, or of a file with a template on "
            "each line; may be repeated. Default: the first three."
        ),
    ] = None,
    normalize: Annotated[bool, typer.Option("--normalize", help="Scale embeddings to unit length.")] = False,
    size: Annotated[int | None, typer.Option(help="ONNX: side of the square that the model takes, in pixels.")] = None,
    resize: Annotated[str | None, typer.Option(help="ONNX: shorter-side (and centre crop), or squeeze.")] = None,
    interpolation: Annotated[str | None, typer.Option(help="ONNX: nearest, bilinear, bicubic or lanczos.")] = None,
    mean: Annotated[Colours | None, typer.Option(help="ONNX: mean of red, green, blue; default: ImageNet's.")] = None,
    std: Annotated[Colours | None, typer.Option(help="ONNX: standard deviation; default: ImageNet's.")] = None,
    quiet: Quiet = False,
    json_lines: JsonLines = False,
) -> None:
    """Turn images into an embedding table: in batches, cached, and going on where it stopped."""
    check_out_file(out, ".npz")  # better now than after hours of work
    sets = _prompts(prompts, prompt)
    from ggeur.data.datasets import load
    from ggeur.data.readers import is_unlabelled
    from ggeur.encode.encoder import load_encoder
    from ggeur.encode.job import embed as embed_images

    shape = {"size": size, "resize": resize, "interpolation": interpolation, "mean": mean, "std": std}
    with notes():
        images = None if is_unlabelled(Path(source)) else load(source, data, share)
        tower = load_encoder(encoder, normalize=normalize, **shape)
        if images is None:
            if sets:
                raise GgeurError(
                    f"No folders sort the pictures of {source} by class: there is no name for a prompt.",
                    code="class-names-missing",
                )
            _embed_unlabelled(Path(source), tower, out, batch, skip_unreadable)
            return
        say(
            f"{len(images):,} images, {len(images.class_names)} classes, domains: {', '.join(images.domain_names)}; "
            f"{tower.name} gives {tower.dimension} dimensions"
        )
        with embedding_bar(len(images)) as on_batch:
            table, unreadable = embed_images(
                images,
                tower,
                batch=batch,
                skip_unreadable=skip_unreadable,
                prompts=sets,
                on_batch=on_batch,
            )
    table.save(out)
    skipped = tell_skipped(unreadable)
    text = f" and the class names ({', '.join(table.text)})" if table.text else ""
    what = "embeddings" if table.x.dtype.kind == "f" else "pictures"
    say(f"{len(table):,} {what}{text} are in {out}{skipped}")


def _embed_unlabelled(source: Path, tower: "Encoder", out: Path, batch: int, skip_unreadable: bool) -> None:
    """Pictures that no folder gives a class: a table of them can be labelled, and not learnt from."""
    from ggeur.data.readers import unlabelled
    from ggeur.data.samples import Samples
    from ggeur.encode.cache import EmbeddingCache
    from ggeur.encode.encoder import about
    from ggeur.encode.job import encode_items

    items = unlabelled(source)
    say(f"{len(items):,} pictures, which no folders sort by class; {tower.name} gives {tower.dimension} dimensions")
    with embedding_bar(len(items)) as on_batch:
        store = EmbeddingCache(tower)
        found = encode_items(items, tower, store, batch=batch, skip_unreadable=skip_unreadable, on_batch=on_batch)
    Samples(found.x, tuple(items[i].where for i in found.samples.tolist()), meta=about(tower)).save(out)
    skipped = tell_skipped(found.unreadable)
    say(f"{len(found.x):,} embeddings to be labelled with `ggeur predict` are in {out}{skipped}")


def _prompts(names: list[str] | None, templates: list[str] | None) -> "dict[str, Prompts] | None":
    """The sets of text that are asked for, if any are; with templates of one's own alone, those and no others."""
    from ggeur.encode.prompts import prompt_sets

    return prompt_sets(names or (), templates or ()) if names or templates else None
