"""Contributions: every number held to heads solved from scratch without the site, the file, the part of a page."""

import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from ggeur.data.table import EmbeddingTable
from ggeur.experiments.settings import settings
from ggeur.experiments.table_contributions import contributions_of_table
from ggeur.federation.contributions import (
    FILE,
    Estimate,
    SiteSamples,
    contributions,
    load_contributions,
    save_contributions,
    sites_of,
)
from ggeur.federation.local_federation import LocalFederation
from ggeur.federation.stored_statistics import StoredFederation, stored_statistics
from ggeur.heads import resolve as resolve_head
from ggeur.heads.head import double_logits
from ggeur.methods import resolve, resolve_closed_form
from ggeur.methods.algorithm import Task
from ggeur.report.model_page import contributions_section
from ggeur.report.page import write_report
from ggeur.stats.site_statistics import FederationStatistics
from refusal import refused

P, C = 4, 3
TASK = Task(P, ("ant", "bee", "cat"))
MEANS = 1.5 * np.random.default_rng(9).normal(size=(C, P))
BY_DOMAIN = settings({"data": {"table": "-"}, "partition": {"kind": "domain"}}).partition


def samples(seed, n=30, classes=range(C), shift=0.0):
    rng = np.random.default_rng(seed)
    y = rng.choice(list(classes), size=n)
    return MEANS[y] + rng.normal(size=(n, P)) + shift, y


def a_site(name, seed, domain=0, **how):
    (x, y), (left_x, left_y) = samples(seed, **how), samples(seed + 100, n=20)
    return SiteSamples(sent(name, x, y, domain), left_x, left_y)


def sent(name, x, y, domain=0):
    return stored_statistics(name, x, y, TASK.class_names, np.full(len(y), domain), "0123", "per-class")


@pytest.fixture(scope="module")
def four():
    return [
        a_site("a", 0, domain=0), a_site("b", 1, domain=1, shift=1.0),
        a_site("c", 2, domain=1, classes=(0, 1)), a_site("d", 3, domain=2, n=8),
    ]  # fmt: skip


def statistics(sites, solved):
    """Added up by hand, about the mean of all samples."""
    each = [(int(d), m) for site in sites for d, m in site.sent.messages.items()]
    n = sum(m.count.sum() for _, m in each)
    center = sum(m.count.sum() * m.center + m.sum.sum(axis=0) for _, m in each) / n
    return FederationStatistics.of([(d, m.about(center).of_kind(solved.needs)) for d, m in each], solved.apart)


def accuracy(sites, members, solved):
    """Of the head of `members` at every site, in percent, from statistics added up and solved anew."""
    params = solved.solve(statistics([sites[i] for i in sorted(members)], solved), TASK)
    head = resolve_head(solved.head)
    return np.array([100 * (double_logits(head, params, s.x).argmax(axis=1) == s.y).mean() for s in sites])


@pytest.mark.parametrize("name", ["ncm", "lda", "ridge", "ggeur-limit", "mixture", "blend"])
def test_all_numbers_are_those_of_heads_solved_from_scratch(four, name):
    solved, everybody = resolve_closed_form(name, {}), set(range(4))
    whole, found = accuracy(four, everybody, solved), contributions(four, solved, TASK, name)
    assert found.head == name and [one.site for one in found.sites] == ["a", "b", "c", "d"]
    assert [one.accuracy.value for one in found.sites] == pytest.approx(whole)
    for i, one in enumerate(found.sites):
        added = whole - accuracy(four, everybody - {i}, solved)
        assert one.to_itself.value == pytest.approx(added[i], abs=1e-12)
        assert one.to_others.value == pytest.approx(np.delete(added, i).mean(), abs=1e-12)


@pytest.mark.parametrize("name", ["lda", "mixture"])
def test_a_head_without_a_site_is_that_of_the_others_bit_for_bit(four, name):
    solved, made, heard = resolve_closed_form(name, {}), [], []
    recorded = solved._replace(solve=lambda total, task: made.append(solved.solve(total, task)) or made[-1])
    contributions(four, recorded, TASK, on_head=lambda *done: heard.append(done))
    assert len(made) == 5 and heard == [(i, 5) for i in range(1, 6)]
    for i in range(4):
        others = [site.sent for site in four[:i] + four[i + 1 :]]
        wanted = solved.solve(StoredFederation(others, TASK.class_names).statistics(solved.query), TASK)
        assert all(np.array_equal(wanted[key], made[i + 1][key]) for key in wanted)


def test_a_site_without_samples_adds_exactly_nothing(four):
    x, y = samples(0)
    for empty in (
        SiteSamples(sent("empty", x[:0], y[:0]), x[:0], y[:0]),
        SiteSamples(sent("empty", x[:0], y[:0]), x, y),
    ):
        *_, last = contributions([*four, empty], resolve_closed_form("mixture", {}), TASK).sites
        assert last.to_others.value == 0 and (last.accuracy is None) == (not len(empty.y))


def test_errors_are_binomial_paired_and_at_least_one_sample(four):
    for site, one in zip(four, contributions(four, resolve_closed_form("lda", {}), TASK).sites, strict=True):
        a, n = one.accuracy.value / 100, len(site.y)
        assert one.accuracy.error == pytest.approx(100 * max(np.sqrt(a * (1 - a) / n), 1 / n))
        assert one.to_itself.error >= 100 / 20 - 1e-9 and one.to_others.error >= 100 / 20 / np.sqrt(3) - 1e-9


