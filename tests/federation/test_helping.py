"""Who helps whom: every number held to heads solved from scratch, Shapley's axioms, the map, the sentences."""

from itertools import permutations

import numpy as np
import pytest

from ggeur.core.errors import GgeurError
from ggeur.core.message import Message, Total
from ggeur.data.table import EmbeddingTable
from ggeur.experiment.helps import helping as helping_of_table
from ggeur.federation.helping import Estimate, Site, helping, sites_of
from ggeur.federation.helping_words import clear, findings
from ggeur.federation.simulated import Clients, merged_total
from ggeur.federation.site_map import distances, places
from ggeur.heads import resolve as resolve_head
from ggeur.heads.head import double_logits
from ggeur.methods import resolve_solved
from ggeur.methods.algorithm import Task
from ggeur.settings.schema import settings

P, C = 4, 3
TASK = Task(P, ("ant", "bee", "cat"))
MEANS = 1.5 * np.random.default_rng(9).normal(size=(C, P))


def rows(seed, n=30, classes=range(C), shift=0.0):
    rng = np.random.default_rng(seed)
    y = rng.choice(list(classes), size=n)
    return MEANS[y] + rng.normal(size=(n, P)) + shift, y


def a_site(name, seed, kind="per-class", domain=0, **how):
    (x, y), (left_x, left_y) = rows(seed, **how), rows(seed + 100, n=20)
    return Site(name, [(domain, Message.from_embeddings(x, y, C).of_kind(kind))], left_x, left_y)


@pytest.fixture(scope="module")
def four():
    return [
        a_site("a", 0, domain=0), a_site("b", 1, domain=1, shift=1.0),
        a_site("c", 2, domain=1, classes=(0, 1)), a_site("d", 3, domain=2, n=8),
    ]  # fmt: skip


def worth(sites, members, solved):
    """Accuracy of a set at every site, in percent, from its rows' statistics added up and solved anew."""
    if not members:
        return np.full(len(sites), 100 / C)
    messages = [message for i in sorted(members) for message in sites[i].messages]
    params = solved.solve(Total.of(messages, solved.apart), TASK)
    head = resolve_head(solved.head)
    return np.array([100 * (double_logits(head, params, s.x).argmax(axis=1) == s.y).mean() for s in sites])


@pytest.mark.parametrize("name", ["ncm", "lda", "ridge", "limit", "gated", "limit+gated"])
def test_all_numbers_are_those_of_heads_solved_from_scratch(four, name):
    solved = resolve_solved(name, {})
    h = helping(four, solved, TASK)
    everybody = set(range(4))
    whole = worth(four, everybody, solved)
    assert [e.value for e in h.accuracy] == pytest.approx(whole)
    for i in range(4):
        added = whole - worth(four, everybody - {i}, solved)
        assert [e.value for e in h.matrix[i]] == pytest.approx(added, abs=1e-12)
        assert h.to_all[i].value == pytest.approx(added.mean(), abs=1e-12)
        assert h.to_others[i].value == pytest.approx(np.delete(added, i).mean(), abs=1e-12)
        assert h.from_others[i].value == pytest.approx(whole[i] - worth(four, {i}, solved)[i], abs=1e-12)


def test_a_shapley_value_is_what_a_site_adds_over_all_orders_of_joining(four):
    solved, joined = resolve_solved("lda", {}), np.zeros(4)
    for order in permutations(range(4)):
        for k, i in enumerate(order):
            joined[i] += (worth(four, set(order[: k + 1]), solved) - worth(four, set(order[:k]), solved)).mean() / 24
    assert [e.value for e in helping(four, solved, TASK).shapley] == pytest.approx(joined)


@pytest.mark.parametrize("name", ["lda", "gated"])
def test_a_head_without_a_site_is_that_of_the_others_bit_for_bit(four, name):
    solved = resolve_solved(name, {})
    made = []
    helping(four, solved._replace(solve=lambda total, task: made.append(solved.solve(total, task)) or made[-1]), TASK)
    assert len(made) == 2**4 - 1  # every set once
    for i in range(4):
        others = [(d, m.of_kind("pooled")) for site in four[:i] + four[i + 1 :] for d, m in site.messages]
        wanted = solved.solve(Total.of(others, solved.apart), TASK)
        assert any(all(np.array_equal(wanted[key], params[key]) for key in wanted) for params in made)


