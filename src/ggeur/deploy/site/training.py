"""A round at a site: score the head that comes, train it on the set that is kept here, remember what the method must.

JAX is imported where it is used: a process starts for every message, and those of round 0 do without.
"""

from typing import Any

import numpy as np

from ggeur.core.types import Tree
from ggeur.core.virtual import VirtualSet
from ggeur.deploy.site.data import Reply, Request
from ggeur.deploy.wire.packing import Arrays, arrays_to_tree, tree_to_arrays
from ggeur.methods import kind_of
from ggeur.methods.algorithm import Solved, Task


def first_message(request: Request, rows: int, n_classes: int) -> Reply:
    from ggeur.engine import lane

    prepared: Tree = ()
    if rows and kind_of(request.point.train.method) is not Solved:
        prepared = lane.prepare(_lane(request, n_classes), _setup(request).trained, request.point.train.batch)
    arrays, shape = tree_to_arrays(prepared)
    return {"rows": rows, "prepared": shape}, arrays


def _setup(request: Request) -> Any:
    from ggeur.engine.compilation import keep_compiled_programs
    from ggeur.experiment.setup import Setup

    keep_compiled_programs()
    return Setup.of(request.point)


def _lane(request: Request, n_classes: int) -> Any:
    from ggeur.engine.lane import Lane

    kept = request.store.facts() or {}
    base, bank, row, noise, y = (request.store.array(name) for name in ("base", "bank", "row", "noise", "y"))
    assert base is not None and row is not None and noise is not None and y is not None
    made = VirtualSet(row, noise, y, int(kept["originals"]))
    return Lane(request.seed, request.site.client, base, bank, made, n_classes)


def train(request: Request, arrays: Arrays) -> Reply:
    """Score the head as it comes, then train from it; what this site remembers is kept under the round's number."""
    from ggeur.engine import lane

    facts, store = request.facts, request.store
    if store.facts() is None:
        return {"lacks": "set"}, {}
    sent = arrays_to_tree(arrays, facts["sent"], "sent")
    if "constant" in facts:
        store.put_tree("constant", arrays_to_tree(arrays, facts["constant"], "constant"))
    constant = store.tree("constant")
    if constant is None:
        return {"lacks": "constant"}, {}
    setup, number, since = _setup(request), int(facts["round"]), int(facts["since"])
    memory = _memory(request, arrays, since, setup)
    if memory is None:
        return {"lacks": "state"}, {}
    state, own = memory
    head = sent["params"]
    scores, _ = _scores(request, head, setup.head)
    start = head if request.point.train.broadcast else own
    n_classes = len(facts["classes"])
    done = lane.train(
        _lane(request, n_classes), setup.trained, setup.training, number, start, {**sent, **constant}, state
    )
    new = (done.state, () if request.point.train.broadcast else done.end)
    if tree_to_arrays(new)[0]:
        store.put_state(number, new, since)
    message, shape = tree_to_arrays(done.message)
    return {"message": shape, "loss": done.loss, "scores": scores}, message


def _memory(request: Request, arrays: Arrays, since: int, setup: Any) -> tuple[Tree, Tree] | None:
    """The method's state at this site and, where heads are not broadcast, its own head, as of the round `since`."""
    if since:
        kept = request.store.state(since)
        if kept is not None:
            return kept[0], kept[1]
        if request.facts["remembers"]:
            return None
    first = arrays_to_tree(arrays, request.facts["first"], "first")
    if request.point.train.broadcast:
        return first, ()
    from ggeur.federation.start import random_head

    base = request.store.array("base")
    assert base is not None
    task = Task(base.shape[1], tuple(request.facts["classes"]))
    return first, random_head(setup.head, task, request.seed, request.site.client)


def evaluate(request: Request, arrays: Arrays) -> Reply:
    """Score a head on this site's test rows; with `last`, by class too, and forget the run."""
    if request.store.facts() is None:
        return {"lacks": "set"}, {}
    scores, confusion = _scores(request, arrays_to_tree(arrays, request.facts["head"], "head"), _setup(request).head)
    if request.facts.get("last"):
        request.store.clear()
    return {"scores": scores}, {"confusion": confusion}


def _scores(request: Request, params: Tree, head: Any) -> tuple[dict[str, list[int]], Any]:
    """Right answers and rows of each domain, and how often class i was taken for class j."""
    from ggeur.experiment.evaluation import confusion, predict

    x, y, domain = (request.store.array(name) for name in ("test_x", "test_y", "test_domain"))
    kept = request.store.facts()
    assert x is not None and y is not None and domain is not None and kept is not None
    n_classes = len(request.facts["classes"])
    if not len(y):
        return {}, np.zeros((n_classes, n_classes), np.int64)
    predicted = np.asarray(predict(head)(params, np.asarray(x)))
    right = predicted == y
    names = {int(d): kept["domains"][d] for d in np.unique(domain)}
    return {n: [int(right[domain == d].sum()), int((domain == d).sum())] for d, n in names.items()}, confusion(
        y, predicted, n_classes
    )
