"""Choosing by leaving samples and groups out: the folds, a hand-worked estimate, and what is taken."""

import numpy as np
import pytest

from ggeur.core.errors import GgeurError
from ggeur.federation.cross_validation import LocalFolds
from ggeur.federation.local_clients import Clients, merged_statistics
from ggeur.federation.selection_rule import folds_of, group_folds, pick, sample_folds, select_solver
from ggeur.heads import resolve as resolve_head
from ggeur.heads.head import double_logits
from ggeur.methods import resolve
from ggeur.methods.algorithm import Task


def auto(*candidates, folds=4):
    return resolve("auto", None, {"folds": folds, "candidates": list(candidates)})


def test_rows_of_every_cell_are_spread_evenly_over_the_folds():
    rng = np.random.default_rng(0)
    y, domains = rng.integers(3, size=200), rng.integers(2, size=200)
    fold = sample_folds(y, domains, 4, 0, 5)
    for c in range(3):
        for d in range(2):
            sizes = np.bincount(fold[(y == c) & (domains == d)], minlength=4)
            assert sizes.max() - sizes.min() <= 1
    np.testing.assert_array_equal(fold, sample_folds(y, domains, 4, 0, 5))
    assert (fold != sample_folds(y, domains, 4, 0, 6)).any()
    single = [sample_folds(np.zeros(1, int), np.zeros(1, int), 4, 0, k)[0] for k in range(40)]
    assert set(single) == {0, 1, 2, 3}  # clients of one sample do not all leave it out at once


@pytest.mark.parametrize("seed", range(5))
def test_cells_of_a_class_are_never_all_left_out(seed):
    count = np.random.default_rng(seed).integers(0, 2, size=(6, 9))
    folds = group_folds(count, 3, seed)
    for fold in folds:
        assert not (fold.groups & (count == 0)).any()
        assert ((count > 0) & ~fold.groups).any(axis=0)[count.any(axis=0)].all()
    left = np.sum([fold.groups for fold in folds], axis=0)
    np.testing.assert_array_equal(left, (count > 0) & ((count > 0).sum(axis=0) > 1))  # each that can be, once


def test_classes_are_left_out_once_each_with_all_their_cells():
    count = np.random.default_rng(0).integers(1, 9, size=(2, 9)) * np.array([[1, 0, 1, 1, 1, 1, 1, 1, 1]])
    assert not [fold for fold in folds_of(count, 4, 0) if fold.classes], "for whom no text speaks"
    folds = [fold for fold in folds_of(count, 4, 0, by_text=True) if fold.classes]
    np.testing.assert_array_equal(np.sum([fold.groups for fold in folds], axis=0), count > 0)
    assert all((fold.groups == fold.groups.any(axis=0)).all() for fold in folds) and len(folds) == 4
    everybody = np.maximum(count, 1)
    assert not [fold for fold in folds_of(everybody, 4, 0, by_text=True) if fold.classes], "every class is held"


@pytest.mark.parametrize("folds", [2, 3, 4, 20])
@pytest.mark.parametrize("held", [4, 5, 6, 7, 30])
def test_three_classes_are_always_left(held, folds):
    count = np.eye(1, held + 1, held, dtype=int) == 0  # of the last class nobody has a sample
    left = [fold.groups for fold in folds_of(count, folds, 0, by_text=True) if fold.classes]
    np.testing.assert_array_equal(np.sum(left, axis=0), count)
    assert all((count & ~groups).sum() >= 3 for groups in left)


def test_what_is_expected_of_classes_that_nobody_holds_is_that_of_classes_left_out():
    count = np.array([[10, 10, 0], [10, 20, 0]])
    seen = np.array([[[9, 8, 0], [7, 10, 0]], [[9, 8, 0], [7, 10, 0]]])
    classes = np.array([[[0, 0, 0], [0, 0, 0]], [[5, 6, 0], [7, 8, 0]]])
    choice = pick(auto("lda", "text-prior"), seen, 0 * seen, count, np.zeros_like(count, bool), classes)
    held, left = 0.9 + 0.8 + 0.7 + 0.5, (0.5 + 0.6 + 0.7 + 0.4) / 4
    np.testing.assert_allclose(choice.expected, [100 * held / 6, 100 * (held + 2 * left) / 6])
    assert choice.taken == 1


