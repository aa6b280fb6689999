"""Every example runs and prints what it promises, as a script and as a notebook."""

import importlib
import re
import runpy
import sys
from pathlib import Path

import pytest

import ggeur
from ggeur.experiments.grid import Experiment

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
SCRIPTS = sorted(path for path in EXAMPLES.glob("*.py") if path.stem != "by_hand")  # which test_by_hand runs
PROMISED = {
    "engineer": r"\d+ % of \d+ new pictures are right",
    "library": r"site 1: .* % along the global shape",
    "researcher": r"ggeur, median minus FedAvg: [+-].* \[",
}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_an_example_runs(script, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    assert re.search(PROMISED[script.stem], capsys.readouterr().out)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_an_example_is_short_and_its_names_are_public(script):
    text = script.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 66
    assert set(re.findall(r"\bggeur\.(\w+)", text)) <= {*ggeur.__all__, "methods"}


@pytest.mark.needs("docs")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_a_notebook_is_its_script(script):
    import nbformat

    made = runpy.run_path(str(ROOT / "tools" / "notebooks.py"))["notebook"]
    kept = nbformat.read(script.with_suffix(".ipynb"), as_version=4)
    assert kept == made(script.read_text(encoding="utf-8")), "run tools/notebooks.py"


def test_the_tutorial_has_the_cells_of_its_script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    tutorial = importlib.import_module("tutorial")
    page = tutorial.PAGE.read_text(encoding="utf-8")
    places = [page.index(text) for _, text in tutorial.cells() if text]
    assert places == sorted(places) and re.search(PROMISED["engineer"], page)
    for figure in re.findall(r"\.\./figures/([\w.-]+)", page):
        assert (tutorial.FIGURES / figure).is_file()


def executed(script: Path, folder: Path) -> str:
    """What the notebook of `script` prints, run in `folder` by a kernel of this Python."""
    import nbclient
    import nbformat

    notebook = nbformat.read(script.with_suffix(".ipynb"), as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    return "".join(out.get("text", "") for cell in notebook.cells for out in cell.get("outputs", []))


@pytest.mark.needs("docs")
def test_a_notebook_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    assert re.search(PROMISED["library"], executed(EXAMPLES / "library.py", tmp_path))


@pytest.mark.slow
@pytest.mark.needs("docs")
@pytest.mark.parametrize("script", [s for s in SCRIPTS if s.stem != "library"], ids=lambda p: p.stem)
def test_the_other_notebooks_run(script, tmp_path):
    assert re.search(PROMISED[script.stem], executed(script, tmp_path))


@pytest.mark.parametrize("name", sorted(p.name for p in EXAMPLES.glob("*.toml")))
def test_an_experiment_is_valid(name):
    assert Experiment.load(EXAMPLES / name, ["data.dataset=mini-digits"]).points
