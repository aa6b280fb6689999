"""A privacy mechanism from outside the package: simulated, solved by hand, audited, and at real sites."""

import json
import sys
import tomllib
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from scipy.stats import kstest, norm

import ggeur
from ggeur import Experiment, Model, SiteStatistics
from ggeur.experiments.audit import audit
from ggeur.experiments.settings import settings
from ggeur.experiments.settings_privacy import MECHANISMS, Privacy
from ggeur.methods import resolve_closed_form
from ggeur.models.card import sentences
from ggeur.stats.site_statistics import FederationStatistics
from refusal import refused

SOURCE = """
    from dataclasses import replace

    import numpy as np
    from scipy.special import ndtri

    from ggeur import Noise, Release

    def laplace(*, epsilon: float, radius: float) -> Release:
        # counts and sums alone: one sample moves (n, sum / R) by at most 1 + sqrt(p) in the l1 norm
        def scale(p):
            return (1 + p**0.5) / epsilon

        def mechanism(s, clients, random):
            def draw(shape):
                u = random.random(shape) - 0.5
                return -scale(s.dimension) * np.sign(u) * np.log1p(-2 * np.abs(u))

            return replace(s, count=s.count + draw(s.count.shape), sum=s.sum + radius * draw(s.sum.shape))

        def noise(covariance, clients):
            if covariance != "none":
                raise ValueError("Laplace noise is for class means alone")
            return Noise(2**0.5 * scale(8), 2**0.5 * scale(8) * radius, 0.0)

        mu = float(-2 * ndtri(1 / (1 + np.exp(epsilon))))  # the least that (epsilon, 0)-privacy implies
        promise = f"Differentially private with epsilon = {epsilon:g} for one record, by Laplace noise."
        return Release("Laplace noise", mechanism, noise, mu=mu, guarantee=promise, facts={"epsilon": epsilon})

    def grid(*, step: float = 0.5) -> Release:
        def mechanism(s, clients, random):
            rounded = {part: step * np.round(getattr(s, part) / step) for part in ("sum", "second")}
            return replace(s, **rounded)

        sd = step / 12**0.5
        return Release("a grid", mechanism, lambda kind, clients: Noise(0.0, sd, 0.0 if kind == "none" else sd))

    def broken(*, how: str) -> Release:
        if how == "type":
            return "no release"
        if how == "shape":
            return Release("odd", lambda s, clients, random: replace(s, count=s.count[:1], sum=s.sum[:1]))
        return Release("odd", lambda s, clients, random: 1 / 0)
"""
P, C = 8, 4  # dimensions and classes of the table


