"""`ggeur serve`: serve a model as a local page and a JSON endpoint."""

from pathlib import Path
from typing import Annotated

import typer

from ggeur.cli.options import Custom, PictureEncoder, Trial, open_model
from ggeur.cli.screen import mark, notes, say
from ggeur.stats.errors import GgeurError, how_to_install


def serve(
    model: Annotated[Path, typer.Argument(help="Model folder, run folder, or an exported model.")],
    encoder: PictureEncoder = None,
    host: Annotated[str, typer.Option(help="Address to listen on; others reach all but loopback.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any that is free.")] = 8000,
    reject: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Least probability of an answer; default: by calibration.", show_default=False),
    ] = None,
    examples: Annotated[
        Path | None, typer.Option("--examples", help="Folder of pictures to offer; the first six are shown.")
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    max_mb: Annotated[float, typer.Option(min=0.01, max=1000, help="Largest upload, in megabytes.")] = 10.0,
    trial: Trial = "last",
    custom: Custom = False,
) -> None:
    """Serve a model: a page to drop photographs, and JSON."""
    import webbrowser
    from importlib.util import find_spec

    if not all(map(find_spec, ("fastapi", "python_multipart", "uvicorn"))):
        raise GgeurError(f"Serving a model needs an extra: {how_to_install('serve')}.", code="extra-missing")
    from ggeur.models.prediction import encoder_of
    from ggeur.serve.server import is_loopback
    from ggeur.serve.server import serve as serve_model
    from ggeur.serve.service import Limits, Service, example_pictures

    with notes():
        head = open_model(model, trial, custom).model
        limits = Limits(max_mb)
        pictures = [] if examples is None else example_pictures(examples, limits)
        service = Service(head, encoder_of(head, encoder), limits, reject, pictures)
    if not is_loopback(host):
        mark("note", f"{host} is not loopback: whoever reaches it can use the model, and nothing is encrypted.")

    def ready(address: str) -> None:
        say(f"{address} answers; stop it with Ctrl-C.", soft_wrap=True)
        if open_page and not webbrowser.open(address):
            mark("note", "No browser could be opened; open the address yourself.")

    serve_model(service, host, port, ready)
