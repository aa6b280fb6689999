"""`ggeur encoders`: list the image encoders."""

from rich.markup import escape
from rich.table import Column, Table

from ggeur.cli.options import CLIP
from ggeur.cli.screen import console


def encoders() -> None:
    """List the encoders that turn images into embeddings."""
    from ggeur.encoders.builtin import BuiltinEncoder
    from ggeur.encoders.encoder import EXTRAS, installed
    from ggeur.stats.errors import how_to_install

    builtin = BuiltinEncoder()
    hf, onnx = (
        "installed" if installed(*modules) else escape(how_to_install(name)) for name, modules in EXTRAS.items()
    )
    table = Table(Column("encoder", no_wrap=True), "what it is", "dimensions", "needs")
    for row in (
        (CLIP, "CLIP ViT-B/16, the paper's and the default", "512", hf),
        ("NAME or FOLDER", "any Hugging Face model of the CLIP, SigLIP or DINOv2 families", "its own", hf),
        ("onnx:PATH", "any image tower exported to ONNX; preprocessing from options or PATH.json", "its own", onnx),
        ("pixels:SIZE", "the pictures themselves, for networks on images", "an image", "nothing"),
        (builtin.name, "weight-free, for small pictures of shapes; no download", str(builtin.dimension), "nothing"),
    ):
        table.add_row(*row)
    console.print(table)
