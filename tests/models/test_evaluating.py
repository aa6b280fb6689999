"""Evaluation by score files: three sites that share nothing else, changed files, and what is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn import metrics as sk

import ggeur
from ggeur import EmbeddingTable, GgeurError
from ggeur.data.holdout import held_out
from ggeur.federation.plan import FederationPlan
from ggeur.models.evaluating import evaluation, hold_out_of, model_hash, score_file, scores_of_site, to_json, worst
from ggeur.models.fit import fit_model
from ggeur.models.model import Model
from ggeur.models.score_files import ScoreFile
from refusal import refused

TABLES = pytest.mark.needs("tables")
NAMES, P = ("ant", "bee", "cat"), 5
RNG = np.random.default_rng(0)
PARAMS = {"W": RNG.normal(size=(3, P)).astype(np.float32), "b": np.zeros(3, np.float32)}
MODEL = Model(PARAMS, "linear", P, NAMES, {})


def parquet(path, **columns):
    """A table as other programs write it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path)
    return path


def site(seed, n=300, names=NAMES):
    rng = np.random.default_rng(seed)
    y = rng.integers(len(names), size=n)
    x = rng.normal(size=(n, P)) + 1.2 * PARAMS["W"][[NAMES.index(names[c]) for c in y]]
    return EmbeddingTable(x.astype(np.float32), y, class_names=names)


def scored(table, name="leeds", least=0, share=0.2, salt="s", model=MODEL, **how):
    return score_file(model, scores_of_site(model, table, share, salt, name=name, **how), share, salt, least)


@pytest.mark.parametrize("form", ["memory", "npz", pytest.param("parquet", marks=TABLES)])
def test_sites_add_up_to_scikit_learns_metrics_of_all_test_samples(tmp_path, form):
    tables = {f"site {k}": site(k, names=NAMES if k else NAMES[::-1]) for k in range(3)}  # one numbers its classes anew
    files, pooled = [], []
    for name, table in tables.items():
        given, path = table, tmp_path / f"{name}.{form}"
        if form == "npz":
            table.save(path)
            given = path
        elif form == "parquet":
            given = parquet(path, x=list(table.x), y=[table.class_names[c] for c in table.y])
        scored(given, name).save(tmp_path / f"{name}.scores")
        files.append(ScoreFile.load(tmp_path / f"{name}.scores"))
        held = held_out(table, 0.2, "s")
        pooled.append((MODEL.probabilities(table)[held], [table.class_names[c] for c in table.y[held]]))
    found = evaluation(files[::-1], 0.9)
    p, truth = np.concatenate([p for p, _ in pooled]), np.array([name for _, t in pooled for name in t])
    guess = np.array(NAMES)[p.argmax(axis=1)]
    assert found.overall["samples"] == len(truth)
    assert found.overall["accuracy"].value == sk.accuracy_score(truth, guess)
    assert found.overall["macro_f1"].value == pytest.approx(sk.f1_score(truth, guess, average="macro"), abs=1e-12)
    assert (found.confusion[0] == sk.confusion_matrix(truth, guess, labels=NAMES)).all()
    auroc = sk.roc_auc_score(truth, p / p.sum(axis=1, keepdims=True), multi_class="ovr", labels=NAMES)
    assert (found.overall["auroc"]["low"] + found.overall["auroc"]["high"]) / 2 == pytest.approx(auroc, abs=0.01)
    each = [sk.accuracy_score(t, np.array(NAMES)[p.argmax(axis=1)]) for p, t in pooled]
    assert [m["accuracy"].value for m in found.sites.values()] == each
    assert worst(found)[0] == f"site {np.argmin(each)}"
    assert evaluation(files, 0.9).overall == found.overall  # in any order
    json.dumps(to_json(found), allow_nan=False)


def test_the_same_counts_are_the_same_bytes_and_hold_no_pickle(tmp_path):
    one = scored(site(0), least=10)
    one.save(tmp_path / "a.scores")
    one.save(tmp_path / "b.scores")
    assert (tmp_path / "a.scores").read_bytes() == (tmp_path / "b.scores").read_bytes()
    with np.load(tmp_path / "a.scores", allow_pickle=False) as file:
        assert set(file) == {"samples", "confusion", "few", "positive", "negative", "edges", "about"}
    again = ScoreFile.load(tmp_path / "a.scores")
    assert again._replace(counts=None) == one._replace(counts=None)
    assert all((getattr(again.counts, name) == getattr(one.counts, name)).all() for name in ("confusion", "positive"))


