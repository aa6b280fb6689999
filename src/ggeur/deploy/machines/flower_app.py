"""The thin Flower app: a folder that `flwr run` takes, with an experiment file and two imports of ours."""

from pathlib import Path

from ggeur.core.errors import GgeurError
from ggeur.data.files import write_atomically
from ggeur.deploy.server.serverapp import check_deployable
from ggeur.settings.grid import Experiment
from ggeur.settings.toml import to_toml

_PROJECT = """\
# A Flower app that runs experiment.toml with ggeur: flwr run . [SUPERLINK] --stream
# Go on with an interrupted run: flwr run . [SUPERLINK] --stream --run-config "resume=true"
[project]
name = "ggeur-app"
version = "1.0.0"
description = "One classifier over sites whose data may not move, by ggeur"
dependencies = ["ggeur[flower]"] # installed beforehand on every machine; Flower installs nothing at run time

[tool.flwr.app]
publisher = "ggeur"

[tool.flwr.app.components]
serverapp = "ggeur_app.server:app"
clientapp = "ggeur_app.client:app"

[tool.flwr.app.config]
"""
_SERVER = '''\
"""What the SuperLink runs."""

from pathlib import Path

from ggeur.deploy.server.serverapp import server_app

app = server_app(Path(__file__).with_name("experiment.toml"))
'''
_CLIENT = '''\
"""What a SuperNode runs, anew for every message."""

from ggeur.deploy.site.clientapp import client_app

app = client_app()
'''


def write_app(folder: Path, experiment: Experiment, out: Path, *, resume: bool = False) -> None:
    """Write the app; `out` is the run folder, on the machine of the SuperLink."""
    check_deployable(experiment)
    files = {
        "pyproject.toml": _PROJECT + to_toml({"out": str(out), "resume": resume}),
        "ggeur_app/__init__.py": "",
        "ggeur_app/server.py": _SERVER,
        "ggeur_app/client.py": _CLIENT,
        "ggeur_app/experiment.toml": experiment.to_toml(),
    }
    try:
        (folder / "ggeur_app").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GgeurError(f"Cannot write {folder}: {error.strerror or error}.") from error
    for name, text in files.items():
        with write_atomically(folder / name) as file:
            file.write(text.encode())
