"""`ggeur fit` with a threshold: small groups take no part, neither in selection nor when a site joins."""

import numpy as np
import pytest

import ggeur
from ggeur.models.joining import add_site, forget_site
from ggeur.models.model import Model
from ggeur.report.model_page import write_model_page
from ggeur.stats.errors import GgeurError

ROWS = {"north": (40, 30, 3), "south": (30, 40, 25), "west": (4, 30, 30)}  # of classes a, b and c


@pytest.fixture
def sites(tmp_path):
    """Tables of three sites, as many test samples as training samples."""
    rng, means = np.random.default_rng(0), 4 * np.eye(3, 5)
    for name, samples in ROWS.items():
        y = np.tile(np.repeat(np.arange(3), samples), 2)
        x = means[y] + rng.normal(size=(len(y), 5))
        made = ggeur.EmbeddingTable(x=x.astype(np.float32), y=y, test=np.arange(len(y)) >= sum(samples))
        made = ggeur.EmbeddingTable(x=made.x, y=made.y, test=made.test, class_names=("a", "b", "c"))
        made.save(tmp_path / f"{name}.npz")
    return [tmp_path / f"{name}.npz" for name in ROWS]


def counts(found):
    """Samples of each class that each site sent."""
    return {s.name: np.sum([m.count for m in s.messages.values()], axis=0).tolist() for s in found.statistics_}


@pytest.mark.usefixtures("undrawn")
def test_small_groups_are_in_no_sums_and_the_model_says_so(sites, tmp_path):
    found = ggeur.fit(sites, method="lda", min_count=10, out=tmp_path / "model")
    assert counts(found) == {"north": [40, 30, 0], "south": [30, 40, 25], "west": [0, 30, 30]}
    assert Model.load(tmp_path / "model").privacy == {"min_count": 10}
    words = "Classes with fewer than 10 samples took no part at that site."
    assert words in (tmp_path / "model" / "card.md").read_text(encoding="utf-8")
    assert words in write_model_page(tmp_path / "model").read_text(encoding="utf-8")
    plain = ggeur.fit(sites, method="lda", out=tmp_path / "plain")
    assert counts(plain)["north"] == [40, 30, 3] and not Model.load(tmp_path / "plain").privacy
    assert "no privacy guarantee" in (tmp_path / "plain" / "card.md").read_text(encoding="utf-8")


def test_auto_selects_from_what_is_shared_and_nothing_else(sites):
    held = [ggeur.EmbeddingTable.load(path) for path in sites]
    shared = [t.subset(np.flatnonzero(t.test | (np.bincount(t.y[~t.test], minlength=3) >= 10)[t.y])) for t in held]
    names, asked = [path.stem for path in sites], {"candidates": ["ncm", "lda", "ridge"]}
    first = ggeur.fit(dict(zip(names, held, strict=True)), min_count=10, parameters=asked, calibrate=False)
    second = ggeur.fit(dict(zip(names, shared, strict=True)), parameters=asked, calibrate=False)
    assert first.solution_ == second.solution_ and len(first.solution_.expected) == 3


def test_who_joins_later_holds_small_groups_back_too(sites, tmp_path):
    first, last = tmp_path / "first", tmp_path / "last"
    all_three = ggeur.fit(sites, method="lda", min_count=10, out=first)
    ggeur.fit(sites[:2], method="lda", min_count=10, out=last)
    add_site(last, sites[2])
    np.testing.assert_allclose(Model.load(last).params["W"], all_three.params_["W"], atol=1e-6)
    assert Model.load(last).privacy == {"min_count": 10}
    forget_site(last, "west")
    assert Model.load(last).privacy == {"min_count": 10}


def test_a_site_without_a_group_to_share_is_told(sites):
    with pytest.raises(GgeurError, match=r"min_count = 35 is above every group of the site 'west'"):
        ggeur.fit(sites, method="lda", min_count=35)
