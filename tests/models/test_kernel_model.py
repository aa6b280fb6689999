"""A kernel model as it is kept: fit, saved, joined and left; who is asked again, and what is then exact."""

import dataclasses
import json

import numpy as np
import pytest

import ggeur
from ggeur.federation.local_federation import LocalFederation
from ggeur.federation.one_shot import one_shot
from ggeur.methods import resolve_closed_form
from ggeur.methods.algorithm import Task
from ggeur.models.joining import add_site, forget_site
from ggeur.models.site_files import load_ledger, load_statistics
from ggeur.stats.errors import GgeurWarning
from ggeur.stats.storage import read_arrays
from refusal import refused

P = 5
DECLARED = {"shift": 1e3, "scale": 2.0, "features": 250, "form": "alone"}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Four sites, each a domain; `zoo` alone has the class elk."""
    folder, rng = tmp_path_factory.mktemp("sites"), np.random.default_rng(0)
    for i, name in enumerate(("art", "photo", "sketch", "zoo")):
        names = ("ant", "bee", "cat", "elk") if name == "zoo" else ("ant", "bee", "cat")
        y = np.arange(150 + i) % len(names)
        x = 1e3 + i + np.sin(2 * rng.normal(size=(len(y), P))) + 2 * np.eye(P)[y]
        meta = {"weights": "w", "encoder": "e"}
        ggeur.EmbeddingTable(x=x, y=y, test=np.arange(len(y)) % 5 == 0, class_names=names, meta=meta).save(
            folder / f"{name}.npz"
        )
    return folder


@pytest.fixture
def tables(places):
    return lambda *names: [places / f"{name}.npz" for name in names]


def same_head(a, b):
    ours, theirs = (read_arrays(folder / "head.npz") for folder in (a, b))
    return ours.keys() == theirs.keys() and all(np.array_equal(ours[k], theirs[k]) for k in ours)


def last_receipt(folder):
    return json.loads(sorted((folder / "receipts").iterdir())[-1].read_bytes())


def test_fit_is_the_simulation_and_comes_back_from_its_folder(tables, tmp_path):
    names = ("art", "photo", "sketch")
    found = ggeur.fit(tables(*names), method="kernel", out=tmp_path / "model", parameters={"precision": "float64"})
    each = [ggeur.EmbeddingTable.load(path) for path in tables(*names)]
    x, y, train = (np.concatenate([getattr(t, part) for t in each]) for part in ("x", "y", "test"))
    d = np.repeat(np.arange(3), [len(t) for t in each])
    own = np.flatnonzero(~train)
    clients = LocalFederation.of(x[own], y[own], d[own], 3, [np.flatnonzero(d[own] == k) for k in range(3)])
    kernel = resolve_closed_form("kernel", {"precision": "float64"})
    expected = one_shot(clients, kernel, "kernel", Task(P, ("ant", "bee", "cat")), 0).params
    np.testing.assert_allclose(found.params_["W"], expected["W"], rtol=1e-4, atol=1e-5)
    model = ggeur.Model.load(tmp_path / "model")
    np.testing.assert_allclose(model.probabilities_of(x), ggeur.load_model(tmp_path / "model").probabilities_of(x))
    answers = found.predict(x[train])
    assert (answers == np.array(["ant", "bee", "cat"])[model.logits_of(x[train]).argmax(axis=1)]).all()
    assert found.metrics_["avg"] > 80 and found.calibration_["source"] == "test samples"


METHODS = [("kernel", {}), ("kernel", {"landmarks": "class"}), ("kernel", {"form": "limit"}), ("safle", {})]


@pytest.mark.parametrize(("method", "parameters"), METHODS)
def test_who_left_was_never_there_where_the_others_are_asked_again(tables, tmp_path, method, parameters):
    rest, model, never = ("art", "photo", "sketch"), tmp_path / "model", tmp_path / "never"
    ggeur.fit(tables(*rest), method=method, out=never, parameters=parameters)
    ggeur.fit(tables("zoo", *rest), method=method, out=model, parameters=parameters)
    with refused("features-not-resent: art, photo, sketch"):
        forget_site(model, "zoo")
    forget_site(model, "zoo", tables(*rest))
    assert same_head(model, never) and "Not exact" not in (model / "card.md").read_text()
    with refused("features-not-resent"):
        add_site(model, *tables("zoo"))
    add_site(model, *tables("zoo"), tables(*rest))
    ggeur.fit(tables("zoo", *rest), method=method, out=tmp_path / "whole", parameters=parameters)
    assert same_head(model, tmp_path / "whole")


@pytest.mark.parametrize("method", ["kernel", "safle"])
def test_kept_units_say_what_is_not_exact(tables, tmp_path, method):
    model = tmp_path / "model"
    ggeur.fit(tables("art", "photo", "sketch"), method=method, out=model)
    date, before = ggeur.Model.load(model).algorithm["units_of"]["date"], ggeur.Model.load(model).params
    with pytest.warns(GgeurWarning, match=f"Not exact: units of {date} include sketch"):
        forget_site(model, "sketch", keep_units=True)
    assert last_receipt(model)["units"] == f"Not exact: units of {date} include sketch."
    card = (model / "card.md").read_text()
    assert f"Not exact: units of {date} include 1 site" in card and "sketch" not in card
    now = ggeur.Model.load(model).params
    assert (now["landmarks"] == before["landmarks"]).all() and now["center"].tolist() == before["center"].tolist()
    other = copy_of(*tables("sketch"), tmp_path / "etching.npz")
    with pytest.warns(GgeurWarning, match="do not include etching"):
        add_site(model, other, keep_units=True)
    said = f"units of {date} include 1 site that is no longer in and do not include etching"
    assert said in (model / "card.md").read_text()
    np.testing.assert_allclose(
        ggeur.Model.load(model).params["W"], before["W"], rtol=1e-4, atol=1e-6
    )  # the same samples
    if method == "kernel":
        with refused("features-not-resent: art, etching, photo"):
            add_site(model, *tables("zoo"), keep_units=True)  # whose class the others lack: samples then weigh by group
    forget_site(model, "art", [*tables("photo"), other])  # asked again, all is exact
    ggeur.fit([*tables("photo"), other], method=method, out=tmp_path / "never")
    assert same_head(model, tmp_path / "never") and "Not exact" not in (model / "card.md").read_text()


def copy_of(table, path):
    path.write_bytes(table.read_bytes())
    return path


def test_units_that_are_declared_are_exact_and_nobody_is_asked_again(tables, tmp_path, recwarn):
    model, never, parameters = tmp_path / "model", tmp_path / "never", DECLARED
    ggeur.fit(tables("art", "photo", "zoo"), method="kernel", out=model, parameters=parameters)
    ggeur.fit(tables("art", "photo"), method="kernel", out=never, parameters=parameters)
    forget_site(model, "zoo")
    assert same_head(model, never) and "units" not in last_receipt(model)
    add_site(model, *tables("zoo"))
    forget_site(model, "zoo", keep_units=True)
    assert same_head(model, never) and not [w for w in recwarn if "Not exact" in str(w.message)]
    with refused("features-units-incomplete"):
        resolve_closed_form("kernel", {"shift": 0.0})
    with refused("features-units-mismatch: 2"):
        ggeur.fit(tables("art", "photo"), method="kernel", parameters={"shift": [0.0, 1.0], "scale": 1.0})


def test_sites_that_share_a_domain_count_together_and_are_asked_again(tables, tmp_path):
    """A sample then weighs one over its group's samples in the domain, whoever leaves it."""
    for name, domain in (("art", "ink"), ("photo", "ink"), ("sketch", "oil")):
        (path,) = tables(name)
        table = dataclasses.replace(ggeur.EmbeddingTable.load(path), domain_names=(domain,))
        table.save(tmp_path / f"{name}.npz")
    sites, model = [tmp_path / f"{name}.npz" for name in ("art", "photo", "sketch")], tmp_path / "model"
    ggeur.fit(sites, method="kernel", out=model, parameters=DECLARED | {"form": "limit"})
    with refused("features-not-resent: sites photo must"):
        forget_site(model, "art")
    forget_site(model, "sketch")  # which shares with nobody
    ggeur.fit(sites[:2], method="kernel", out=tmp_path / "never", parameters=DECLARED | {"form": "limit"})
    assert same_head(model, tmp_path / "never")


