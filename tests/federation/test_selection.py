"""Selection from statistics: exact on Gaussian groups, blind to what moments do not hold, and its rule by hand."""

import numpy as np
import pytest

import ggeur
from ggeur.federation.folds import folds_of
from ggeur.federation.selection import Scores, by_rule, cross_validated, select, validation
from ggeur.federation.synthetic import synthetic_samples
from ggeur.methods.algorithm import Task
from ggeur.methods.auto import auto
from ggeur.stats.errors import GgeurError, Unavailable
from ggeur.stats.site_statistics import Breakdown, FederationStatistics, SiteStatistics

P, C = 8, 4
TASK = Task(P, tuple("abcd"))
CANDIDATES = ("blend", "lda", {"method": "ridge", "alpha": 1.0}, "ggeur-limit", "mixture")


@pytest.mark.parametrize("bad", [["fedavg"], [{"shrinkage": 1.0}], [], ["auto"]])
def test_candidates_that_are_none_are_refused(bad):
    with pytest.raises(GgeurError, match="candidates"):
        auto(candidates=bad)


def chosen(*candidates):
    return auto(candidates=list(candidates or CANDIDATES))


def real_samples(by_domain, samples):
    """Samples as `synthetic_samples` would make them, which are the real ones."""
    made = synthetic_samples(by_domain, 0)
    order = [x[y == c] - made.statistics[0].center for x, y in samples for c in np.unique(y)]
    return type(made)(np.concatenate(order), made.y, made.domain, made.weight, made.statistics)


def federation(rng, law, sizes=60, unseen=()):
    """Three domains of four classes, whose samples scatter by `law` about the groups' means."""
    mixes = np.eye(P) + 0.3 * rng.normal(size=(3, C, P, P))
    means = 1.2 * rng.normal(size=(1, C, P)) + 0.7 * rng.normal(size=(3, 1, P)) + 0.3 * rng.normal(size=(3, C, P))
    samples = []
    for d in range(3):
        y = np.repeat([c for c in range(C) if (d, c) not in unseen], sizes)
        samples.append((means[d, y] + np.einsum("np,npq->nq", law(rng, (len(y), P)), mixes[d, y]), y))
    return samples, [SiteStatistics.from_embeddings(x, y, C) for x, y in samples]


def gaussian(rng, shape):
    return rng.normal(size=shape)


def with_outliers(rng, shape):
    """Of the same mean and covariance, most of it in a sample of fifty."""
    return rng.normal(size=shape) * np.where(rng.random((shape[0], 1)) < 0.02, np.sqrt(45.1), np.sqrt(0.1))


def on(monkeypatch, by_domain, samples, seed=0):
    """Cross-validation on the real samples by the same function."""
    with monkeypatch.context() as m:
        m.setattr("ggeur.federation.selection.synthetic_samples", lambda *_, **__: real_samples(by_domain, samples))
        return cross_validated(chosen(), by_domain, TASK, seed, {})


def differences(monkeypatch, law, federations):
    """(federations, candidates): the estimate on synthetic samples minus that on real ones."""
    found = []
    for seed in range(federations):
        samples, by_domain = federation(np.random.default_rng(seed), law)
        synthetic = cross_validated(chosen(), by_domain, TASK, seed, {})
        found.append(synthetic.estimate - on(monkeypatch, by_domain, samples, seed).estimate)
    return np.array(found)


def test_on_gaussian_federations_the_estimate_is_that_on_real_samples(monkeypatch):
    off = differences(monkeypatch, gaussian, 12)
    error = off.std(axis=0, ddof=1) / np.sqrt(len(off))
    assert (error < 0.006).all()  # so that a difference of two points would be seen
    assert (np.abs(off.mean(axis=0)) < 3 * error).all()


def test_on_others_it_is_not_which_is_why_no_estimate_is_called_an_accuracy(monkeypatch):
    off = differences(monkeypatch, with_outliers, 6)
    error = off.std(axis=0, ddof=1) / np.sqrt(len(off))
    assert (np.abs(off.mean(axis=0)) > 3 * error).all()


def test_draws_of_groups_left_out_stand_for_unseen_ones_and_all_weigh_one():
    unseen = [(0, 1), (1, 3), (2, 0)]
    _, by_domain = federation(np.random.default_rng(1), gaussian, 12, unseen)
    scores = cross_validated(chosen("lda", "ggeur-limit"), by_domain, TASK, 0, {})
    assert scores.whole and scores.known
    assert scores.share.shape == (2, 9 + 9)  # nine seen groups, each left out whole once, as each class has two
    np.testing.assert_allclose(scores.weight, np.repeat([1 / 12, 3 / 9 / 12], 9))
    samples = synthetic_samples(by_domain, 0)
    for part in validation(samples, folds_of(samples.made, 4, 0), 4, 0):
        if part.kind == 1:  # what is left of the statistics holds nothing of the groups that are scored
            total = samples.without(part.left, "per-class", Breakdown("pooled"))
            assert not any(total.apart[d].count[c] for d, c in zip(part.domain, part.y, strict=True))
            assert (np.bincount(part.domain * C + part.y)[np.unique(part.domain * C + part.y)] == 100).all()


