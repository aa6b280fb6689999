"""`ggeur embed`: turn a dataset or an image folder into an embedding table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ggeur.cli.options import CLIP, Data, JsonLines, Quiet, check_out_file
from ggeur.cli.screen import embedding_bar, notes, say, tell_skipped
from ggeur.stats.errors import GgeurError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ggeur.encoders.encoder import Encoder
    from ggeur.encoders.prompts import Prompts

Colours = tuple[float, float, float]  # red, green, blue


def embed(
    source: Annotated[str, typer.Argument(help="Dataset name, or image folder: <domain>/<class>/* or flat.")],
    out: Annotated[Path, typer.Option("--out", help="Embedding table to write (.npz, .parquet).")],
    encoder: Annotated[str, typer.Option(help="builtin, onnx:PATH, a Hugging Face model, or pixels:SIZE.")] = CLIP,
    data: Data = None,
    share: Annotated[
        float | None, typer.Option(help="Share of training images per domain; default: the paper's.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Images per call of the encoder.")] = 64,
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Skip and list unreadable images.")
    ] = False,
    prompt: Annotated[
        list[str] | None,
        typer.Option(help="Custom template with {} for class names; repeatable."),
    ] = None,
    prompts: Annotated[
        list[str] | None,
        typer.Option(
            help="single, fedclip, bare, clip18, clip80 or file; repeatable.", show_default="single, fedclip, bare"
        ),
    ] = None,
    normalize: Annotated[bool, typer.Option("--normalize", help="Scale embeddings to unit length.")] = False,
    size: Annotated[int | None, typer.Option(help="ONNX: side of the square input, in pixels.")] = None,
    resize: Annotated[str | None, typer.Option(help="ONNX: shorter-side (and centre crop), or squeeze.")] = None,
    interpolation: Annotated[str | None, typer.Option(help="ONNX: nearest, bilinear, bicubic or lanczos.")] = None,
    mean: Annotated[Colours | None, typer.Option(help="ONNX: mean of R, G, B; default: ImageNet's.")] = None,
    std: Annotated[Colours | None, typer.Option(help="ONNX: standard deviation; default: ImageNet's.")] = None,
    shard: Annotated[
        str | None, typer.Option("--shard", help="I/N: embed only the Ith of N parts, as one job of an array.")
    ] = None,
    quiet: Quiet = False,
    json_lines: JsonLines = False,
) -> None:
    """Embed images into a table.

    Embeddings are cached: a second call resumes.
    """
    _check_out(out)  # before hours of work
    part = _shard(shard)
    sets = _prompts(prompts, prompt)
    from ggeur.data.datasets import load
    from ggeur.data.readers import is_unlabelled
    from ggeur.encoders.job import embed as embed_images

    shape = {"size": size, "resize": resize, "interpolation": interpolation, "mean": mean, "std": std}
    with notes():
        images = None if is_unlabelled(Path(source)) else load(source, data, share)
        tower = _tower(encoder, normalize, shape)
        if images is None:
            if sets:
                raise GgeurError(
                    f"The pictures of {source} are not in class folders, so prompts have no class names.",
                    code="class-names-missing",
                )
            _embed_unlabelled(Path(source), tower, out, batch, skip_unreadable, part)
            return
        images = images.shard(*part) if part else images
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


def _tower(name: str, normalize: bool, shape: "Mapping[str, Any]") -> "Encoder":
    """Return the encoder; where the default is not installed, say which others there are."""
    from ggeur.encoders.encoder import load_encoder

    try:
        return load_encoder(name, normalize=normalize, **shape)
    except GgeurError as error:
        if name != CLIP or error.code != "extra-missing":
            raise
        raise GgeurError(
            f"{str(error)[:-1]}; or name another: onnx:PATH (DINOv2, say), or builtin, which is weak on photographs.",
            code="extra-missing",
        ) from error


def _check_out(out: Path) -> None:
    """Refuse an --out that could not be written at the end."""
    if out.suffix != ".parquet":
        check_out_file(out, ".npz")
        return
    check_out_file(out)
    from ggeur.data.tables.writing import check_parquet

    check_parquet()


def _shard(given: str | None) -> tuple[int, int] | None:
    """Return I and N of "I/N"."""
    if given is None:
        return None
    number, _, of = given.partition("/")
    if not (number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
        raise GgeurError(
            f"The shard is '{given}'; it must be I/N, from 1/N to N/N, such as 3/8.", code="option-shard-invalid"
        )
    return int(number), int(of)


def _embed_unlabelled(
    source: Path, tower: "Encoder", out: Path, batch: int, skip_unreadable: bool, part: tuple[int, int] | None
) -> None:
    """Embed pictures without class folders into a table that can be predicted but not trained on."""
    from ggeur.data.image_set import shard_of
    from ggeur.data.readers import unlabelled
    from ggeur.data.samples import Samples
    from ggeur.encoders.cache import EmbeddingCache
    from ggeur.encoders.encoder import about
    from ggeur.encoders.job import encode_items

    items = unlabelled(source)
    items = items[shard_of(len(items), *part)] if part else items
    say(f"{len(items):,} pictures without class folders; {tower.name} gives {tower.dimension} dimensions")
    with embedding_bar(len(items)) as on_batch:
        store = EmbeddingCache(tower)
        found = encode_items(items, tower, store, batch=batch, skip_unreadable=skip_unreadable, on_batch=on_batch)
    Samples(found.x, tuple(items[i].where for i in found.samples.tolist()), meta=about(tower)).save(out)
    skipped = tell_skipped(found.unreadable)
    say(f"{len(found.x):,} embeddings for `ggeur predict` are in {out}{skipped}")


def _prompts(names: list[str] | None, templates: list[str] | None) -> "dict[str, Prompts] | None":
    """Return the requested prompt sets; None where neither names nor templates are given."""
    from ggeur.encoders.prompts import prompt_sets

    return prompt_sets(names or (), templates or ()) if names or templates else None
