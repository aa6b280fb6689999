"""The page of a model folder: whole, safe with any name, true to model.json, and silent about who left."""

import html
import json
import re

import numpy as np
import pytest

import ggeur
from ggeur.models.joining import add_site, forget_site
from ggeur.report.model_page import write_model_page
from refusal import refused

BAD = "<b>x"
QUICK = {"candidates": ["ncm", "lda", {"method": "lda", "shrinkage": 0.5}], "folds": 2}
SECTIONS = [
    "summary",
    "sites",
    "held",
    "choice",
    "tests",
    "tested",
    "trust",
    "coverage",
    "contributions",
    "folder",
    "receipts",
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("sites"), np.random.default_rng(0)
    for i, name in enumerate((BAD, "north", "south", "west")):
        y = np.arange(40 + 4 * i) % 3
        x = rng.normal(size=(len(y), 4)) + 1.5 * np.eye(4)[y] + i / 4
        names, test = ("ant", "<i>bee", "cat"), np.arange(len(y)) % 4 == 0
        ggeur.EmbeddingTable(x=x, y=y, class_names=names, test=test).save(folder / f"{name}.npz")
    return folder


@pytest.fixture(scope="module")
def fit(tables):
    """fit(out, ...): the model of all sites but west, and the text of its page."""

    def fit(out, **options):
        sites = [tables / f"{name}.npz" for name in (BAD, "north", "south")]
        found = ggeur.fit(sites, out=out, **({"parameters": QUICK, "contributions": True} | options))
        assert not (out / "report.html").exists()  # in Python nobody asked for one
        return found, write_model_page(out).read_text(encoding="utf-8")

    return fit


@pytest.fixture(scope="module")
def fitted(fit, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted") / "model"
    return folder, *fit(folder)


def ids(text):
    return re.findall(r'\bid="([^"]+)"', text)


def section(text, id):
    """What is read of the section `id`, without its figures."""
    found = re.search(rf'<(section|figure) id="{id}".*?</\1>', text, re.S)
    assert found, id
    return html.unescape(re.sub(r"<[^>]*>", " ", re.sub(r"<svg.*?</svg>", "", found[0], flags=re.S)))


def test_it_has_every_section_and_asks_the_network_for_nothing(fitted):
    _, _, text = fitted
    there = ids(text)
    assert set(SECTIONS) <= set(there) and len(there) == len(set(there)) and text.count("<svg") == 4
    links = re.findall(r'\b(?:src|href|xlink:href)="([^"]*)"', text)
    assert all(link.startswith(("#", "data:")) for link in links) and "url(http" not in text
    assert {link[1:] for link in links if link.startswith("#")} <= set(there)


def test_names_are_text(fitted):
    _, _, text = fitted
    assert BAD not in text and "<i>bee" not in text
    assert text.count("&lt;b&gt;x") >= 5 and "&lt;i&gt;bee" in text


def test_its_numbers_are_those_of_model_json(fitted):
    folder, found, text = fitted
    about = json.loads((folder / "model.json").read_bytes())
    metrics, chosen = about["metrics"], about["algorithm"]
    said = section(text, "tests")
    for domain, groups in metrics["groups"].items():
        right, rows = np.sum(list(groups.values()), axis=0)
        assert metrics["domains"][domain] == pytest.approx(100 * right / rows)
        assert re.search(rf"{re.escape(domain)}\s+{rows}\s+{metrics['domains'][domain]:.2f}\s", said)
    assert f"{metrics['avg']:.2f} % right on average over 3 domains" in section(text, "summary")
    assert chosen["why"] in section(text, "summary") and chosen["label"] in chosen["expected"]
    bars = text[text.index('<figure id="choice"') :]
    others = {label: value for label, value in chosen["expected"].items() if label != chosen["label"]}
    taken = chosen["expected"][chosen["label"]]
    assert all(f">{value - taken:+.2f}<" in bars for value in others.values()) and ">taken<" in bars
    assert max(chosen["expected"].values()) == 0 and "no accuracy" in section(text, "choice")
    for sums in found.statistics_:
        assert re.search(rf"{re.escape(sums.name)}\s+{sums.samples}\s+3\s", section(text, "sites"))
    assert found.contributions_.head == chosen["label"] and f"({chosen['label']})" in section(text, "contributions")


@pytest.mark.usefixtures("undrawn")
def test_after_forget_only_receipts_know_who_left(fit, tmp_path):
    folder = tmp_path / "model"
    fit(folder)
    assert (folder / "contributions.json").exists()
    forget_site(folder, BAD)
    assert not (folder / "contributions.json").exists() and not (folder / "report.html").exists()
    text = write_model_page(folder).read_text(encoding="utf-8")
    before, receipts = text.split('<section id="receipts">')
    assert "&lt;b&gt;x" not in before and BAD not in text and "&lt;b&gt;x" in receipts
    assert "contributions" not in ids(text), "which were those of the earlier federation"
    assert "chosen by 3 sites as they then were, 1 of which has left" in section(text, "choice")


@pytest.mark.usefixtures("undrawn")
def test_after_add_the_page_is_of_all_and_the_estimate_of_those_before(fit, tables, tmp_path):
    folder = tmp_path / "model"
    fit(folder)
    add_site(folder, tables / "west.npz")
    text = write_model_page(folder).read_text(encoding="utf-8")
    assert "west" in section(text, "sites") and "contributions" not in ids(text)
    assert "chosen by 3 sites as they then were;" in section(text, "choice") and "points too" not in text
    assert "all of them of west" in section(text, "summary")


def test_a_given_method_and_no_test_rows_and_one_site(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    ggeur.fit([(x, y)], method="lda", out=tmp_path / "one", contributions=True)
    text = write_model_page(tmp_path / "one", tmp_path / "page.html").read_text(encoding="utf-8")
    assert not {"choice", "tests"} & set(ids(text)) and not (tmp_path / "one" / "report.html").exists()
    assert "named and not chosen" in text and "no test samples were given" in text


def test_too_few_samples_for_contributions_still_make_a_model(tmp_path):
    with pytest.warns(ggeur.GgeurWarning, match="contributions cannot be estimated"):
        found = ggeur.fit([([[0.0, 1.0], [1.0, 0.0]], [0, 1])], method="ncm", out=tmp_path / "m", contributions=True)
    assert found.contributions_ is None and "contributions" not in ids(write_model_page(tmp_path / "m").read_text())


def test_a_model_that_was_handed_on_has_no_page(fitted, tmp_path):
    for name in ("head.npz", "model.json"):
        (tmp_path / name).write_bytes((fitted[0] / name).read_bytes())
    with refused("model-without-ledger"):
        write_model_page(tmp_path)
