"""What is public, given what it cannot take: each argument of each function in turn. It says so, as our error."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

import ggeur
from ggeur import (
    ClassStatistics,
    EmbeddingTable,
    Experiment,
    Geometry,
    GgeurError,
    ImageSet,
    ImageTable,
    Model,
    OneShotClassifier,
    Prototypes,
    Result,
    SiteStatistics,
)
from ggeur.data.image_set import Item, Part, Split
from refusal import refused

X, Y = np.random.default_rng(0).normal(size=(30, 4)), np.repeat([0, 1, 2], 10)
S = ClassStatistics.from_embeddings(X, Y, 3)
G = Geometry.from_statistics(S)
P = Prototypes.from_statistics([S])
M = SiteStatistics.from_embeddings(X, Y, 3)
TABLE = EmbeddingTable(x=X, y=Y, domain=np.arange(30) % 2, class_names=("a", "b", "c"), domain_names=("p", "q"))
PICTURES = Part([Item("a picture", lambda: np.zeros((8, 8), np.uint8))] * 2, np.array([0, 1]))
SET = ImageSet.of(["a", "b"], {"street": Split(PICTURES, PICTURES)})
IMAGES = np.zeros((4, 8, 8, 3), np.uint8)
HEAD = {"W": np.eye(3, 4, dtype=np.float32), "b": np.zeros(3, np.float32)}
ABOUT = dict(params=HEAD, head="linear", dimension=4, class_names=("a", "b", "c"), encoder={})
MODEL = Model(**ABOUT)
MOMENTS = dict(count=S.count, sum=S.sum, second=S.second, center=S.center)
TREE = {"data": {"dataset": "mini-digits"}, "train": {"method": "ncm"}}

WRONG = {
    "none": None, "text": "x", "bytes": b"q", "half": 1.5, "minus one": -1, "nan": np.nan, "many": 10**15,
    "a list of anything": [1, "a"], "ragged": [[1.0], [1.0, 2.0]], "mapping": {1: 2}, "object": object(),
    "function": lambda: 1, "marks": np.array([True, False]), "no rows": np.zeros((0, 0)), "words": np.array(["a"]),
    "infinite": np.full((3, 4), np.inf),
}  # fmt: skip

# A call that works, by the arguments that are then replaced, one at a time. Booleans are asked for their truth, as
# Python has it, and left out.
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "from_embeddings": (ClassStatistics.from_embeddings, dict(x=X, y=Y, n_classes=3, center=np.zeros(4))),
    "ClassStatistics": (ClassStatistics, MOMENTS),
    "SiteStatistics": (SiteStatistics, MOMENTS),
    "merge": (ClassStatistics.merge, dict(parts=[S, S])),
    "merge of another": (lambda one: ClassStatistics.merge([one, S]), dict(one=S)),
    "merge with another": (lambda one: ClassStatistics.merge([S, one]), dict(one=S)),
    "about": (S.about, dict(center=np.zeros(4))),
    "Message.about": (M.of_kind("pooled").about, dict(center=np.zeros(4))),
    "of_kind": (M.of_kind, dict(kind="pooled")),
    "Geometry": (Geometry, dict(eigenvalues=G.eigenvalues, eigenvectors=G.eigenvectors, present=G.present)),
    "Geometry.from_statistics": (Geometry.from_statistics, dict(statistics=S, rank=2, energy=0.5, centred=False)),
    "from_covariance": (
        Geometry.from_covariance,
        dict(covariance=S.covariance, present=S.present, rank=2, energy=0.5, centred=True, rounding=S.rounding),
    ),
    "require": (G.require, dict(classes=[1])),
    "plus": (lambda other: S + other, dict(other=S)),
    "after plus": (lambda other: other + S, dict(other=S)),
    "minus": (lambda other: S - other, dict(other=S)),
    "after minus": (lambda other: other - S, dict(other=S)),
    "Message plus": (lambda other: M + other, dict(other=M)),
    "factor": (G.factor, dict(c=1, scale="eigenvalue")),
    "factors": (G.factors, dict(scale="eigenvalue")),
    "similarity": (ggeur.similarity, dict(a=G, b=G, top=2)),
    "Prototypes": (Prototypes, dict(mean=P.mean, present=P.present)),
    "Prototypes.from_statistics": (Prototypes.from_statistics, dict(domains=[S])),
    "augment": (
        ggeur.augment,
        dict(
            x=X, y=Y, geometry=G, target=20, per_sample=2, prototypes=P, per_prototype=3, scale="sqrt-eigenvalue",
            empty_group="all", seed=0,
        ),
    ),
    "augment by target": (ggeur.augment, dict(x=X, y=Y, geometry=G, target=20)),
    "dirichlet": (ggeur.partition.dirichlet, dict(y=Y, clients=2, beta=0.5, min_per_class=1, test=Y == 9, seed=0)),
    "by_domain": (ggeur.partition.by_domain, dict(domain=Y, share=0.5, taken=0.5, test=Y == 9, seed=0)),
    "label_and_domain": (ggeur.partition.label_and_domain, dict(y=Y, domain=Y, beta=0.5, test=Y == 9, seed=0)),
    "EmbeddingTable": (
        EmbeddingTable,
        dict(
            x=X, y=Y, domain=TABLE.domain, test=Y == 1, class_names=("a", "b", "c"), domain_names=("p", "q"),
            text=np.zeros((3, 4)), meta={},
        ),
    ),
    "ImageSet": (
        ImageSet,
        dict(
            items=SET.items, y=SET.y, domain=SET.domain, class_names=SET.class_names, domain_names=SET.domain_names,
            test=SET.test, meta={},
        ),
    ),
    "ImageSet.of": (ImageSet.of, dict(class_names=["a", "b"], domains={"street": Split(PICTURES)})),
    "ImageSet.of split": (lambda split: ImageSet.of(["a", "b"], {"street": split}), dict(split=Split(PICTURES))),
    "ImageSet.of train": (lambda part: ImageSet.of(["a", "b"], {"street": Split(part)}), dict(part=PICTURES)),
    "ImageSet.of test": (lambda part: ImageSet.of(["a"], {"street": Split(PICTURES, part)}), dict(part=PICTURES)),
    "ImageSet.of items": (
        lambda items: ImageSet.of(["a", "b"], {"street": Split(Part(items, PICTURES.y))}),
        dict(items=PICTURES.items),
    ),
    "ImageSet.of labels": (
        lambda y: ImageSet.of(["a", "b"], {"street": Split(Part(PICTURES.items, y))}),
        dict(y=PICTURES.y),
    ),
    "take": (SET.take, dict(share=0.5)),
    "ImageTable": (partial(ImageTable, x=IMAGES), dict(y=[0, 1, 0, 1], domain=[0, 0, 1, 1], class_names=("a", "b"))),
    "ImageTable.load": (ImageTable.load, dict(path="absent")),
    "digits": (ggeur.digits.images, dict(seed=0)),
    "Model": (lambda **given: Model(**given).predict(X), {**ABOUT, "parameters": {}, "calibration": {}}),
    "Model.predict": (MODEL.predict, dict(given=X, encoder="builtin", reject=0.5)),
    "Model.predict pictures": (partial(MODEL.predict, IMAGES[0]), dict(encoder=None)),
    "Model.probabilities": (MODEL.probabilities, dict(table=TABLE)),
    "top": (MODEL.predict(X).top, dict(k=2)),
    "Model.save": (MODEL.save, dict(folder="absent/folder")),
    "Model.load": (Model.load, dict(path="absent", trial=0)),
    "load_model": (ggeur.load_model, dict(path="absent", trial=0)),
    "subset": (TABLE.subset, dict(samples=[1])),
    "split": (TABLE.split, dict(seed=0)),
    "EmbeddingTable.load": (EmbeddingTable.load, dict(path="absent")),
    "EmbeddingTable.save": (TABLE.save, dict(path="absent/folder")),
    "ClassStatistics.save": (S.save, dict(path="absent/folder")),
    "ClassStatistics.load": (ClassStatistics.load, dict(path="absent")),
    "Experiment.of": (Experiment.of, dict(tree=TREE)),
    "Experiment.load": (Experiment.load, dict(path="absent", overrides=["a.b=1"])),
    "run": (ggeur.run, dict(experiment=None)),
    "run to": (partial(ggeur.run, Experiment.of(TREE)), dict(out=None)),
    "Result.load": (Result.load, dict(path="absent")),
    "load_encoder": (ggeur.load_encoder, dict(name="builtin")),
    "fit": (
        ggeur.fit,
        dict(
            sites=[(X, Y)], method="ncm", parameters={}, covariance="pooled", encoder=None, min_count=0, seed=0,
            out=None, on_head=lambda done, total: None, on_pictures=lambda site, done, total, computed: None,
        ),
    ),
    "fit one": (lambda site: ggeur.fit([site], method="ncm"), dict(site=(X, Y))),
    "fit named": (lambda site: ggeur.fit({"a": site}, method="ncm"), dict(site=(X, Y))),
    "fit rows": (lambda x, y: ggeur.fit([(x, y)], method="ncm"), dict(x=X, y=Y)),
    "solved": (
        OneShotClassifier.from_statistics,
        dict(statistics=[S, S], classes=["a", "b", "c"], method="ncm", parameters={}),
    ),
    "solved for one": (lambda one: OneShotClassifier.from_statistics([one]), dict(one=S)),
}  # fmt: skip


@cache
def row() -> Any:
    from ggeur.experiments.result import Trial

    trials = [Trial("fedavg", "none", seed, {}, avg=50.0 + seed, domains={"a": 50.0}) for seed in (0, 1)]
    return Result(trials).rows()[0]


@pytest.mark.parametrize(("call", "name"), [(c, name) for c, (_, given) in CALLS.items() for name in given])
def test_the_wrong_type_is_our_error_or_is_taken(call, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what takes a name for a path may write there
    function, given = CALLS[call]
    for what, wrong in WRONG.items():
        try:
            function(**{**given, name: wrong})
        except GgeurError as error:
            assert len(str(error)) < 600, what
        except ValueError:
            assert function.__qualname__.startswith("OneShotClassifier") or "solved" in call, what  # scikit-learn's
        except BaseException as error:
            raise AssertionError(f"{call}({name}={what}) raises {type(error).__name__}: {error}") from error


def test_rows_are_compared_that_are_rows():
    for given in ({"a": 1, "b": row()}, {"a": row(), "b": None}, {"a": row(), "b": row(), "comparisons": "x"}):
        with pytest.raises(GgeurError):
            ggeur.paired_difference(**given)


def test_what_adds_up_to_something_else_is_refused():
    with refused("argument-type: parts"):
        ClassStatistics.merge([1, 2])


def test_what_no_memory_holds_is_a_sentence():
    with refused("memory-insufficient: the second moments"):
        ClassStatistics.from_embeddings(X, Y, 10**12)
    with refused("memory-insufficient: so many draws"):
        ggeur.augment(X, Y, G, target=10**15)
