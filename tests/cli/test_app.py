"""The commands: each is declared once, in the module of its name, and none loads anything heavy to be explained."""

import importlib
import os
import pkgutil
import subprocess
import sys
from importlib.metadata import version

import pytest

import ggeur.cli
from ggeur.cli import app, options
from ggeur.cli.federate import COMMANDS as FEDERATE
from ggeur.encoders.encoder import DEFAULT

HEAVY = (
    "jax",
    "jinja2",
    "matplotlib",
    "numpy",
    "optax",
    "pydantic",
    "scipy",
    "sklearn",
    "torch",
    "transformers",
    "flwr",
)
DECLARED = {f"ggeur.cli.{f.__name__}": f for f in app.COMMANDS}
DECLARED |= {f"ggeur.cli.federate.{f.__name__}": f for f in FEDERATE}
NOT_COMMANDS = {f"ggeur.cli.{name}" for name in ("app", "federate", "following", "opening", "options", "screen")}


def words(module):
    """What to type for the command of a module."""
    return module.removeprefix("ggeur.cli.").split(".")


def test_every_module_declares_the_one_command_of_its_name():
    found = {m.name for m in pkgutil.walk_packages(ggeur.cli.__path__, "ggeur.cli.")}
    assert found - NOT_COMMANDS == set(DECLARED)
    for name, command in DECLARED.items():
        assert command.__module__ == name and getattr(importlib.import_module(name), words(name)[-1]) is command
    registered = [*app.app.registered_commands, *app.app.registered_groups[0].typer_instance.registered_commands]
    assert [c.callback for c in registered] == [*app.COMMANDS, *FEDERATE]


def test_help_and_version_load_nothing_heavy():
    """One process for all: the first command that loads something is named."""
    code = f"""
import sys
from ggeur.cli import main
helps = [[], ["federate"], *{[words(name) for name in DECLARED]!r}]
for argv in (*([*words, "--help"] for words in helps), ["--version"]):
    sys.argv = ["ggeur", *argv]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (argv, end.code)
    loaded = [name for name in {HEAVY!r} if name in sys.modules]
    assert not loaded, (argv, loaded)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"ggeur {version('ggeur')}" in done.stdout
    assert all(words(name)[-1] in done.stdout for name in DECLARED)


def test_the_default_encoder_is_the_one_that_the_options_name():
    assert options.CLIP == DEFAULT


@pytest.mark.parametrize("name", sorted(ggeur.__all__))
def test_what_the_package_loads_later_is_there(name):
    assert getattr(ggeur, name).__name__.rpartition(".")[2] == name


def test_a_shell_can_complete_commands_and_options():
    for words, offered in (("ggeur repr", ["reproduce"]), ("ggeur run --js", ["--json-lines"])):
        env = {"_GGEUR_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
        code = "import sys; sys.argv = ['ggeur']; from ggeur.cli.app import app; app(prog_name='ggeur')"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**os.environ, **env}
        )
        assert done.stdout.split() == offered, done.stderr


def test_ctrl_c_within_the_import_of_a_compiled_module_ends_quietly(monkeypatch):
    """SciPy's solvers then raise an ImportError, whose cause is the Ctrl-C."""

    def stopped(app):
        raise ImportError("initialization failed") from KeyboardInterrupt()

    monkeypatch.setattr("ggeur.cli._run", stopped)
    with pytest.raises(SystemExit) as end:
        ggeur.cli.main()
    assert end.value.code == 130

    def missing(app):
        raise ImportError("no such module")

    monkeypatch.setattr("ggeur.cli._run", missing)
    with pytest.raises(ImportError):
        ggeur.cli.main()