def test_sites_leave_a_fold_of_every_group_out_and_send_the_rest():
    x, y = samples(0, n=120)
    domains = np.repeat([0, 1, 1], 40)
    parts = [np.arange(60), np.arange(60, 120)]  # the first has samples of both domains
    solved = resolve_closed_form("lda", {})
    sites = sites_of(LocalFederation.of(x, y, domains, C, parts), ["one", "two"], solved, TASK, 0)
    assert [[int(d) for d in site.sent.messages] for site in sites] == [[0, 1], [1]]
    for site, part in zip(sites, parts, strict=True):
        count = sum(m.count for m in site.sent.messages.values())
        np.testing.assert_array_equal(count + np.bincount(site.y, minlength=C), np.bincount(y[part], minlength=C))
        assert all(m.kind == "pooled" for m in site.sent.messages.values())
        assert 60 / 4 - 6 <= len(site.y) <= 60 / 4 + 6
    far = sites_of(LocalFederation.of(x + 1e6, y, domains, C, parts), ["one", "two"], solved, TASK, 0)
    assert far[0].sent.messages["000000"].center.mean() > 1e5  # about the mean, where zero would lose all digits
    near, moved = (contributions(s, solved, TASK).sites[0].accuracy.value for s in (sites, far))
    assert near == moved


def test_too_few_samples_and_a_single_site(four):
    with refused("contributions-samples-too-few"):
        contributions(
            [SiteSamples(sent("a", *(a[:0] for a in samples(0))), np.zeros((0, P)), np.zeros(0, int))],
            resolve_closed_form("lda", {}),
            TASK,
        )
    (one,) = contributions(four[:1], resolve_closed_form("lda", {}), TASK).sites
    assert one.to_others is None and one.to_itself.value == pytest.approx(one.accuracy.value - 100 / C)


def test_of_a_method_that_chooses_the_head_that_it_takes_is_looked_at(build_table):
    chosen = resolve("auto", None, {"candidates": ["lda", "mixture"], "folds": 2})
    found = contributions_of_table(build_table(), BY_DOMAIN, chosen, 0)
    taken = {c.label: c.solved for c in chosen.candidates}[found.head]
    assert found == contributions_of_table(build_table(), BY_DOMAIN, taken, 0, found.head)


@pytest.mark.real
def test_office_caltech_by_domain(shared):
    """The two web domains, each the other's only source of such pictures, give each other most."""
    table = EmbeddingTable.load(shared / "data" / "embeddings" / "office_caltech10.tinyvit.npz")
    found = contributions_of_table(table, BY_DOMAIN, resolve_closed_form("lda", {}), 0, "lda")
    assert [one.site for one in found.sites] == ["amazon", "caltech", "dslr", "webcam"]
    assert min(one.accuracy.value for one in found.sites) > 90


# ---------------------------------------------------------------- the file and the page


@pytest.fixture
def found(four):
    return contributions(four, resolve_closed_form("lda", {}), TASK, "lda")


def test_the_file_is_read_back_as_it_was_and_a_damaged_one_is_refused_by_name(found, tmp_path):
    assert load_contributions(tmp_path) is None
    first = found.sites[0]._replace(accuracy=None)
    for one in (found, found._replace(sites=(first, *found.sites[1:]))):
        save_contributions(one, tmp_path)
        assert load_contributions(tmp_path) == one
    whole = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(whole.replace(b'"d"', b'"e"'))
    with refused("file-damaged: checksum"):
        load_contributions(tmp_path)
    for change in ({"schema": 2}, {"sites": [["a"]]}, {"head": 3}, {"more": 1}):
        tree = json.loads(whole) | change
        del tree["sha256"]
        (tmp_path / FILE).write_text(json.dumps(tree), encoding="utf-8")
        with refused("file-damaged: contributions.json"):
            load_contributions(tmp_path)


def test_the_table_shows_the_numbers_and_marks_what_is_beyond_chance(found):
    """Of four sites 95 % takes 2.5 standard errors."""
    points = (Estimate(2.4, 1.0), Estimate(2.6, 1.0), Estimate(-2.6, 1.0), Estimate(-0.0, 1.0))
    sites = tuple(one._replace(to_others=e) for one, e in zip(found.sites, points, strict=True))
    bad = sites[0]._replace(site="<script>alert(1)</script>")
    tree = ElementTree.fromstring(contributions_section(found._replace(sites=(bad, *sites[1:])), "x"))
    trials = [[trial.text for trial in row] for row in tree.iter("tr")][1:]
    assert [row[0] for row in trials] == ["b", "<script>alert(1)</script>", "d", "c"]
    assert [row[3] for row in trials] == ["+2.6 ± 1.0*", "+2.4 ± 1.0", "+0.0 ± 1.0", "-2.6 ± 1.0*"]
    assert trials[0][1] == f"{found.sites[1].accuracy.value:.1f} ± {found.sites[1].accuracy.error:.1f}"


def test_a_run_folder_with_the_file_has_the_section(own_run, found, tmp_path):
    save_contributions(found, own_run)
    try:
        text = write_report([own_run], tmp_path / "report.html").read_text(encoding="utf-8")
    finally:
        (own_run / FILE).unlink()
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids)) and "run0-contributions" in ids and 'href="#run0-contributions"' in text