def test_unseen_groups_that_nothing_can_stand_for_leave_the_default():
    rng = np.random.default_rng(0)
    by_domain = []
    for d in range(2):
        y = np.repeat([2 * d, 2 * d + 1], 30)
        by_domain.append(SiteStatistics.from_embeddings(rng.normal(size=(60, P)) + y[:, None], y, C))
    found = select(chosen("lda", "ggeur-limit"), by_domain, TASK, 0)
    assert (found.taken, found.ranking) == (1, ())
    assert found.sentence(chosen("lda", "ggeur-limit").candidates).startswith(
        "Selected ggeur-limit, the default: no class is held"
    )


@pytest.mark.parametrize("kind", ["per-class", "pooled"])
def test_it_is_a_function_of_the_statistics_the_candidates_and_the_seed(kind):
    samples, sent = federation(np.random.default_rng(2), gaussian, 20, [(0, 0), (1, 1)])
    candidates = auto(candidates=list(CANDIDATES), covariance=kind)
    by_domain = [m.of_kind(kind) for m in sent]
    first, again = (cross_validated(candidates, by_domain, TASK, 0, {}) for _ in range(2))
    np.testing.assert_array_equal(first.share, again.share)
    halves = [
        (d, SiteStatistics.from_embeddings(x[i::2], y[i::2], C).of_kind(kind))
        for d, (x, y) in enumerate(samples)
        for i in (0, 1)
    ]
    merged = FederationStatistics.of(halves, Breakdown(kind)).apart  # of two sites in each domain
    np.testing.assert_allclose(cross_validated(candidates, merged, TASK, 0, {}).share, first.share, atol=0.02)
    other = cross_validated(candidates, by_domain, TASK, 1, {})
    assert np.abs(other.share - first.share).max() > 0


@pytest.mark.parametrize("kind", ["per-class", "pooled"])
def test_groups_of_one_sample_and_groups_that_a_threshold_removed_are_no_trouble(kind):
    rng = np.random.default_rng(3)
    count = np.array([[1, 30, 0, 2], [12, 1, 40, 0], [0, 0, 0, 0], [3, 9, 1, 1]])  # the third domain is below it
    by_domain = []
    for sizes in count:
        y = np.repeat(np.arange(C), sizes)
        by_domain.append(
            SiteStatistics.from_embeddings(rng.normal(size=(len(y), P)) + 3 * y[:, None], y, C).of_kind(kind)
        )
    candidates = auto(candidates=list(CANDIDATES), covariance=kind)
    found = select(candidates, by_domain, TASK, 0)
    assert sorted(found.ranking) == list(range(len(CANDIDATES))) and not found.unavailable
    assert np.isfinite([found.lead, found.error]).all()


@pytest.mark.parametrize("kind", ["per-class", "pooled"])
def test_counts_that_are_not_whole_and_scatters_of_full_rank_as_under_noise_are_no_trouble(kind):
    rng = np.random.default_rng(7)
    noisy = []
    for sizes in ([2, 20, 0, 9], [15, 1, 8, 0]):
        y = np.repeat(np.arange(C), sizes)
        m = SiteStatistics.from_embeddings(rng.normal(size=(len(y), P)) + 2 * y[:, None], y, C).of_kind(kind)
        levelled = m.second + 3 * np.eye(P) * (m.present[:, None, None] if kind == "per-class" else 1)
        noisy.append(SiteStatistics(m.count + 0.4 * m.present, m.sum, levelled, m.center))
    samples = synthetic_samples(noisy, 0)
    for d, m in enumerate(noisy):
        held = np.bincount(samples.y[samples.domain == d], samples.weight[samples.domain == d], C)
        np.testing.assert_allclose(held, m.count)
    found = select(auto(candidates=list(CANDIDATES), covariance=kind), noisy, TASK, 0)
    assert len(found.ranking) == len(CANDIDATES) and np.isfinite(found.error)


