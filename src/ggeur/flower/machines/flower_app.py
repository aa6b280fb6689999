"""The Flower app of an experiment: a folder for `flwr run` with the experiment file and two imports of ggeur."""

from importlib.resources import files
from pathlib import Path

from ggeur.experiments.grid import Experiment, to_toml
from ggeur.flower.server.serverapp import check_deployable
from ggeur.stats.storage import cannot, write_bytes


def write_app(folder: Path, experiment: Experiment, out: Path, *, resume: bool = False) -> None:
    """Write an app to `folder` that runs `experiment` into the run folder `out`, on the machine of the SuperLink.

    With `resume` it continues the run in `out`.
    """
    check_deployable(experiment)
    texts = {
        "pyproject.toml": _template("pyproject.toml") + to_toml({"out": str(out), "resume": resume, "reopen": False}),
        "ggeur_app/__init__.py": "",
        "ggeur_app/server.py": _template("server.py"),
        "ggeur_app/client.py": _template("client.py"),
        "ggeur_app/experiment.toml": experiment.to_toml(),
    }
    with cannot(f"write {folder}"):
        (folder / "ggeur_app").mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_bytes(folder / name, text.encode())


def _template(name: str) -> str:
    return (files("ggeur.flower.machines") / "templates" / f"{name}.txt").read_text(encoding="utf-8")