@pytest.fixture(autouse=True)
def module(tmp_path, monkeypatch):
    """The mechanisms above as own_mechanisms.py, in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "own_mechanisms.py").write_text(dedent(SOURCE))
    for name in ("own_mechanisms", "mine"):  # another of that name is not this one, and this one is not another's
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield
    for name in ("own_mechanisms", "mine"):
        sys.modules.pop(name, None)


@pytest.fixture
def table(tmp_path):
    """Two domains of four classes, whose means are far apart, 150 training samples each."""
    rng, group = np.random.default_rng(0), np.repeat(np.argwhere(np.ones((2, C))), 300, axis=0)
    x = rng.normal(size=(C, P))[group[:, 1]] + 0.3 * rng.normal(size=(len(group), P))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    made = ggeur.EmbeddingTable(
        x=x.astype(np.float32), y=group[:, 1], domain=group[:, 0], test=np.arange(len(group)) % 2 == 1
    )
    made.save(tmp_path / "t.npz")
    return made


def tree(name, method="ncm", radius=1.0, **privacy):
    own = {"mechanism": f"own_mechanisms:{name}", "radius": radius, **privacy}
    base = {"data": {"table": "t.npz"}, "partition": {"kind": "domain"}, "train": {"method": method}}
    return base | {"privacy": own}


def run(*args, out=None, **kwargs):
    return ggeur.run(Experiment.of(tree(*args, **kwargs)), out=out).trials[0]


def release(name, **keys):
    return Privacy.model_validate(tree(name, **keys)["privacy"]).release


def test_a_run_has_its_noise_and_its_model_says_what_it_promises(table, tmp_path):
    plain = ggeur.run(Experiment.of(tree("laplace") | {"privacy": {"radius": 1.0}})).trials[0]
    little, much = run("laplace", epsilon=50.0), run("laplace", epsilon=0.02, out="run")
    assert plain.avg > 90 and little.avg == pytest.approx(plain.avg, abs=2) and much.avg < 70
    model = Model.load(tmp_path / "run")
    assert model.privacy["mechanism"] == "own_mechanisms:laplace" and model.privacy["epsilon"] == 0.02
    assert (model.privacy["covers"], model.privacy["noise"]) == ("everything", "simulated")
    card = (tmp_path / "run" / "model" / "trial-000" / "card.md").read_text(encoding="utf-8")
    for words in ("epsilon = 0.02 for one record, by Laplace noise.", "It covers everything", "protects nobody"):
        assert words in card
    assert "Gaussian" not in card


def test_its_noise_is_drawn_from_the_source_that_it_is_handed():
    own, zero = release("laplace", epsilon=2.0), SiteStatistics.from_embeddings(np.zeros((0, P)), [], C).of_kind("none")
    one, other = own.simulated(0).apply(zero, 2, 1), own.simulated(0).apply(zero, 2, 1)
    np.testing.assert_array_equal(one.sum, other.sum)
    assert (one.sum != own.simulated(0).apply(zero, 2, 0).sum).all() and (
        one.sum != own.simulated(1).apply(zero, 2, 1).sum
    ).all()
    drawn = np.concatenate([own.apply(zero, 2).sum.ravel() for _ in range(100)])
    assert kstest(drawn, "laplace", args=(0, (1 + P**0.5) / 2)).pvalue > 1e-4 and len(np.unique(drawn)) == drawn.size
    assert drawn.std() == pytest.approx(own.noise("none", 2).sum, rel=0.1)


def test_the_mechanism_in_the_docs_is_what_it_says(table, tmp_path):
    page = (Path(__file__).resolve().parents[2] / "docs" / "privacy.md").read_text(encoding="utf-8")
    python, rest = page.split("```python\n# mine.py")[1].split("```", 1)
    toml = rest.split("```toml\n")[1]
    (tmp_path / "mine.py").write_text(python)
    given = tomllib.loads(toml.partition("```")[0])["privacy"] | {"parameters": {"dimension": P}}
    own, zero = Privacy.model_validate(given).release, SiteStatistics.from_embeddings(np.zeros((0, P)), [], C)
    drawn = np.concatenate([own.simulated(k).apply(zero.of_kind("none"), 2).sum.ravel() for k in range(100)])
    assert kstest(drawn, "laplace", args=(0, (1 + P**0.5) / 2)).pvalue > 1e-4
    assert drawn.std() == pytest.approx(own.noise("none", 2).sum, rel=0.1)
    assert ggeur.run(Experiment.of(tree("laplace") | {"privacy": given})).trials[0].avg > 80


def test_a_solver_takes_what_is_released_and_repaired_by_hand(table):
    """As `fit` has it: statistics of every site, protected there, added up, repaired, and solved."""
    own, sites = release("grid", parameters={"step": 0.25}), range(2)
    held = [np.flatnonzero((table.domains == d) & ~table.test) for d in sites]
    exact = [SiteStatistics.from_embeddings(table.x[s], table.y[s], C).of_kind("pooled") for s in held]
    sent = [own.apply(statistics, clients=2, client=k) for k, statistics in enumerate(exact)]
    for a, b in zip(exact, sent, strict=True):
        np.testing.assert_allclose(b.sum / 0.25, np.round(b.sum / 0.25), atol=1e-12)
        assert 0 < np.abs(a.sum - b.sum).max() <= 0.125
    solver = resolve_closed_form("lda", {})
    total = own.repair(FederationStatistics.of(((-1, s) for s in sent), None), [2])
    head = solver.solve(total, None)
    hit = (table.x @ head["W"].T + head["b"]).argmax(axis=1) == table.y
    assert hit[table.test].mean() > 0.9
    trial = run("grid", "lda", parameters={"step": 0.25}, out="run")
    with np.load("run/model/trial-000/head.npz") as saved:
        np.testing.assert_allclose(saved["W"], head["W"], atol=1e-5 * np.abs(head["W"]).max())
    assert (
        trial.privacy["guarantee"] in sentences(trial.privacy) and "no privacy guarantee" in trial.privacy["guarantee"]
    )


def test_an_audit_attacks_what_it_releases(table):
    few = table.subset(np.flatnonzero(table.test | (np.arange(len(table)) % 300 == 0)))
    few.save("t.npz")
    found = {
        name: audit(settings(one), 0).exact
        for name, one in {
            "exact": tree("grid") | {"privacy": {"radius": 1.0}},
            "fine": tree("grid", parameters={"step": 1e-9}),
            "coarse": tree("grid", parameters={"step": 0.5}),
        }.items()
    }
    assert found == {"exact": 2 * C, "fine": 2 * C, "coarse": 0}, "of each group one sample, which is its own sum"


@pytest.mark.parametrize(
    ("name", "more", "says"),
    [
        ("laplace", {"epsilon": 1.0, "method": "lda"}, "custom-code-failed: own_mechanisms:laplace...means alone"),
        ("laplace", {}, "privacy-parameter-missing: own_mechanisms:laplace...epsilon...[privacy]."),
        ("broken", {}, "privacy-parameter-missing: how...[privacy.parameters]"),
        ("laplace", {"epsilon": 1.0, "delta": 1e-6}, "privacy-key-not-of-mechanism: delta"),
        ("laplace", {"epsilon": 1.0, "radius": None}, "settings-invalid: mechanism needs radius"),
        ("grid", {"parameters": {"width": 1.0}}, "hyperparameter-unknown: [privacy.parameters]...'width'...step"),
        ("grid", {"method": "auto"}, "privacy-samples-missing"),
        ("grid", {"method": "mixture", "secure_aggregation": True}, "secure-aggregation-too-few-sites"),
        ("missing", {}, "custom-load-failed: privacy mechanism 'own_mechanisms:missing'"),
        ("broken", {"parameters": {"how": "type"}}, "custom-release-type: own_mechanisms:broken"),
        ("broken", {"parameters": {"how": "shape"}}, "custom-release-statistics: own_mechanisms:broken"),
        ("broken", {"parameters": {"how": "error"}}, "custom-code-failed: own_mechanisms:broken...ZeroDivisionError"),
    ],
)
def test_mistakes_are_one_sentence(table, name, more, says):
    with refused(says) as caught:
        run(name, **more)
    assert "\n" not in str(caught.value)


def test_parameters_span_a_grid_and_auto_goes_by_its_noise(table):
    steps = ggeur.run(Experiment.of(tree("grid", parameters={"step": [1e-6, 500.0]}))).trials
    assert [trial.status for trial in steps] == ["ok", "ok"] and steps[0].rounds != steps[1].rounds
    fine, coarse = (run("grid", "auto", samples=1200, parameters={"step": s}) for s in (0.01, 60.0))
    assert (fine.taken, coarse.taken) == ("ridge", "ncm")


def test_a_list_of_mechanisms_and_names_of_ours(table):
    with refused("settings-invalid: no privacy mechanism 'laplas'; there are none, gaussian"):
        settings(tree("grid") | {"privacy": {"mechanism": "laplas", "radius": 1.0}})
    with refused('settings-invalid: mechanism = "gaussian" needs epsilon'):
        settings(tree("grid") | {"privacy": {"mechanism": "gaussian", "radius": 1.0}})
    with refused('settings-invalid: epsilon goes with a mechanism, and there is "none"'):
        settings(tree("grid") | {"privacy": {"mechanism": "none", "radius": 1.0, "epsilon": 1.0}})
    named, plain = (
        ggeur.run(Experiment.of(tree("grid") | {"privacy": {"epsilon": 9.0, "radius": 1.0, **more}})).trials[0]
        for more in ({"mechanism": "gaussian"}, {})
    )
    assert named.rounds == plain.rounds and named.privacy == plain.privacy


def test_moved_into_the_package_a_mechanism_is_a_line_of_the_registry_and_its_file(table, monkeypatch):
    custom = run("laplace", epsilon=2.0)
    import own_mechanisms

    monkeypatch.setitem(MECHANISMS, "laplace", own_mechanisms.laplace)
    ours = ggeur.run(Experiment.of(tree("laplace", epsilon=2.0, mechanism="laplace"))).trials[0]
    assert ours.rounds == custom.rounds and ours.privacy == custom.privacy | {"mechanism": "laplace"}
    with refused("privacy-parameter-missing: 'laplace' needs epsilon"):
        settings(tree("laplace", mechanism="laplace", radius=1.0))


def test_nothing_of_it_is_imported_to_read_an_experiment(monkeypatch):
    settings(tree("laplace", epsilon=1.0), custom=False)
    assert "own_mechanisms" not in sys.modules
    assert norm.cdf(-release("laplace", epsilon=1.0).mu / 2) == pytest.approx(1 / (1 + np.e))


def test_what_it_spends_is_in_a_sites_ledger(tmp_path):
    from ggeur.flower.site.site_policy import SitePolicy, note_spending

    asked = Privacy.model_validate(tree("laplace", epsilon=1.0)["privacy"])
    unproved = Privacy.model_validate(tree("grid")["privacy"])
    budget = SitePolicy(epsilon=8.0, delta=1e-5)
    budget.check(asked)
    with refused("policy-epsilon-required"):
        budget.check(unproved)
    budget.afford(tmp_path, asked)
    note_spending(tmp_path, "1", asked)
    (kept,) = (json.loads(line) for line in (tmp_path / "privacy.jsonl").read_text().splitlines())
    assert (kept["mechanism"], kept["mu"]) == ("own_mechanisms:laplace", asked.release.mu)
    with refused("policy-budget-exceeded: spent 1.23"):
        budget.afford(tmp_path, asked)
    note_spending(tmp_path, "2", unproved)
    with refused("policy-budget-exceeded: spent inf"):
        budget.afford(tmp_path, asked)
