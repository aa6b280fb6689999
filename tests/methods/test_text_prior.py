"""Text as a prior, on classes whose means follow from their text but for a gap: what it says of classes of few
samples.
"""

from dataclasses import replace

import numpy as np
import pytest

from ggeur.federation.local_federation import LocalFederation
from ggeur.federation.selection import select
from ggeur.methods import resolve_closed_form
from ggeur.methods.algorithm import Task
from ggeur.methods.auto import auto
from ggeur.methods.oneshot import text_prior
from ggeur.methods.oneshot.text_prior import mapped_text, mended, worth
from ggeur.models.fit import fit
from ggeur.stats.errors import Unavailable
from ggeur.stats.site_statistics import FederationStatistics, SiteStatistics
from refusal import refused

C, P, FEW = 30, 64, (0, 1, 2, 3, 4, 0, 1, 2)
NAMES = tuple(map(str, range(C)))


class World:
    """Images lie where a scaled and turned text does, and a shift away, but for a gap of every class's own."""

    def __init__(self, seed, gap=0.3):
        rng = np.random.default_rng(seed)
        t = rng.normal(size=(C, P))
        self.text = t / np.linalg.norm(t, axis=1, keepdims=True)
        turn = np.linalg.qr(rng.normal(size=(P, P)))[0]
        self.mean = 4 * self.text @ (0.8 * np.eye(P) + 0.3 * turn) + rng.normal(size=P)
        self.mean += 4 * gap * rng.normal(size=(C, P)) / np.sqrt(P)
        self.spread, self.rng = rng.uniform(0.5, 1.5, P), rng

    def samples(self, count):
        y = np.repeat(np.arange(C), count)
        return self.mean[y] + self.spread * self.rng.normal(size=(len(y), P)), y

    def total(self, count):
        return FederationStatistics.of([(0, SiteStatistics.from_embeddings(*self.samples(count), C).of_kind("pooled"))])

    @property
    def task(self):
        return Task(P, NAMES, {"single": self.text.astype(np.float32)}, (0,))

    def recall(self, params):
        """In percent, of every class, on samples that are the same for all heads."""
        y = np.repeat(np.arange(C), 200)
        x = self.mean[y] + self.spread * np.random.default_rng(9).normal(size=(len(y), P))
        hit = (x @ params["W"].T.astype(np.float64) + params["b"]).argmax(axis=1) == y
        return np.array([100 * hit[y == c].mean() for c in range(C)])


def test_classes_of_no_to_four_rows_are_known_and_the_others_hardly_lose():
    count = np.array([*FEW, *[60] * (C - len(FEW))])
    gain, loss = [], []
    for seed in range(3):
        world = World(seed)
        total = world.total(count)
        plain, ours = (
            world.recall(resolve_closed_form(name, {}).solve(total, world.task)) for name in ("lda", "text-prior")
        )
        nobody = np.flatnonzero(count == 0)
        assert (plain[nobody] == 0).all() and (ours[nobody] > 40).all(), "a class that nobody holds can be the answer"
        gain.append((ours - plain)[: len(FEW)].mean())
        loss.append((plain - ours)[len(FEW) :].mean())
    assert min(gain) > 30 and np.mean(loss) <= 0.5


def test_every_head_gains():
    world = World(0)
    total = world.total(np.array([*FEW, *[60] * (C - len(FEW))]))
    for head in ("ncm", "ridge"):
        plain = world.recall(resolve_closed_form(head, {}).solve(total, world.task))
        ours = world.recall(resolve_closed_form("text-prior", {"head": head}).solve(total, world.task))
        assert (ours - plain)[: len(FEW)].mean() > 20 and (plain - ours)[len(FEW) :].mean() <= 1


def test_a_mapped_text_has_not_seen_its_own_class(monkeypatch):
    """However far its mean is moved; with it, the fit would pass near."""
    monkeypatch.setattr(text_prior, "_RIDGE", (0.3,))  # which is chosen by all classes
    world = World(1)
    mean, count = world.mean.copy(), np.full(C, 50.0)
    count[3] = 0
    before = mapped_text(world.text, mean, count)
    moved = mean.copy()
    moved[[3, 7]] += 100.0
    after = mapped_text(world.text, moved, count)
    np.testing.assert_allclose(after[7], before[7], atol=1e-9)
    assert np.abs(after[8] - before[8]).max() > 0.1, "the test is too weak"


def test_a_text_is_worth_the_rows_after_which_a_mean_is_as_near():
    rng, n = np.random.default_rng(0), np.full(400, 30.0)
    sigma = np.diag(np.linspace(0.5, 2, 8))
    for k in (2.0, 20.0):
        away = rng.normal(size=(400, 8)) @ np.sqrt(sigma) * np.sqrt(1 / k + 1 / 30)  # of text, and of the mean itself
        assert worth(away, n, sigma) == pytest.approx(k, rel=0.15)


