"""What people install: the wheel and the sdist hold the whole package, and it works outside the clone."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import ggeur

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
PACKAGE = {
    path.relative_to(ROOT / "src").as_posix()
    for path in (ROOT / "src" / "ggeur").rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
}


class Built(NamedTuple):
    """The distributions, and the names of what is in them."""

    wheel: Path
    in_wheel: set[str]
    in_sdist: set[str]


def call(*words, cwd, **options) -> str:
    """Run a command without the clone on its path, and return what it prints."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [*map(str, words)], cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Built:
    """The sdist of the clone, and the wheel of the sdist: what the one lacks, the other cannot have."""
    place = tmp_path_factory.mktemp("built")
    call(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", place, cwd=ROOT)
    (sdist,) = place.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        archive.extractall(place, filter="data")
    unpacked = place / sdist.name.removesuffix(".tar.gz")
    call(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", place, cwd=unpacked)
    (wheel,) = place.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return Built(wheel, set(archive.namelist()), names)


def test_the_wheel_holds_the_package_and_nothing_else(built):
    kinds = {Path(name).suffix for name in PACKAGE}
    assert {".py", ".pyi", ".typed", ".toml", ".j2", ".css", ".js", ".html", ".mplstyle", ".txt"} >= kinds
    assert len(PACKAGE) > 200 and "ggeur/__init__.pyi" in PACKAGE  # from which the names of ggeur are loaded
    about = {name for name in built.in_wheel if ".dist-info/" in name}
    assert built.in_wheel - about == PACKAGE
    assert any(name.endswith("/licenses/LICENSE") for name in about)


def test_the_sdist_can_be_tested_and_holds_nothing_of_the_machine(built):
    assert built.in_sdist >= {f"src/{name}" for name in PACKAGE}
    assert built.in_sdist >= {
        "pyproject.toml",
        "constraints.txt",
        "README.md",
        "CHANGELOG.md",
        "Makefile",
        "conftest.py",
    }
    assert built.in_sdist >= {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("*.py")}
    assert not {name.partition("/")[0] for name in built.in_sdist} & {".ci", ".venv", ".git", "site", "runs"}


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory) -> Path:
    """The scripts of a new environment with the wheel; what it depends on is that of this one."""
    place = tmp_path_factory.mktemp("installed")
    call(sys.executable, "-m", "venv", "--without-pip", place / "venv", cwd=place)
    scripts = place / "venv" / "bin"
    pip = [sys.executable, "-m", "pip", "--python", scripts / "python", "--disable-pip-version-check"]
    call(*pip, "install", "-q", "--no-index", "--no-deps", built.wheel, cwd=place)
    (packages,) = (place / "venv" / "lib").glob("python*/site-packages")
    # Lines of .pth files in a folder that a .pth names are not followed: the clone stays out.
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    return scripts


def test_the_package_works_where_there_is_no_clone(installed, tmp_path):
    place = call(installed / "python", "-c", "import ggeur; print(ggeur.__file__)", cwd=tmp_path)
    assert Path(place).is_relative_to(installed.parent)
    command = installed / "ggeur"
    assert call(command, "--version", cwd=tmp_path).split()[-1] == ggeur.__version__
    assert "ggeur-limit" in call(command, "methods", cwd=tmp_path)
    rng = np.random.default_rng(0)
    for name in ("north", "south"):
        y = np.arange(80) % 2
        x = rng.normal(size=(80, 4)) + 6 * np.eye(4)[y]
        ggeur.EmbeddingTable(x=x.astype(np.float32), y=y, class_names=("ant", "bee")).save(tmp_path / f"{name}.npz")
    call(command, "fit", "north.npz", "south.npz", "--out", "model", cwd=tmp_path)
    call(command, "report", "model", "--out", "page.html", cwd=tmp_path)
    assert "ant" in (tmp_path / "page.html").read_text(encoding="utf-8")
    call(command, "predict", "model", "north.npz", "--out", "answers.csv", cwd=tmp_path)
    answers = [line.split(",") for line in (tmp_path / "answers.csv").read_text().splitlines()[1:]]
    right = [name in row for row, name in zip(answers, ["ant", "bee"] * 40, strict=True)]
    assert np.mean(right) > 0.9
