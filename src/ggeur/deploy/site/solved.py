"""Solved heads at a site: candidates on rows that were left out of the statistics, and the head at the end."""

import numpy as np

from ggeur.core.names import is_own
from ggeur.core.types import Int
from ggeur.deploy.site.data import test_rows
from ggeur.deploy.site.local_round import scores_of
from ggeur.deploy.site.request import Reply, Request
from ggeur.deploy.wire.packing import arrays_to_tree


def right(request: Request) -> Reply:
    """How many training rows of each cell of each fold each candidate gets right that was solved without them."""
    request.in_the_clear()
    return {}, {"right": rows_right(request)}


def rows_right(request: Request) -> Int:
    """(folds, heads, D, C): the same."""
    from ggeur.federation.choosing import right_answers, row_folds

    facts, table = request.facts, request.table()
    own, shape = ~test_rows(table), (table.n_domains, table.n_classes)
    x, y, domains = table.x[own], table.y[own], table.domains[own]
    least = request.point.privacy.least_rows
    fold = row_folds(y, domains, int(facts["folds"]), request.seed, request.site.client, least)
    rows = [fold == k for k in range(int(facts["folds"]))]
    rows += [cells[domains, y] for cells in request.arrays.get("cells", ())]
    kinds = [_allowed(request, kind) for kind in facts["kinds"]]
    found = [
        [right_answers(head, x[mine], y[mine], domains[mine], shape) for head in zip(kinds, heads, strict=True)]
        for mine, heads in zip(rows, arrays_to_tree(request.arrays, facts["heads"], "head"), strict=True)
    ]
    return np.array(found, np.int64)


def score(request: Request) -> Reply:
    """Score the head that `request` brings, of the kind it names, on this site's test rows, and forget the run."""
    from ggeur.heads import resolve

    table, head = request.table(), resolve(_allowed(request, str(request.facts["kind"])))
    test = test_rows(table)
    params = arrays_to_tree(request.arrays, request.facts["head"], "head")
    scores, confusion = scores_of(request, (table.x[test], table.y[test], table.domains[test]), params, head)
    request.forget()
    return {"scores": scores}, {"confusion": confusion}


def _allowed(request: Request, kind: str) -> str:
    """A kind of head that this site may import."""
    if is_own(kind):
        request.site.check_imports("head", kind)
    return kind