def test_features_of_other_units_or_changed_ones_are_not_taken(tables, tmp_path):
    model = tmp_path / "model"
    ggeur.fit(tables("art", "photo"), method="kernel", out=model, parameters=DECLARED)
    told = json.loads((model / "model.json").read_text())
    assert told["algorithm"]["units_of"] == {}
    entry = load_ledger(model).entry("art")
    sums = load_statistics(model, entry)
    changed = sums._replace(features=sums.features._replace(second=sums.features.second * 2))
    assert entry.holds(sums) and not entry.holds(changed)
    with refused("option-keep-units: lda"):
        ggeur.fit(tables("art", "photo"), method="lda", out=tmp_path / "lda")
        forget_site(tmp_path / "lda", "art", keep_units=True)


def test_what_has_no_samples_says_so(tables):
    x, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    with pytest.raises(ValueError, match="samples"):
        ggeur.OneShotClassifier("kernel").partial_fit(x, y)
    statistics = [ggeur.ClassStatistics.from_embeddings(x, y, 2)]
    with pytest.raises(ValueError, match="samples"):
        ggeur.OneShotClassifier.from_statistics(statistics, method="kernel")
    with pytest.warns(GgeurWarning, match="samples"):
        assert ggeur.fit(tables("art", "photo"), method="kernel", contributions=True).contributions_ is None
    assert ggeur.OneShotClassifier("kernel").fit(x + 3 * y[:, None], y).score(x + 3 * y[:, None], y) > 0.95
    with refused("classes-too-few"):
        ggeur.fit([(x, y * 0)], method="kernel")
    one = ggeur.fit([(x[:6] + 9 * y[:6, None], y[:6])], method="kernel")  # one site, three samples a group
    assert (one.predict(x[:6] + 9 * y[:6, None]) == y[:6]).all()