@TABLES
def test_groups_are_on_one_side_and_widen_intervals(tmp_path):
    rng, patients = np.random.default_rng(0), np.repeat(np.arange(100), 10)
    y = np.repeat(rng.integers(3, size=100), 10)
    x = np.repeat(rng.normal(size=(100, P)), 10, axis=0) + PARAMS["W"][y] + 0.1 * rng.normal(size=(1000, P))
    table = EmbeddingTable(x.astype(np.float32), y, class_names=NAMES)
    labels, names = [NAMES[c] for c in y], [f"p{k}" for k in patients]
    path = parquet(tmp_path / "t.parquet", x=list(table.x), y=labels, group=names)
    found = scored(path)
    held = held_out(table, 0.2, "s", groups=names)
    assert all(len(set(held[patients == k])) == 1 for k in range(100))
    assert found.counts.samples.sum() == held.sum() and found.counts.groups.groups == len(set(patients[held]))
    alone = scored(table.subset(held), every=True)
    grouped, single = (evaluation([one]).overall["accuracy"] for one in (found, alone))
    assert grouped.value == single.value
    assert np.diff(grouped.interval) > 2 * np.diff(single.interval)


def test_marks_of_a_table_are_kept_and_all_samples_can_be_scored():
    table = site(0)
    marked = replace(table, test=np.arange(300) % 2 == 0)
    assert scored(marked).counts.samples.sum() == 150 and scored(marked).scored == "marked"
    assert scored(marked, every=True).counts.samples.sum() == 300


def test_a_model_of_sites_with_a_hold_out_refuses_another():
    own = replace(MODEL, settings={"plan": {"test_share": 0.3, "salt": "study"}})
    assert hold_out_of(own) == (0.3, "study") and hold_out_of(MODEL) == (0.2, "ggeur")
    for share, salt in ((0.2, None), (None, "other")):
        with refused("evaluation-holdout-mismatch"):
            hold_out_of(own, share, salt)


def test_what_cannot_be_evaluated_is_one_sentence():
    with refused("evaluation-class-unknown: cow"):
        scored(EmbeddingTable(np.zeros((90, P), np.float32), np.arange(90) % 2, class_names=("ant", "cow")), every=True)
    with refused("evaluation-without-samples"):
        scored(site(0), share=0.0)
    with refused("evaluation-all-withheld"):
        scored(site(0), least=1000)
    with refused("evaluation-under-epsilon"):
        scored(site(0), model=replace(MODEL, privacy={"epsilon": 4.0}))
    with refused("embeddings-dimension-mismatch"):
        scored(EmbeddingTable(np.zeros((9, 2), np.float32), np.arange(9) % 3, class_names=NAMES), every=True)
    with refused("site-missing"):
        scored("nowhere")


def test_files_that_do_not_go_together_are_refused():
    one, two = scored(site(0), "leeds"), scored(site(1), "york")
    other = replace(MODEL, calibration={"temperature": 2.0})
    assert model_hash(other) != model_hash(MODEL)
    with refused("scores-site-twice: leeds"):
        evaluation([one, two, one])
    with refused("scores-model-mismatch: york"):
        evaluation([one, scored(site(1), "york", model=other)])
    for share, salt in ((0.3, "s"), (0.2, "t")):
        with refused("scores-holdout-mismatch"):
            evaluation([one, scored(site(1), "york", share=share, salt=salt)])
    with refused("scores-missing"):
        evaluation([])
    with refused("argument-not-fraction"):
        evaluation([one], 1.5)


def made_up(one, path, **changes):
    """A file whose checksum fits what somebody changed."""
    about = {key: getattr(one, key) for key in changes if key in one._fields}
    counts = replace(one.counts, **{key: value for key, value in changes.items() if key not in about})
    one._replace(counts=counts, **{key: changes[key] for key in about}).save(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"right": 10**6},
        {"right": -1},
        {"samples": np.array([1, 2, 3])},
        {"confusion": np.full((3, 3), 7)},
        {"few": np.array([0, 0, 0, 9])},
        {"positive": np.full((3, 100), 1)},
        {"edges": np.zeros((3, 101), bool)},
        {"negative": np.zeros((3, 100), np.int64)},
        {"min_count": 50},
        {"class_names": ("ant", "ant", "cat")},
        {"class_names": ("ant", "bee")},
        {"site": "a\x1bb"},
        {"salt": ""},
        {"share": 1.0},
        {"scored": "some"},
    ],
)
def test_counts_that_do_not_add_up_are_refused_even_with_the_right_checksum(tmp_path, changes):
    made_up(scored(site(0)), tmp_path / "x.scores", **changes)
    with refused("file-not-scores"):
        ScoreFile.load(tmp_path / "x.scores")