def test_what_cannot_be_solved_is_passed_over():
    _, by_domain = federation(np.random.default_rng(4), gaussian, 20)
    candidates = chosen({"method": "text-prior"}, "lda", "ridge")
    unavailable = {}
    scores = cross_validated(candidates, by_domain, TASK, 0, unavailable)  # there is no text
    assert list(unavailable) == [0] and np.isnan(scores.share[0]).all() and np.isfinite(scores.share[1:]).all()
    found = select(candidates, by_domain, TASK, 0)
    assert found.taken in (1, 2) and sorted(found.ranking) == [1, 2]
    with pytest.raises(Unavailable):
        select(chosen({"method": "text-prior"}), by_domain, TASK, 0)


def test_classes_that_nobody_holds_are_scored_by_classes_left_out_where_text_knows_them():
    rng = np.random.default_rng(5)
    n_classes, text = 8, rng.normal(size=(8, P))
    by_domain = []
    for _ in range(2):
        y = np.repeat(np.arange(7), 20)  # nobody holds the last
        by_domain.append(SiteStatistics.from_embeddings(2 * text[y] + rng.normal(size=(len(y), P)), y, n_classes))
    task = Task(P, tuple("abcdefgh"), {"plain": text})
    scores = cross_validated(chosen("lda", "text-prior"), by_domain, task, 0, {})
    np.testing.assert_allclose(scores.weight, np.repeat([1 / 16, 2 / 14 / 16], 14))
    assert (scores.share[0, 14:] == 0).all()  # which knows nothing of such a class
    assert scores.share[1, 14:].mean() > 0.3
    assert select(chosen("lda", "text-prior"), by_domain, task, 0).taken == 1


def test_class_means_alone_are_refused():
    _, by_domain = federation(np.random.default_rng(6), gaussian, 10)
    with pytest.raises(GgeurError, match="need second moments"):
        select(chosen("lda"), [m.of_kind("none") for m in by_domain], TASK, 0)


def test_the_rule_by_hand():
    candidates = chosen("ggeur-limit", "lda", "ridge").candidates
    weight = np.full(4, 0.25)

    def taken(*share, default="ggeur-limit"):
        return by_rule(candidates, Scores(np.array(share), weight), default)

    # lda leads limit by .1, .1, .1, .1: an error of zero.
    found = taken([0.5, 0.6, 0.7, 0.8], [0.6, 0.7, 0.8, 0.9], [0.1, 0.1, 0.1, 0.1])
    assert (found.taken, found.ranking) == (1, (1, 0, 2)) and found.lead == pytest.approx(10)
    # By .3, -.1, .3, -.1: .1 with an error of sqrt(4 (.2/4)^2 4/3) = .115, so that the default stays.
    found = taken([0.5] * 4, [0.8, 0.4, 0.8, 0.4], [0.1] * 4)
    assert (found.taken, found.default, found.ranking[0]) == (0, 0, 1)
    assert (found.lead, found.error) == (pytest.approx(10), pytest.approx(100 * np.sqrt(4 * (0.2 / 4) ** 2 * 4 / 3)))
    # As good as the best is the default itself; a candidate between the two is not taken in its place.
    assert taken([0.5] * 4, [0.5] * 4, [0.1] * 4).ranking == (0, 1, 2)
    assert taken([0.5] * 4, [0.5] * 4, [0.1] * 4, default="lda").ranking == (1, 0, 2)
    assert taken([0.5] * 4, [0.55] * 4, [0.9, 0.3, 0.9, 0.3]).taken == 0


def test_its_sentences_say_what_was_selected_and_why():
    candidates = chosen("ggeur-limit", "lda", "ridge").candidates
    weight = np.full(4, 0.25)
    first = by_rule(candidates, Scores(np.array([[0.6] * 4, [0.5] * 4, [0.1] * 4]), weight), "ggeur-limit")
    assert first.sentence(candidates) == (
        "Selected ggeur-limit, the default, which ranks first of 3 candidates. "
        "Ranking on synthetic samples, which is no accuracy: ggeur-limit, lda, ridge."
    )
    second = by_rule(candidates, Scores(np.array([[0.4] * 4, [0.5] * 4, [0.1] * 4]), weight), "ggeur-limit")
    assert second.sentence(candidates).startswith(
        "Selected lda: it ranks first and leads the default ggeur-limit by 10 points with a standard error of 0."
    )
    third = by_rule(candidates, Scores(np.array([[0.5] * 4, [0.8, 0.4, 0.8, 0.4], [0.1] * 4]), weight), "ggeur-limit")
    assert "lda leads by 10 points with a standard error of 12, which is not more than one." in third.sentence(
        candidates
    )


def flattering(seed):
    """Two domains whose moments tell them apart, as their samples do not."""
    rng, samples = np.random.default_rng(seed), []
    for d in range(2):
        y = np.repeat(np.arange(C), 150)
        x = rng.normal(size=(len(y), P))
        if d:  # variance 9 in half of the coordinates: 0.25 for nine samples of ten, 87.75 for the others
            x[:, 4:] *= np.where(rng.random((len(y), 1)) < 0.1, np.sqrt(87.75), 0.5)
        x[:, 0] += 1.6 * (y + d)  # the classes lie along a line, one further in the other domain
        x[:, 1] += 1 - 2 * (y % 2)
        samples.append((x, y))
    return samples