def test_mended_means_are_those_of_the_formula_and_the_spread_stays():
    world = World(2)
    total = world.total(np.array([0, 2, *[40] * (C - 2)]))
    mapped, sigma = world.mean + 1.0, total.within
    found = mended(total, total.count, mapped, 8.0, sigma)
    np.testing.assert_allclose(found.mean[0], mapped[0])
    np.testing.assert_allclose(found.mean[1], (2 * total.mean[1] + 8 * mapped[1]) / 10)
    np.testing.assert_allclose(found.within, sigma, atol=1e-9)


def test_without_rows_or_share_it_is_the_head_itself():
    world = World(0)
    total = world.total(np.full(C, 40))
    plain = resolve_closed_form("lda", {}).solve(total, world.task)
    off = resolve_closed_form("text-prior", {"samples": 0.0, "share": 0.0}).solve(total, world.task)
    np.testing.assert_allclose(off["W"], plain["W"], rtol=1e-4, atol=1e-5)


def test_what_it_lacks_is_said():
    world = World(0)
    total = world.total(np.full(C, 3))
    with refused("text-embeddings-missing: text-prior", Unavailable):
        resolve_closed_form("text-prior", {}).solve(total, Task(P, NAMES))
    few = np.zeros(C, int)
    few[:2] = 5
    with refused("classes-too-few", Unavailable):
        resolve_closed_form("text-prior", {}).solve(world.total(few), world.task)


@pytest.mark.parametrize("given", [{"samples": np.inf}, {"samples": np.nan}, {"samples": -1.0}, {"share": np.inf}])
def test_numbers_that_are_none_are_refused(given):
    with refused(f"hyperparameter-invalid: [method.text-prior] {next(iter(given))}"):
        resolve_closed_form("text-prior", given)


def test_auto_has_it_where_the_task_has_text():
    chosen = auto()
    names = [c.name for c in chosen.of_task(World(0).task).candidates]
    assert "text-prior" in names and "text-prior" not in [c.name for c in chosen.of_task(Task(P, NAMES)).candidates]
    assert not auto(candidates=["lda"]).by_text


def test_what_is_fitted_to_rows_alone_says_that_it_knows_no_text():
    world = World(0)
    x, y = world.samples(np.full(C, 4))
    with refused("method-needs-text: text-prior"):
        fit([(x, y)], method="text-prior")


def chosen_for(world, count, task):
    """What `auto` takes of `lda` and `text_prior` for one client with `count` samples of every class."""
    x, y = world.samples(np.array(count))
    clients = LocalFederation.of(x.astype(np.float32), y, np.zeros(len(y), int), C, [np.arange(len(y))])
    chosen = auto(candidates=["lda", "text-prior"], covariance="pooled")
    choice = select(chosen, clients.by_domain(chosen.sends), task, 0)
    return choice, choice.sentence(chosen.candidates)


def test_auto_takes_it_where_it_knows_classes_that_nobody_holds():
    """Which classes left out tell of; samples of the others alone say nothing."""
    world, count = World(0), [0] * 6 + [40] * (C - 6)
    choice, said = chosen_for(world, count, world.task)
    assert choice.taken == 1 and said.startswith("Selected text-prior: it ranks first and leads the default lda")
    total = world.total(np.array(count))
    lda, ours = (
        world.recall(resolve_closed_form(name, {}).solve(total, world.task)).mean() for name in ("lda", "text-prior")
    )
    assert ours > lda + 10, "the test is too weak"
    assert abs(choice.lead - (ours - lda)) < 8
    choice, _ = chosen_for(world, [40] * C, world.task)
    assert abs(choice.behind[0] - choice.behind[1]) < 5, "no class must be known by its name alone"


def test_auto_takes_none_where_text_says_nothing():
    world = World(0)
    noise = np.random.default_rng(5).normal(size=(C, P)).astype(np.float32)
    choice, _ = chosen_for(world, [0] * 2 + [40] * (C - 2), replace(world.task, text={"single": noise}))
    assert choice.taken == 0


def test_auto_passes_over_what_cannot_be_solved_for():
    world = World(0)
    choice, said = chosen_for(world, [20, 20] + [0] * (C - 2), world.task)
    assert choice.taken == 0 and choice.ranking == (0,) and "text-prior" not in said
    chosen = auto(candidates=["text-prior"])
    with refused("text-embeddings-missing", Unavailable):
        select(chosen, [world.total(np.full(C, 3))], Task(P, NAMES), 0)
