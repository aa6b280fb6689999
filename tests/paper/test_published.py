"""The paper's numbers: their own arithmetic, with every known slip named here, and the configuration they came from."""

import re

import numpy as np
import pytest

from ggeur.methods import parameters
from ggeur.paper.paper_tables import published_gains, published_tables

TABLES = published_tables()
# What the printed row itself gives is in published.toml; these are all there are.
AVG_SLIPS = {
    ("table4", "MOON (images)"),
    ("table4", "FedDyn (images)"),
    ("table6", "FedDyn (images)"),
    ("table6", "SCAFFOLD (images)"),
    ("table6", "FedOPT (images)"),
    ("table4", "FedProto (images)"),
    ("table5", "FedDyn (images)"),
    ("table7", "FedNTD"),
}
STD_SLIPS = {("table4", "FedOPT (images)"), ("table5", "SCAFFOLD"), ("table5", "MOON")}
ROUNDING = 0.005 + 1e-9  # half of the last digit, of the figures as printed
WITH_DOMAINS = [name for name, table in TABLES.items() if "AVG" in table.columns]


def rows(name):
    for row, values in TABLES[name].rows.items():
        yield row, np.array(values[:-2]), values[-2], values[-1]


def test_every_table_is_there_and_whole():
    assert set(TABLES) == {f"table{i}" for i in range(1, 12)}
    assert WITH_DOMAINS == ["table4", "table5", "table6", "table7"]
    assert [len(TABLES[f"table{i}"].rows) for i in (1, 2, 3, 4, 5, 6, 7, 10, 11)] == [8, 2, 2, 26, 14, 14, 14, 2, 2]
    for table in TABLES.values():
        assert all(len(values) == len(table.columns) for values in table.rows.values())


@pytest.mark.parametrize("name", WITH_DOMAINS)
def test_avg_is_the_mean_of_the_domains_but_for_the_known_slips(name):
    off = {(name, row) for row, domains, avg, _ in rows(name) if abs(domains.mean() - avg) > ROUNDING}
    assert off == {slip for slip in AVG_SLIPS if slip[0] == name}


@pytest.mark.parametrize("name", WITH_DOMAINS)
def test_std_is_the_deviation_of_the_domains_but_for_the_known_slips(name):
    ddof = TABLES[name].ddof
    off = {(name, row) for row, domains, _, std in rows(name) if abs(domains.std(ddof=ddof) - std) > ROUNDING}
    assert off == {slip for slip in STD_SLIPS if slip[0] == name}


def test_table5_alone_has_the_sample_deviation():
    assert {name: TABLES[name].ddof for name in WITH_DOMAINS} == {"table4": 0, "table5": 1, "table6": 0, "table7": 0}
    for name in WITH_DOMAINS:
        other = 1 - (TABLES[name].ddof or 0)
        fits = [abs(domains.std(ddof=other) - std) <= ROUNDING for _, domains, _, std in rows(name)]
        assert not any(fits)


def test_slips_are_flagged_with_what_was_printed_and_what_the_row_gives():
    flagged = {(name, s.row, s.column) for name, table in TABLES.items() for s in table.slips}
    arithmetic = {(n, r, "AVG") for n, r in AVG_SLIPS} | {(n, r, "STD") for n, r in STD_SLIPS}
    assert flagged == arithmetic | {("table1", "FedFA", "Tiny-ImageNet β=0.5")}
    for name, row, column in arithmetic:
        slip = TABLES[name].slip(row, column)
        assert slip is not None and slip.printed == TABLES[name].value(row, column)
        domains = np.array(TABLES[name].rows[row][:-2])
        true = domains.mean() if column == "AVG" else domains.std(ddof=TABLES[name].ddof)
        assert slip.computed == pytest.approx(true, abs=0.006)
    copied = TABLES["table1"].slip("FedFA", "Tiny-ImageNet β=0.5")
    assert copied is not None and copied.computed is None
    assert copied.printed == TABLES["table1"].value("FedCLIP", "Tiny-ImageNet β=0.5")


def test_quoted_gains_follow_from_the_tables_but_for_one():
    off = []
    for gain in published_gains():
        table = TABLES[gain.table]
        true = table.value(gain.row, gain.column) - table.value(gain.base, gain.column)
        if abs(true - gain.printed) > ROUNDING:
            off.append((gain.table, gain.column, gain.printed))
            assert gain.computed == pytest.approx(true, abs=ROUNDING)
        else:
            assert gain.computed is None
    assert off == [("table11", "K=300", 7.84)]


def test_the_methods_defaults_are_the_papers_parameters():
    for key, (value,) in TABLES["table9"].rows.items():
        method, name = key.split(".")
        default = parameters(method)[name].default
        assert default is None or default == value  # FedOPT's depends on its server; the tables set it


def printed_rows(text, label):
    """The rows of figures of one table of the paper's LaTeX, in order."""
    end = text.index(f"\\label{{{label}}}")
    found = []
    for line in text[text.rindex("\\begin{tabular}", 0, end) : end].split("\\\\"):
        first, *trials = line.split("\\hline\\hline")[-1].replace(r"\&", "and").split("&")
        values = []
        for trial in trials:
            same, figure = re.search(r"multicolumn\{(\d)\}", trial), re.search(r"\d+\.\d+|^ *100\b", trial)
            values += [float(figure[0])] * (int(same[1]) if same else 1) if figure else []
        if len(values) > 2 and not ({*values} <= {0.5, 0.3, 0.1, 0.01, 0.03, 0.05, 0.07, 0.09}):
            found.append((first, tuple(values)))
    return [values for first, values in found if "Methods" not in first and "begin" not in first]


@pytest.mark.real
@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 6, 7, 10, 11])
def test_every_figure_is_the_papers(shared, number):
    text = (shared / "paper" / "ggeur-cvpr2025.tex").read_text(encoding="utf-8")
    printed = printed_rows(text, f"tab{number}")
    if number == 2:  # CIFAR-100 stands below CIFAR-10 there
        printed = [printed[0] + printed[2], printed[1] + printed[3]]
    assert list(TABLES[f"table{number}"].rows.values()) == printed


def test_what_the_paper_does_not_print_is_none():
    assert TABLES["table5"].value("FedAvg + GGEUR", "AVG") is None
    assert TABLES["table5"].value("FedAvg", "SYN") is None
