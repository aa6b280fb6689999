"""The rooms import one way only, and the contract that says so can fail."""

import subprocess
import sys
from pathlib import Path

import pytest

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the contract in pyproject.toml on the `ggeur` that Python finds from this folder."""
    code = "from importlinter.cli import lint_imports_command as main; main()"
    command = [sys.executable, "-c", code, "--config", str(PYPROJECT), "--no-cache", "--no-logo"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_rooms_import_only_from_those_below():
    result = lint(PYPROJECT.parent)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("path", "source", "complaint"),
    [
        ("core/statistics.py", "from ggeur.data import table", "ggeur.core.statistics -> ggeur.data"),
        ("data/table.py", "import ggeur", "ggeur.data.table -> ggeur"),
        ("misc.py", "", "ggeur.misc"),
    ],
    ids=["upwards", "through the package", "an unknown room"],
)
def test_the_contract_can_fail(tmp_path, path, source, complaint):
    package = tmp_path / "ggeur"
    files = {
        "__init__.py": "from ggeur.cli import main",
        "cli/__init__.py": "from ggeur.data.table import load as main",
        "data/__init__.py": "",
        "data/table.py": "from ggeur.core import statistics as load",
        "core/__init__.py": "",
        "core/statistics.py": "",
    }
    for name, text in files.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    assert lint(tmp_path).returncode == 0, "the sound package passes"

    (package / path).write_text(source)
    result = lint(tmp_path)
    assert result.returncode == 1
    assert complaint in result.stdout
