"""Sweeps: a block for each setting, best within it, in the terminal, on the page and in LaTeX; names whole."""

import io
import re

import pytest
from rich.console import Console

from ggeur.cli import screen
from ggeur.experiments.result import Result, Trial
from ggeur.report.charts import convergence
from ggeur.report.folders import read_run
from ggeur.report.page import write_report
from ggeur.report.tables import averaged, compare, to_latex

SWEEP = {
    "partition": {"kind": "label-and-domain", "beta": [0.1, 5.0]},
    "augment": {"kind": ["none", "ggeur"]},
    "run": {"seeds": [0, 1]},
}
# Points are (none, 0.1), (none, 5), (ggeur, 0.1), (ggeur, 5) or the like: ggeur leads at 0.1, none at 5, and whatever
# comes out at 5 is above all of 0.1.
AVG = {("none", 0.1): 50.0, ("ggeur", 0.1): 60.0, ("none", 5.0): 90.0, ("ggeur", 5.0): 80.0}


@pytest.fixture
def sweep(build_run):
    return build_run(SWEEP, lambda i, point, seed: AVG[point.augment.kind, point.partition.beta] + seed)


def shown(result, width=80):
    """The table as the terminal shows it, and which names have a bold figure."""
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system="standard")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(screen, "console", console)
        console.print(screen.result_table(result, "sweep"))
    return console.file.getvalue()


def test_each_setting_is_a_block_and_best_is_within_it(sweep):
    table = compare(Result.load(sweep), None)
    assert [(block, [line.name for line in lines]) for block, lines in table.blocks] == [
        ("beta 0.1", ["FedAvg", "FedAvg + GGEUR"]),
        ("beta 5.0", ["FedAvg", "FedAvg + GGEUR"]),
    ]
    avg = table.columns.index("AVG")
    assert [(line.block, line.name) for line in table.lines if table.leads(line, avg)] == [
        ("beta 0.1", "FedAvg + GGEUR"),
        ("beta 5.0", "FedAvg"),
    ]


def test_the_terminal_has_a_block_for_each(sweep):
    text = shown(Result.load(sweep), 100)
    assert text.index("beta 0.1") < text.index("60.50") < text.index("beta 5.0") < text.index("90.50")
    bold = [re.sub(r"\x1b\[[0-9;]*m", "", part) for part in re.findall(r"\x1b\[1m([^\x1b]*)", text)]
    assert [one for one in bold if "±" in one] == ["60.50 ± 0.71", "90.50 ± 0.71"]


def test_latex_has_a_block_for_each(sweep):
    text = to_latex(compare(Result.load(sweep), None))
    first, second = text.split(r"\multicolumn{7}{l}{\emph{beta 5.0}}")
    assert r"\multicolumn{7}{l}{\emph{beta 0.1}}" in first and r"\textbf{60.50}" in first
    assert r"\textbf{90.50}" in second and r"\textbf{80.50}" not in second


@pytest.mark.usefixtures("undrawn")
def test_the_page_has_a_block_for_each(sweep, tmp_path):
    page = write_report([sweep], tmp_path / "r.html").read_text()
    table = page[page.index("Table of results") : page.index("</table>")]
    assert table.count("<tbody>") == 2 and table.count('scope="rowgroup"') == 2
    assert re.findall(r"★ (\d\d\.\d)", table).count("60.5") and "★ 90.5" in table and "★ 80.5" not in table
    assert "within its setting" in page


def test_settings_of_one_row_each_are_rows_and_none_is_best(build_run):
    tree = {"partition": {"kind": "label-and-domain", "beta": [0.1, 5.0]}, "run": {"seeds": [0, 1]}}
    table = compare(Result.load(build_run(tree)), None)
    assert [line.name for line in table.lines] == ["beta 0.1", "beta 5.0"] and len(table.blocks) == 1
    assert not any(table.leads(line, i) for line in table.lines for i in range(len(table.columns)))


def test_of_rates_that_are_tried_one_is_best(build_run):
    table = compare(Result.load(build_run({"train": {"learning_rate": [0.1, 0.2]}, "run": {"seeds": [0, 1]}})), None)
    assert table.leads(table.lines[1], table.columns.index("AVG"))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_long_name_is_shown_whole_whatever_the_width(width):
    name = "a_package_with_a_long_name.methods:fedavg_with_clipping_and_more"
    domains = {"handwritten": 50.0, "typeset": 50.0, "clutter": 50.0, "texture": 50.0}
    trials = [Trial(name, "none", s, {"train.method": name}, domains=domains, avg=50.0 + s, std=1.0) for s in (0, 1)]
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown(Result(trials), width)).splitlines()
    first = "".join(line.split("│")[1].strip() for line in lines if line.startswith("│"))
    assert name in first.replace(" ", "")


def test_a_chart_names_its_setting_whole(build_run):
    tree = SWEEP | {"partition": {"kind": "dirichlet", "clients": [3, 4], "beta": [0.125], "min_per_class": 0}}
    run = read_run(build_run(tree | {"train": {"learning_rate": [0.0125]}}))
    titles = [ax.get_title().replace("\n", " ") for ax in convergence(run.entries).axes]
    assert "FedAvg, clients 3, beta 0.125, learning_rate 0.0125" in titles


@pytest.mark.parametrize(
    ("rounds", "says"),
    [
        ([[1.0]], ""),
        ([[1.0] * 3], ", mean of the 3 rounds"),
        ([[1.0] * 5], ", mean of the last five rounds"),
        ([[1.0], [1.0] * 9], ", mean of the last five rounds of what is trained"),
        ([], ""),
    ],
)
def test_the_last_five_rounds_are_named_only_where_there_were_five(rounds, says):
    trials = [
        Trial("lda" if len(r) == 1 else "fedavg", "none", 0, {}, rounds=r, local_steps=[1] * (len(r) > 1))
        for r in rounds
    ]
    assert averaged(trials) == says


@pytest.mark.parametrize(
    ("method", "augment", "steps", "name"),
    [("fedavg", "ggeur", [3], "FedAvg + GGEUR"), ("fedavg", "none", [3], "FedAvg"), ("lda", "ggeur", [], "lda")],
)
def test_a_row_without_a_grid_says_what_it_was_trained_on(method, augment, steps, name):
    """As that of a real federation, which has one row."""
    trials = [Trial(method, augment, 0, {}, avg=50.0, domains={"a": 50.0}, local_steps=steps, rounds=[50.0])]
    assert [line.name for line in compare(Result(trials), None).lines] == [name]
