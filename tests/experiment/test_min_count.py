"""`ggeur fit` with a threshold: small groups take no part, neither in selection nor when a site joins."""

import numpy as np
import pytest

import ggeur
from ggeur.core.errors import GgeurError
from ggeur.experiment import solution
from ggeur.experiment.joining import add_site, forget_site
from ggeur.federation.cross_validation import LocalFolds
from ggeur.report.model_page import write_model_page
from ggeur.runs.model import Model

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
    return {s.name: np.sum([m.count for m in s.messages.values()], axis=0).tolist() for s in found.sums_}


@pytest.mark.usefixtures("undrawn")
def test_small_cells_are_in_no_sums_and_the_model_says_so(sites, tmp_path):
    found = ggeur.fit(sites, method="lda", min_count=10, out=tmp_path / "model")
    assert counts(found) == {"north": [40, 30, 0], "south": [30, 40, 25], "west": [0, 30, 30]}
    assert Model.load(tmp_path / "model").privacy == {"min_count": 10}
    words = "Classes with fewer than 10 samples took no part at that site."
    assert words in (tmp_path / "model" / "card.md").read_text(encoding="utf-8")
    assert words in write_model_page(tmp_path / "model").read_text(encoding="utf-8")
    plain = ggeur.fit(sites, method="lda", out=tmp_path / "plain")
    assert counts(plain)["north"] == [40, 30, 3] and not Model.load(tmp_path / "plain").privacy
    assert "no privacy guarantee" in (tmp_path / "plain" / "card.md").read_text(encoding="utf-8")


def test_no_fold_by_which_auto_chooses_has_fewer_rows_of_a_cell(sites, monkeypatch):
    made, whole = [], LocalFolds.of

    def kept(*of):
        made.append(whole(*of))
        return made[-1]

    monkeypatch.setattr(solution.LocalFolds, "of", kept)
    ggeur.fit(sites, min_count=10, parameters={"candidates": ["ncm", "lda"]})
    sizes = [
        np.sum((c.y[samples] == label) & (fold == k))
        for c in [made[0].clients]
        for samples, fold in zip(c.parts, made[0].fold, strict=True)
        for label in range(3)
        for k in range(4)
    ]
    assert any(sizes) and all(n == 0 or n >= 10 for n in sizes)


def test_who_joins_later_holds_small_cells_back_too(sites, tmp_path):
    first, last = tmp_path / "first", tmp_path / "last"
    all_three = ggeur.fit(sites, method="lda", min_count=10, out=first)
    ggeur.fit(sites[:2], method="lda", min_count=10, out=last)
    add_site(last, sites[2])
    np.testing.assert_allclose(Model.load(last).params["W"], all_three.params_["W"], atol=1e-6)
    assert Model.load(last).privacy == {"min_count": 10}
    forget_site(last, "west")
    assert Model.load(last).privacy == {"min_count": 10}


def test_a_site_without_a_cell_to_share_is_told(sites):
    with pytest.raises(GgeurError, match=r"min_count = 35 is above every group of the site 'west'"):
        ggeur.fit(sites, method="lda", min_count=35)