def test_shapley_values_share_out_all_that_there_is(four):
    solved = resolve_solved("lda", {})
    twins = [*four, four[1]._replace(name="b again"), Site("empty", [], np.zeros((0, P)), np.zeros(0, int))]
    h = helping(twins, solved, TASK)
    value = [e.value for e in h.shapley]
    assert sum(value) == pytest.approx(np.mean([e.value for e in h.accuracy if e is not None]) - h.guess)
    assert value[1] == pytest.approx(value[4]) and value[5] == 0
    assert h.accuracy[5] is None and h.to_all[5].value == 0 and h.distance[1][4] == 0
    assert h.guess == pytest.approx(100 / C)


def test_a_zero_message_is_a_site_without_rows(four):
    solved = resolve_solved("gated", {})
    x, y = rows(0)
    zero = Message.from_embeddings(x[:0], y[:0], C)
    h = helping([*four, Site("empty", [(3, zero)], x, y)], solved, TASK)
    assert h.shapley[4].value == 0 and [e.value for e in h.matrix[4]] == [0.0] * 5


def test_errors_are_binomial_paired_and_at_least_one_row(four):
    h = helping(four, resolve_solved("lda", {}), TASK)
    for site, e in zip(four, h.accuracy, strict=True):
        a, n = e.value / 100, len(site.y)
        assert e.error == pytest.approx(100 * max(np.sqrt(a * (1 - a) / n), 1 / n))
    for own in h.matrix:
        for e in own:
            assert e.error >= 100 / 20 - 1e-9


def test_above_the_limit_sites_are_only_left_out(four):
    h = helping(four, resolve_solved("lda", {}), TASK, most=3)
    assert h.shapley is None and "2^4 sets" in findings(h).shapley
    assert h[:10] == helping(four, resolve_solved("lda", {}), TASK)[:10]


def test_sites_leave_a_fold_of_every_cell_out_and_send_the_rest():
    x, y = rows(0, n=120)
    domains = np.repeat([0, 1, 1], 40)
    parts = [np.arange(60), np.arange(60, 120)]  # the first has rows of both domains
    solved = resolve_solved("lda", {})
    sites = sites_of(Clients.of(x, y, domains, C, parts), ["one", "two"], solved, 0)
    assert [[d for d, _ in site.messages] for site in sites] == [[0, 1], [1]]
    for site, part in zip(sites, parts, strict=True):
        sent = sum(m.count for _, m in site.messages)
        np.testing.assert_array_equal(sent + np.bincount(site.y, minlength=C), np.bincount(y[part], minlength=C))
        assert all(m.kind == "pooled" for _, m in site.messages)
        assert 60 / 4 - 6 <= len(site.y) <= 60 / 4 + 6
    far = sites_of(Clients.of(x + 1e6, y, domains, C, parts), ["one", "two"], solved, 0)
    assert far[0].messages[0][1].center.mean() > 1e5  # about the mean, where zero would lose all digits
    assert helping(far, solved, TASK).accuracy[0].value == helping(sites, solved, TASK).accuracy[0].value


def test_nothing_to_leave_out_is_said():
    nobody = [Site("a", [], np.zeros((0, P)), np.zeros(0, int))]
    with pytest.raises(GgeurError, match="enough rows"):
        helping(nobody, resolve_solved("lda", {}), TASK)


# ---------------------------------------------------------------- the map


@pytest.mark.parametrize("kind", ["per-class", "pooled", "means"])
def test_sites_alike_are_at_one_place_and_a_shifted_one_is_far(kind):
    def sent(seed, **how):
        return [Message.from_embeddings(*rows(seed, n=300, **how), C).of_kind(kind)]

    d = distances([sent(0), sent(0), sent(1), sent(2, shift=2.0)])
    np.testing.assert_allclose(d, d.T)
    assert d[0, 1] == 0 and d[0, 2] < 0.6 and d[0, 3] > 5 * d[0, 2]
    place = places(d)
    np.testing.assert_allclose(place[0], place[1], atol=1e-9)
    assert np.linalg.norm(place[0] - place[3]) == pytest.approx(d[0, 3], rel=0.1)


def test_a_wider_site_is_farther_and_sites_without_a_common_class_are_measured_over_others():
    def sent(seed, classes, scale=1.0):
        x, y = rows(seed, n=300, classes=classes)
        return [Message.from_embeddings(MEANS[y] + scale * (x - MEANS[y]), y, C)]

    d = distances([sent(0, (0, 1)), sent(1, (0, 1)), sent(2, (0, 1), scale=2.0)])
    assert d[0, 2] > 3 * d[0, 1]
    d = distances([sent(0, (0,)), sent(1, (0, 1, 2)), sent(2, (1, 2), scale=2.0)])
    assert d[0, 2] == pytest.approx(d[0, 1] + d[1, 2])
    d = distances([sent(0, (0,)), sent(1, (0,), scale=3.0), sent(2, (1,))])
    assert d[0, 2] == d[1, 2] == d[0, 1] > 0  # nothing is known of them but that they are apart


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_sites_have_places_too(n):
    d = 3.0 * (1 - np.eye(n))
    place = places(d)
    assert place.shape == (n, 2)
    assert np.linalg.norm(place[0] - place[-1]) == pytest.approx(3.0 * (n > 1))