def test_it_takes_a_mixture_that_gaussian_samples_flatter_which_moments_cannot_tell(monkeypatch):
    """One domain is wide by a tenth of its samples: Gaussian samples tell the domains apart, real ones do not."""
    gained = []
    for seed in range(3):
        samples = flattering(seed)
        by_domain = [SiteStatistics.from_embeddings(x, y, C) for x, y in samples]
        synthetic = cross_validated(chosen(), by_domain, TASK, seed, {})
        real = on(monkeypatch, by_domain, samples, seed)
        lda, mixture = 1, 4
        gained.append([scores.estimate[mixture] - scores.estimate[lda] for scores in (synthetic, real)])
        candidates = chosen().candidates
        assert by_rule(candidates, real, "lda").taken != mixture
        if seed == 0:
            assert by_rule(candidates, synthetic, "lda").taken == mixture
    assert np.mean(gained, axis=0)[0] > 0.01 and np.mean(gained, axis=0)[1] < -0.02


def test_heads_that_draw_and_ones_own_are_candidates_too(tmp_path, monkeypatch):
    (tmp_path / "mine_choosing.py").write_text(
        "import numpy as np\nimport ggeur\n\n\n"
        "def middling(*, word: str = 'a') -> ggeur.ClosedForm:\n"
        "    def solve(s, task):\n"
        "        return {'W': s.mean.astype(np.float32), 'b': -(s.mean**2).sum(axis=1).astype(np.float32) / 2}\n"
        "    return ggeur.ClosedForm('none', solve)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    own = {"method": "mine_choosing:middling", "word": "b"}
    candidates = chosen(own, {"method": "ccvr", "draws": 50, "epochs": 1})
    _, by_domain = federation(np.random.default_rng(1), gaussian, 12, [(0, 1)])
    found = select(candidates, by_domain, TASK, 0)
    assert sorted(found.ranking) == [0, 1] and not found.unavailable
    assert "mine_choosing:middling (word b)" in found.sentence(candidates.candidates)
    means = chosen("ncm")
    assert (means.needs, means.sends) == ("none", "pooled")  # of class means no synthetic samples can be made
    assert select(means, [m.of_kind("pooled") for m in by_domain], TASK, 0).ranking == (0,)


def test_what_is_expected_is_a_ranking_in_points_behind_the_first():
    _, by_domain = federation(np.random.default_rng(2), gaussian)
    candidates = chosen()
    found = select(candidates, by_domain, TASK, 0)
    estimate = cross_validated(candidates, by_domain, TASK, 0, {}).estimate
    expected = found.expected(candidates.candidates)
    assert list(expected) == [candidates.candidates[i].label for i in found.ranking]
    behind = [100 * (estimate[i] - estimate.max()) for i in found.ranking]
    np.testing.assert_allclose(list(expected.values()), behind, atol=1e-9)
    assert "%" not in found.sentence(candidates.candidates)


def test_with_cv_samples_a_simulation_leaves_real_samples_out_and_others_refuse(tmp_path):
    samples = flattering(0)
    x, y = (np.concatenate([one[i] for one in samples]) for i in (0, 1))
    again = np.append(np.arange(len(y)), np.arange(0, len(y), 10))  # a few of them as test samples, too
    domain, test = np.repeat([0, 1], len(y) // 2)[again], np.arange(len(again)) >= len(y)
    table = ggeur.EmbeddingTable(x=x[again], y=y[again], domain=domain, test=test, class_names=tuple("abcd"))
    table.save(tmp_path / "table.npz")

    def trial(cv):
        few = {"auto": {"candidates": [["lda", "mixture"]], "cv": cv}}
        tree = {"data": {"table": str(tmp_path / "table.npz")}, "partition": {"kind": "domain"}, "method": few}
        return ggeur.run(ggeur.Experiment.of(tree | {"train": {"method": "auto"}, "augment": {"kind": "none"}})).trials[
            0
        ]

    synthetic, real = trial("statistics"), trial("samples")
    assert max(synthetic.expected, key=synthetic.expected.get) == "mixture"
    assert (max(real.expected, key=real.expected.get), real.taken) == ("lda", "lda")
    assert "Ranking on real samples" in real.message and "synthetic" not in real.message
    with pytest.raises(GgeurError) as refused:
        ggeur.fit(samples, parameters={"cv": "samples"})
    assert refused.value.code == "auto-samples-absent"