def test_the_estimate_is_seen_cells_by_their_rows_and_unseen_ones_by_cells_left_out():
    count = np.array([[10, 10, 0], [10, 0, 20]])
    left = np.array([[True, False, False], [True, False, False]])
    seen = np.array([[[9, 8, 0], [7, 0, 10]], [[10, 10, 0], [10, 0, 20]]])
    whole = np.array([[[5, 0, 0], [3, 0, 0]], [[2, 0, 0], [2, 0, 0]]])
    choice = pick(auto("lda", "ridge"), seen, whole, count, left)
    # Domain 0: (.9 + .8 + unseen .4) / 3; domain 1: (.7 + .4 + .5) / 3.
    assert choice.expected[0] == pytest.approx(100 * ((0.9 + 0.8 + 0.4) / 3 + (0.7 + 0.4 + 0.5) / 3) / 2)
    assert choice.expected[1] == pytest.approx(100 * ((1 + 1 + 0.2) / 3 + (1 + 0.2 + 1) / 3) / 2)
    score = np.array([[0.9, 0.8, 0.7, 0.5, 0.5, 0.3], [1, 1, 1, 1, 0.2, 0.2]])
    weight = np.array([1, 1, 1, 1, 1, 1]) / 6
    behind = score[1] - score[0]
    error = np.sqrt((weight**2 * (behind - behind @ weight) ** 2).sum() * 6 / 5)
    assert choice.error == pytest.approx([100 * error, 0])
    assert choice.taken == (0 if behind @ weight <= error else 1)


def test_within_a_standard_error_the_simplest_is_taken():
    count = np.full((1, 4), 100)
    none = np.zeros_like(count, bool)
    noisy = np.array([[[80, 99, 80, 99]], [[99, 80, 99, 82]]])
    assert pick(auto("lda", "ggeur-limit"), noisy, 0 * noisy, count, none).taken == 0
    clear = np.array([[[80, 81, 80, 81]], [[90, 91, 90, 91]]])
    assert pick(auto("lda", "ggeur-limit"), clear, 0 * clear, count, none).taken == 1


def test_where_no_class_is_held_in_two_domains_the_default_is_taken_and_said():
    count = np.array([[10, 10, 0, 0], [0, 0, 10, 10]])
    chosen = auto("lda", "mixture", "ggeur-limit")
    assert len(folds_of(count, 4, 0)) == 4
    zero = np.zeros((3, 2, 4), int)
    choice = pick(chosen, zero, zero, count, np.zeros_like(count, bool))
    assert (choice.taken, choice.expected) == (2, None)
    assert "Took ggeur-limit, the default" in choice.sentence(chosen.candidates)


def test_what_is_left_out_takes_no_part_and_is_what_is_scored(build_clients):
    clients = build_clients()
    chosen = auto("lda", "ridge")
    folds = LocalFolds.of(clients, chosen, 0)
    count, task = folds.count(), Task(3, tuple("abc"))
    for fold in folds_of(count, 4, 0):
        left = np.concatenate([samples[folds._in(fold, k)] for k, samples in enumerate(clients.parts)])
        rest = np.setdiff1d(np.concatenate(clients.parts), left)
        total = folds.total(fold)
        np.testing.assert_array_equal(total.count, np.bincount(clients.y[rest], minlength=3))
        np.testing.assert_allclose(total.sum[0], clients.x[rest[clients.y[rest] == 0]].sum(axis=0), rtol=1e-6)
        head = ("linear", chosen.candidates[0].solved.solve(total, task))
        ((right,),) = folds.right([(fold, [head])])
        said = double_logits(resolve_head("linear"), head[1], clients.x[left]).argmax(axis=1)
        hit = left[said == clients.y[left]]
        for d in range(2):
            np.testing.assert_array_equal(right[d], np.bincount(clients.y[hit[clients.domains[hit] == d]], minlength=3))
    samples = [np.concatenate([np.flatnonzero(folds.fold[k] == n) for k in (0,)]) for n in range(4)]
    assert sum(map(len, samples)) == len(clients.parts[0])  # every sample is left out once


