"""The egress report says what an attacker finds in the file: here the attacker plays, on the file alone."""

import json
from itertools import combinations

import numpy as np
import pytest

from ggeur.federation.plan import FederationPlan
from ggeur.federation.statistics_file import read_statistics_file
from ggeur.models.summarize import summarize
from ggeur.privacy.attacks import groups, in_span
from ggeur.report.egress_page import write_egress_report

SIZES, P = {"one": 1, "two": 2, "few": 5, "many": 40}, 8


def write(path, sizes=SIZES, **plan):
    rng = np.random.default_rng(0)
    labels = np.repeat(list(sizes), list(sizes.values()))
    x = rng.normal(size=(len(labels), P)) + 3
    summarize((x, labels), path, plan=FederationPlan(**{"min_count": 0, "test_share": 0} | plan), name="leeds")
    return x, labels


def test_what_it_says_is_recovered_is_recovered_from_the_file_alone(tmp_path):
    x, labels = write(tmp_path / "a.stats")
    found = write_egress_report(tmp_path / "a.stats")
    assert {g.label: (g.given, g.recovered) for g in found.groups} == {
        "one": ("exact samples", 1),
        "two": ("exact samples", 2),
        "few": ("samples up to a rotation", 0),
        "many": ("mean and covariance", 0),
    }
    file = read_statistics_file(tmp_path / "a.stats")
    (packed,) = file.packed.values()
    classes = file.meta.classes
    np.testing.assert_allclose(packed.sum[classes.index("one")], x[labels == "one"][0])
    factors = {classes[c]: factor for c, _, factor in packed.factors()}
    two = x[labels == "two"]
    mean, step = packed.sum[classes.index("two")] / 2, factors["two"][0] / np.sqrt(2)
    guessed = np.stack([mean + step, mean - step])
    assert min(np.abs(guessed - two).max(), np.abs(guessed[::-1] - two).max()) < 1e-12
    # Five samples: all distances between them are those that the factor has, in some frame.
    few, r = x[labels == "few"], factors["few"]
    z = few - few.mean(axis=0)
    inner = z @ np.linalg.pinv(r)  # (5, 4) with orthonormal columns: the rotation that the file does not tell
    np.testing.assert_allclose(inner @ r, z, atol=1e-10)
    for i, j in combinations(range(5), 2):
        distance = np.linalg.norm((inner @ r)[i] - (inner @ r)[j])
        assert distance == pytest.approx(np.linalg.norm(few[i] - few[j]))
    np.testing.assert_allclose(inner.T @ inner, np.eye(4), atol=1e-10)
    # And who holds a sample can tell whether it is one of them.
    group = groups(packed.statistics)[classes.index("few")]
    others = np.random.default_rng(1).normal(size=(5, P)) + 3
    assert in_span(group.mean, group.spread, few).all() and not in_span(group.mean, group.spread, others).any()


@pytest.mark.parametrize(
    ("sizes", "plan", "worst"),
    [
        ({"a": 40, "b": 30}, {}, "mean and covariance"),
        ({"a": 40, "b": 30}, {"covariance": "pooled"}, "mean"),
        ({"a": 8, "b": 30}, {}, "samples up to a rotation"),
        ({"a": 3, "b": 4}, {"covariance": "pooled"}, "samples up to a rotation"),
        ({"a": 1, "b": 30}, {"covariance": "pooled"}, "exact samples"),
        (SIZES, {"min_count": 10}, "mean and covariance"),
    ],
)
def test_the_worst_decides_what_is_recommended(tmp_path, sizes, plan, worst):
    write(tmp_path / "a.stats", sizes, **plan)
    found = write_egress_report(tmp_path / "a.stats")
    assert found.worst == worst and ("Do not export" in found.recommendation) == (worst == "exact samples")
    said = json.loads((tmp_path / "a.stats.json").read_bytes())
    assert said["worst"] == worst and said["recovered_exactly"] == found.recovered
    page = (tmp_path / "a.stats.html").read_text()
    assert "What it gives away" in page and worst in page and said["file"]["sha256"] in page


def test_of_copies_a_higher_min_count_gives_nothing_back(tmp_path):
    x = np.tile(np.arange(1.0, P + 1), (40, 1))
    plan = FederationPlan(min_count=10, test_share=0)
    summarize((x, np.repeat(["a", "b"], 20)), tmp_path / "a.stats", plan=plan, name="a")
    found = write_egress_report(tmp_path / "a.stats")
    (packed,) = read_statistics_file(tmp_path / "a.stats").packed.values()
    np.testing.assert_allclose(packed.sum[0] / 20, x[0])  # which is each sample, as nothing varies
    assert found.recovered == 40 and "Leave out samples that repeat others" in found.recommendation


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "light"), (390, "dark")])
def test_the_page_in_a_browser(chromium, tmp_path, width, scheme):
    write(tmp_path / "a.stats")
    write_egress_report(tmp_path / "a.stats")
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page, said, asked = context.new_page(), [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("request", lambda request: asked.append(request.url))
    page.goto((tmp_path / "a.stats.html").as_uri())
    assert said == [] and len(asked) == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("#groups tbody tr").count() == 4
    context.close()
