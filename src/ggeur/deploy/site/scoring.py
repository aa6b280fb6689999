"""Solved heads at a site: candidates on samples that were left out of the statistics, and the head at the end."""

import hashlib

import numpy as np

from ggeur.core.types import Int
from ggeur.deploy.site.data import test_samples
from ggeur.deploy.site.local_round import scores_of
from ggeur.deploy.site.request import Reply, Request
from ggeur.deploy.wire.packing import arrays_to_tree


def right(request: Request) -> Reply:
    """How many training samples of each group of each fold each candidate gets right that was solved without them."""
    request.exact()
    return {}, {"right": rows_right(request)}


def rows_right(request: Request) -> Int:
    """(folds, heads, D, C): the same."""
    from ggeur.federation.selection_rule import right_answers

    facts, table = request.facts, request.table()
    own, shape = ~test_samples(table), (table.n_domains, table.n_classes)
    x, y, domains = table.x[own], table.y[own], table.domains[own]
    fold = request.folds(y, domains, int(facts["folds"]))
    samples = [fold == k for k in range(int(facts["folds"]))]
    samples += [groups[domains, y] for groups in request.arrays.get("groups", ())]
    kinds = [request.site.allowed(kind, "head") for kind in facts["kinds"]]
    found = [
        [right_answers(head, x[mine], y[mine], domains[mine], shape) for head in zip(kinds, heads, strict=True)]
        for mine, heads in zip(samples, arrays_to_tree(request.arrays, facts["heads"], "head"), strict=True)
    ]
    return np.array(found, np.int64)


def score(request: Request) -> Reply:
    """Score the head that `request` brings, of the kind it names, on this site's test samples, and forget the run."""
    from ggeur.heads import resolve

    said = b"".join(name.encode() + array.tobytes() for name, array in sorted(request.arrays.items()))
    request.site.terms.score(request.site.root, request.store.identity, hashlib.sha256(said).hexdigest())
    table, head = request.table(), resolve(request.site.allowed(str(request.facts["kind"]), "head"))
    test = test_samples(table)
    params = arrays_to_tree(request.arrays, request.facts["head"], "head")
    scores, confusion = scores_of(request, (table.x[test], table.y[test], table.domains[test]), params, head)
    request.forget()
    return {"scores": scores}, {"confusion": confusion}