def test_the_better_head_is_taken_where_cells_are_missing(build_clients):
    clients = build_clients()
    chosen = auto("ncm", "lda")
    folds = LocalFolds.of(clients, chosen, 0)
    choice = select_solver(chosen, folds.count(), folds, Task(3, tuple("abc")), 0)
    assert choice.taken == 1 and choice.expected[1] > choice.expected[0] + 5
    assert choice.sentence(chosen.candidates).startswith("Took lda, expecting")


@pytest.fixture
def build_clients():
    def build():
        rng = np.random.default_rng(0)
        y, domains = rng.integers(3, size=900), rng.integers(2, size=900)
        stretch = np.diag([8.0, 1.0, 1.0])  # which the nearest mean takes for distance
        x = rng.normal(size=(900, 3)) @ stretch + np.array([[0, 0, 0], [0, 3, 0], [0, 0, 3]])[y] + domains[:, None]
        keep = ~((domains == 1) & (y == 2))  # one group is unseen
        samples = np.flatnonzero(keep)
        return Clients.of(x.astype(np.float32), y, domains, 3, [samples[::2], samples[1::2]])

    return build


def test_a_client_of_several_domains_sends_a_message_for_each(build_clients):
    clients = build_clients()
    chosen = auto("mixture")
    total = merged_statistics(clients, chosen.needs, apart=chosen.apart)
    assert total.domain == (0, 1)
    samples = np.concatenate(clients.parts)
    for d, part in zip(total.domain, total.apart, strict=True):
        np.testing.assert_array_equal(
            part.count, np.bincount(clients.y[samples[clients.domains[samples] == d]], minlength=3)
        )
    np.testing.assert_allclose(sum(part.second for part in total.apart), total.second)


def test_heads_that_draw_and_ones_own_are_candidates_too(build_clients, tmp_path, monkeypatch):
    (tmp_path / "mine_choosing.py").write_text(
        "import numpy as np\nimport ggeur\n\n\n"
        "def middling(*, word: str = 'a') -> ggeur.ClosedForm:\n"
        "    def solve(s, task):\n"
        "        return {'W': s.mean.astype(np.float32), 'b': -(s.mean**2).sum(axis=1).astype(np.float32) / 2}\n"
        "    return ggeur.ClosedForm('none', solve)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    clients = build_clients()
    own = {"method": "mine_choosing:middling", "word": "b"}
    chosen = auto(own, {"method": "ccvr", "draws": 50, "epochs": 1})
    folds = LocalFolds.of(clients, chosen, 0)
    choice = select_solver(chosen, folds.count(), folds, Task(3, tuple("abc")), 0)
    assert np.isfinite(choice.expected).all()
    assert chosen.candidates[0].label == "mine_choosing:middling (word b)"


def test_the_sentence_says_whether_cells_were_left_out():
    count = np.full((1, 4), 100)
    right = np.array([[[80, 81, 80, 81]]])
    choice = pick(auto("lda"), right, 0 * right, count, np.zeros_like(count, bool))
    assert "by leaving samples out" in choice.sentence(auto("lda").candidates)


@pytest.mark.parametrize("bad", [["fedavg"], [{"shrinkage": 1.0}], [], ["auto"]])
def test_candidates_that_are_none_are_refused(bad):
    with pytest.raises(GgeurError, match="candidates"):
        auto(*bad)