# ---------------------------------------------------------------- sentences


def test_a_difference_is_called_one_only_beyond_chance():
    assert clear(Estimate(2.1, 1.0)) and not clear(Estimate(2.1, 1.0), 12) and clear(Estimate(-3.0, 1.0), 12)


def test_the_sentences_say_what_the_numbers_say(four):
    h = helping(four, resolve_solved("lda", {}), TASK)
    little = Estimate(0.4, 0.5)
    h = h._replace(
        sites=("amazon", "caltech", "dslr", "webcam"),
        to_others=(little, little, little, Estimate(3.0, 0.4)),
        matrix=(
            *((little,) * 4 for _ in range(3)),
            (Estimate(4.0, 1.0), little, Estimate(8.0, 1.0), Estimate(5.0, 1.0)),
        ),
        accuracy=(Estimate(90.0, 1.0), Estimate(70.0, 2.0), Estimate(95.0, 1.0), Estimate(99.0, 1.0)),
        from_others=(little, little, Estimate(20.0, 3.0), Estimate(-9.0, 2.0)),
    )
    said = findings(h)
    assert said.left_out[0] == (
        "Without webcam the others lose 3.0 ± 0.4 points on average, most at dslr (-8.0 ± 1.0); "
        "webcam itself changes by -5.0 ± 1.0."
    )
    assert "change by -0.4 ± 0.5 points on average, which the rows left out cannot tell" in said.left_out[1]
    assert said.matrix == "webcam helps most at dslr, by 8.0 ± 1.0 points."
    assert "at caltech (70.0 ± 2.0 %)" in said.worst
    assert "1 of 4 sites gains by joining (dslr +20.0 ± 3.0)" in said.alone
    assert "1 of 4 sites loses by joining (webcam -9.0 ± 2.0); but" in said.alone
    calm = findings(h._replace(matrix=((little,) * 4,) * 4, from_others=(little,) * 4))
    assert calm.matrix.startswith("No site changes another's") and "no site gains or loses" in calm.alone


def test_one_site_helps_nobody(four):
    said = findings(helping(four[:1], resolve_solved("lda", {}), TASK))
    assert said.left_out == () and said.map == said.alone == "There is one site, so nobody helps anybody."


# ---------------------------------------------------------------- a real federation


@pytest.mark.real
def test_office_caltech_by_domain(shared):
    table = EmbeddingTable.load(shared / "data" / "embeddings" / "office_caltech10.tinyvit.npz")
    given = settings({"data": {"table": "-"}, "partition": {"kind": "domain"}})
    solved = resolve_solved("lda", {})
    h = helping_of_table(table, given.partition, solved, 0)
    assert h.sites == ("amazon", "caltech", "dslr", "webcam") and min(e.value for e in h.accuracy) > 90
    assert sum(e.value for e in h.shapley) == pytest.approx(np.mean([e.value for e in h.accuracy]) - 10)
    d = np.array(h.distance)
    assert max(d[0, 1], d[2, 3]) < min(d[0, 2], d[0, 3], d[1, 2], d[1, 3])  # web pictures; pictures of one office
    split = table.split(0)
    rows = [np.flatnonzero((split.domains == i) & ~split.test) for i in range(4)]
    sites = sites_of(Clients.of(split.x, split.y, split.domains, 10, rows), h.sites, solved, 0)
    kept = merged_total(Clients.of(split.x, split.y, split.domains, 10, rows), "pooled").count
    np.testing.assert_array_equal(kept, sum(m.count for s in sites for _, m in s.messages) + np.bincount(
        np.concatenate([s.y for s in sites]), minlength=10))  # fmt: skip


def test_every_set_is_solved_for_only_within_the_time_and_each_head_is_heard_of(four):
    heard, solved = [], resolve_solved("lda", {})
    few = helping(four, solved, TASK, seconds=0.0, on_head=lambda *done: heard.append(done))
    assert few.shapley is None and heard == [(i, 9) for i in range(1, 10)]
    heard.clear()
    assert helping(four, solved, TASK, on_head=lambda *done: heard.append(done)).shapley is not None
    assert heard[-1] == (15, 15) and few[:10] == helping(four, solved, TASK)[:10]
