"""Processes of Flower: what is said of one that fails, and a name for the SuperLink that no folder has."""

import sys

import pytest

from ggeur.core.errors import GgeurError
from ggeur.deploy.machines import processes
from ggeur.deploy.machines.processes import Machines

pytestmark = pytest.mark.needs("flower")


@pytest.mark.parametrize(
    ("said", "last"),
    [
        ("\x1b[31mfirst\x1b[0m\nport is taken\n\n", '"port is taken" is the last line of'),
        ("╭─ Error ──╮\n│ No such app │\n╰──────────╯\n", '"No such app" is the last line of'),
        ("", "is empty"),
    ],
)
def test_a_process_that_fails_is_quoted_by_its_last_line(tmp_path, said, last):
    command = [
        sys.executable,
        "-c",
        f"import sys; sys.stdout.reconfigure(encoding='utf-8'); print({said!r}, end=''); sys.exit(3)",
    ]
    with Machines(tmp_path) as machines, pytest.raises(GgeurError, match="'register-0' failed") as told:
        machines.run({"register-0": command}, processes.environment())
    assert last in str(told.value) and str(tmp_path / "register-0.log") in str(told.value)


def test_a_folder_named_like_us_is_not_taken_for_an_app(tmp_path, monkeypatch):
    """Flower asks whether the connection's name is a folder with a pyproject.toml: a checkout lies in many a parent."""
    from flwr.cli.config_migration import _is_legacy_usage

    (tmp_path / "ggeur").mkdir()
    (tmp_path / "ggeur" / "pyproject.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    assert _is_legacy_usage("ggeur", []) and not _is_legacy_usage(processes.CONNECTION, [])