def test_a_score_file_of_a_later_format_is_refused(tmp_path):
    scored(site(0)).save(tmp_path / "x.scores")
    with np.load(tmp_path / "x.scores") as kept:
        arrays = dict(kept)
    about = json.loads(str(arrays["about"]))
    assert about["format"] == 1
    with (tmp_path / "x.scores").open("wb") as file:
        np.savez(file, **(arrays | {"about": json.dumps(about | {"format": 2, "more": 1})}))
    with refused("format-newer: x.scores has the format 2"):
        ScoreFile.load(tmp_path / "x.scores")


def mutations(original, how_many):
    rng = np.random.default_rng(0)
    for i in range(how_many):
        content, at = bytearray(original), int(rng.integers(len(original)))
        length = int(rng.integers(1, 17))
        if i % 5 == 0:
            content[at] ^= 1 << int(rng.integers(8))
        elif i % 5 == 1:
            content[at : at + length] = rng.bytes(length)
        elif i % 5 == 2:
            del content[at : at + length]
        elif i % 5 == 3:
            content[at:at] = rng.bytes(length)
        else:
            content = content[:at]
        yield bytes(content)


@pytest.mark.parametrize("many", [100, pytest.param(3000, marks=pytest.mark.slow)])
def test_a_changed_file_is_refused_or_says_the_same(tmp_path, many):
    one, path = scored(site(0), least=5), tmp_path / "x.scores"
    one.save(path)
    whole, wrong = evaluation([one]), 0
    for content in mutations(path.read_bytes(), many):
        path.write_bytes(content)
        try:
            found = ScoreFile.load(path)
        except GgeurError as error:
            assert "\n" not in str(error)
            wrong += 1
        else:
            assert to_json(evaluation([found])) == to_json(whole)
    assert wrong > 0.9 * many


def test_fit_evaluates_a_classifier_without_the_held_out_samples_and_keeps_one_of_all(tmp_path):
    tables = {name: site(k) for k, name in enumerate(("leeds", "york"))}
    found = fit_model(tables, method="lda", calibrate=False, test_share=0.25, salt="s", out=tmp_path / "m")
    ggeur.fit(tables, method="lda", calibrate=False, out=tmp_path / "plain")
    assert (tmp_path / "m" / "head.npz").read_bytes() == (tmp_path / "plain" / "head.npz").read_bytes()
    marked = {name: replace(table, test=held_out(table, 0.25, "s")) for name, table in tables.items()}
    rest = ggeur.fit(marked, method="lda", calibrate=False, out=tmp_path / "rest")
    files = [scored(t, name, share=0.25, model=Model.load(tmp_path / "rest")) for name, t in tables.items()]
    assert found.evaluation.overall == evaluation(files).overall
    each = [100 * m["accuracy"].value for m in found.evaluation.sites.values()]
    assert each == pytest.approx(list(rest.metrics_["domains"].values()))
    with refused("holdout-share-invalid"):
        fit_model(tables, test_share=1.5)
    with refused("evaluation-without-samples"):
        fit_model(tables, test_share=1e-9)
    with refused("plan-option-conflict"):
        fit_model(tables, test_share=0.2, plan=FederationPlan())


@pytest.mark.real
def test_three_sites_of_photographs_by_their_embeddings(shared, tmp_path):
    """By the command line's functions: hold out, fit on the rest, score, add up; equal to the pooled test samples."""
    whole = EmbeddingTable.load(shared / "data/embeddings/office_caltech10.tinyvit.npz")
    sites, tests = {}, {}
    for d, name in enumerate(whole.domain_names):
        table = whole.subset(whole.domains == d)
        table = EmbeddingTable(table.x, table.y, class_names=table.class_names)
        sites[name], tests[name] = table, held_out(table, 0.2, "office")
    marked = {name: replace(table, test=tests[name]) for name, table in sites.items()}
    fitted = ggeur.fit(marked, method="lda", calibrate=False)
    model = Model(fitted.params_, "linear", whole.dimension, tuple(map(str, fitted.classes_)), {})
    files = [scored(table, name, salt="office", model=model) for name, table in sites.items()]
    found = evaluation(files)
    right = [
        model.probabilities(table.subset(tests[name])).argmax(axis=1) == table.y[tests[name]]
        for name, table in sites.items()
    ]
    assert found.overall["accuracy"].value == np.concatenate(right).mean() > 0.95
