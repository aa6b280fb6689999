"""The rooms import one way only, and the contract that says so can fail; none needs what Unix alone has."""

import ast
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path
from textwrap import dedent

import pytest

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
PACKAGE = PYPROJECT.parent / "src" / "ggeur"
(CONTRACT,) = tomllib.loads(PYPROJECT.read_text())["tool"]["importlinter"]["contracts"]
ROOMS = [
    name for layer in reversed(CONTRACT["layers"]) if (PACKAGE / (name := layer.strip("()"))).is_dir()
]  # from below


def test_every_room_is_in_the_contract_and_says_what_may_live_there():
    rooms = [path.parent for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE]
    assert {room.relative_to(PACKAGE).parts[0] for room in rooms} == set(ROOMS)
    for room in rooms:
        first = (room / "__init__.py").read_text(encoding="utf-8").splitlines()[0]
        assert first.startswith('"""') and len(first) > 30, room


def test_no_two_files_of_one_name_have_different_subjects():
    """A command's thin module in `cli` is named for its subject; a site's and the server's are halves of one thing."""
    files = [p.relative_to(PACKAGE).with_suffix("").parts for p in PACKAGE.rglob("*.py") if p.stem != "__init__"]
    names = [parts[-1] for parts in files if parts[0] != "cli" and parts[-2:-1] != ("site",)]
    shared = {"mixture", "blend", "kernel"}  # a solver and the head it solves for
    assert {name for name in names if names.count(name) > 1} == shared


@pytest.mark.needs("hf", "serve")
def test_no_module_needs_what_only_unix_has():
    """As on Windows, where locks are filelock's own; what a module imports when it is used is not seen here."""
    code = """
        import importlib, pkgutil, sys
        sys.modules |= dict.fromkeys(("fcntl", "grp", "pwd", "resource", "termios"))  # importing one raises
        import ggeur
        for module in pkgutil.walk_packages(ggeur.__path__, "ggeur."):
            if not module.name.endswith("__main__"):  # which would run
                importlib.import_module(module.name)
    """
    result = subprocess.run([sys.executable, "-c", dedent(code)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the contract in pyproject.toml on the `ggeur` that Python finds from this folder."""
    code = "from importlinter.cli import lint_imports_command as main; main()"
    command = [sys.executable, "-c", code, "--config", str(PYPROJECT), "--no-cache", "--no-logo"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_rooms_import_only_from_those_below():
    result = lint(PYPROJECT.parent)
    assert result.returncode == 0, result.stdout + result.stderr


def test_no_module_imports_the_package_that_is_above_all_rooms():
    """Of a package that loads on first use import-linter sees no import, and so no circle."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            above = isinstance(node, ast.Import) and "ggeur" in [name.name for name in node.names]
            offered = isinstance(node, ast.ImportFrom) and node.module == "ggeur" and {n.name for n in node.names}
            assert not above and not (offered and offered - set(ROOMS)), path


def test_a_sound_package_passes(tmp_path):
    sound_package(tmp_path)
    assert lint(tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("path", "source", "complaint"),
    [
        ("stats/statistics.py", "from ggeur.data import table", "ggeur.stats.statistics -> ggeur.data"),
        ("data/table.py", "import ggeur", "ggeur.data.table -> ggeur"),
        ("misc.py", "", "ggeur.misc"),
    ],
    ids=lambda value: value if value.endswith(".py") else "",
)
def test_the_contract_can_fail(tmp_path, path, source, complaint):
    package = sound_package(tmp_path)
    (package / path).write_text(source)
    result = lint(tmp_path)
    assert result.returncode == 1
    assert complaint in result.stdout


def test_the_contract_holds_between_every_room_and_the_next(tmp_path):
    package = sound_package(tmp_path)
    for low, high in pairwise(ROOMS):
        (package / low / "a.py").write_text(f"from ggeur.{high} import a")
    found = lint(tmp_path)
    assert found.returncode == 1
    for low, high in pairwise(ROOMS):
        assert f"ggeur.{low}.a -> ggeur.{high}" in found.stdout


def sound_package(tmp_path):
    """A package of all rooms that keeps the contract."""
    package = tmp_path / "ggeur"
    files = {
        "__init__.py": "from ggeur.cli import main",
        **{f"{room}/{name}.py": "" for room in ROOMS for name in ("__init__", "a")},
        "cli/__init__.py": "from ggeur.data.table import load as main",
        "data/table.py": "from ggeur.stats import statistics as load",
        "stats/statistics.py": "",
    }
    for name, text in files.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    return package
