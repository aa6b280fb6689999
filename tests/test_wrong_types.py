"""What is public, given what it cannot take: each argument of each function in turn. It says so, as our error."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

import ggeur
from ggeur import ClassStatistics, EmbeddingTable, Experiment, Geometry, GgeurError, Message, Prototypes, Result

X, Y = np.random.default_rng(0).normal(size=(30, 4)), np.repeat([0, 1, 2], 10)
S = ClassStatistics.from_embeddings(X, Y, 3)
G = Geometry.from_statistics(S)
P = Prototypes.from_statistics([S])
M = Message.from_embeddings(X, Y, 3)
TABLE = EmbeddingTable(x=X, y=Y, domain=np.arange(30) % 2, class_names=("a", "b", "c"), domain_names=("p", "q"))
MOMENTS = dict(count=S.count, sum=S.sum, second=S.second, center=S.center)
TREE = {"data": {"dataset": "mini-digits"}, "train": {"method": "ncm"}}

WRONG = {
    "none": None, "text": "x", "bytes": b"q", "half": 1.5, "minus one": -1, "nan": np.nan, "many": 10**15,
    "a list of anything": [1, "a"], "ragged": [[1.0], [1.0, 2.0]], "mapping": {1: 2}, "object": object(),
    "function": lambda: 1, "no rows": np.zeros((0, 0)), "words": np.array(["a"]), "infinite": np.full((3, 4), np.inf),
}  # fmt: skip

# A call that works, by the arguments that are then replaced, one at a time. Booleans are asked for their truth, as
# Python has it, and left out.
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "from_embeddings": (ClassStatistics.from_embeddings, dict(x=X, y=Y, n_classes=3, center=np.zeros(4))),
    "ClassStatistics": (ClassStatistics, MOMENTS),
    "Message": (Message, MOMENTS),
    "merge": (ClassStatistics.merge, dict(parts=[S, S])),
    "merge of another": (lambda one: ClassStatistics.merge([one, S]), dict(one=S)),
    "merge with another": (lambda one: ClassStatistics.merge([S, one]), dict(one=S)),
    "about": (S.about, dict(center=np.zeros(4))),
    "Message.about": (M.of_kind("pooled").about, dict(center=np.zeros(4))),
    "of_kind": (M.of_kind, dict(kind="pooled")),
    "Geometry": (Geometry, dict(eigenvalues=G.eigenvalues, eigenvectors=G.eigenvectors, present=G.present)),
    "Geometry.from_statistics": (Geometry.from_statistics, dict(statistics=S, rank=2, energy=0.5)),
    "from_covariance": (Geometry.from_covariance, dict(covariance=S.covariance, present=S.present, rank=2, energy=0.5)),
    "factor": (G.factor, dict(c=1, scale="eigenvalue")),
    "factors": (G.factors, dict(scale="eigenvalue")),
    "similarity": (ggeur.similarity, dict(a=G, b=G, top=2)),
    "Prototypes": (Prototypes, dict(mean=P.mean, present=P.present)),
    "Prototypes.from_statistics": (Prototypes.from_statistics, dict(domains=[S])),
    "augment": (
        ggeur.augment,
        dict(
            x=X, y=Y, geometry=G, target=20, per_sample=2, prototypes=P, per_prototype=3, scale="sqrt-eigenvalue",
            empty_cell="all", seed=0,
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
    "subset": (TABLE.subset, dict(rows=[1])),
    "split": (TABLE.split, dict(seed=0)),
    "EmbeddingTable.load": (EmbeddingTable.load, dict(path="absent")),
    "EmbeddingTable.save": (TABLE.save, dict(path="absent/folder")),
    "ClassStatistics.save": (S.save, dict(path="absent/folder")),
    "ClassStatistics.load": (ClassStatistics.load, dict(path="absent")),
    "Experiment.of": (Experiment.of, dict(tree=TREE)),
    "Experiment.load": (Experiment.load, dict(path="absent", overrides=["a.b=1"])),
    "run": (partial(ggeur.run), dict(experiment=None)),
    "Result.load": (Result.load, dict(path="absent")),
    "load_encoder": (ggeur.load_encoder, dict(name="builtin")),
    "fit": (ggeur.fit, dict(sites=[(X, Y)], method="ncm", statistics="pooled", seed=0)),
}  # fmt: skip


@cache
def row() -> Any:
    from ggeur.runs.result import Cell

    cells = [Cell("fedavg", "none", seed, {}, avg=50.0 + seed, domains={"a": 50.0}) for seed in (0, 1)]
    return Result(cells).rows()[0]


@pytest.mark.parametrize(("call", "name"), [(c, name) for c, (_, given) in CALLS.items() for name in given])
def test_the_wrong_type_is_our_error_or_is_taken(call, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what takes a name for a path may write there
    function, given = CALLS[call]
    for what, wrong in WRONG.items():
        try:
            function(**{**given, name: wrong})
        except GgeurError as error:
            assert len(str(error)) < 600, what
        except BaseException as error:
            raise AssertionError(f"{call}({name}={what}) raises {type(error).__name__}: {error}") from error


def test_rows_are_compared_that_are_rows():
    for given in ({"a": 1, "b": row()}, {"a": row(), "b": None}, {"a": row(), "b": row(), "comparisons": "x"}):
        with pytest.raises(GgeurError):
            ggeur.paired_difference(**given)


def test_what_adds_up_to_something_else_is_refused():
    with pytest.raises(GgeurError, match="parts"):
        ClassStatistics.merge([1, 2])


def test_what_no_memory_holds_is_a_sentence():
    with pytest.raises(GgeurError, match="not enough memory for the second moments"):
        ClassStatistics.from_embeddings(X, Y, 10**12)
    with pytest.raises(GgeurError, match="not enough memory for so many draws"):
        ggeur.augment(X, Y, G, target=10**15)
