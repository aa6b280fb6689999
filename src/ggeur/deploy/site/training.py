"""A round at a site: score the head that comes, train it on the set that is kept here, remember what the method must.

JAX is imported where it is used: a process starts for every message, and those of round 0 do without.
"""

from typing import Any

import numpy as np

from ggeur.core.types import Tree
from ggeur.core.virtual import VirtualSet
from ggeur.data.table import EmbeddingTable
from ggeur.deploy.site.data import Asked, Reply
from ggeur.deploy.wire.packing import Arrays, arrays_to_tree, tree_to_arrays
from ggeur.methods import kind_of
from ggeur.methods.algorithm import Solved


def first_message(asked: Asked, rows: int, n_classes: int) -> Reply:
    from ggeur.engine import lane

    prepared: Tree = ()
    if rows and kind_of(asked.point.train.method) is not Solved:
        prepared = lane.prepare(_lane(asked, n_classes), _method(asked), asked.point.train.batch)
    arrays, shape = tree_to_arrays(prepared)
    return {"rows": rows, "prepared": shape}, arrays


def _method(asked: Asked) -> Any:
    from ggeur.engine.compilation import keep_compiled_programs
    from ggeur.experiment.built import method_of

    keep_compiled_programs()
    return method_of(asked.point)


def _lane(asked: Asked, n_classes: int) -> Any:
    from ggeur.engine.lane import Lane

    kept = asked.store.facts() or {}
    base, bank, row, noise, y = (asked.store.array(name) for name in ("base", "bank", "row", "noise", "y"))
    assert base is not None and row is not None and noise is not None and y is not None
    made = VirtualSet(row, noise, y, int(kept["originals"]))
    return Lane(asked.seed, asked.site.client, base, bank, made, n_classes)


def train(asked: Asked, arrays: Arrays) -> Reply:
    """Score the head as it comes, then train from it; what this site remembers is kept under the round's number."""
    from ggeur.engine import lane
    from ggeur.experiment.built import training_of

    facts, store = asked.facts, asked.store
    if store.facts() is None:
        return {"lacks": "set"}, {}
    sent = arrays_to_tree(arrays, facts["sent"], "sent")
    if "constant" in facts:
        store.put_tree("constant", arrays_to_tree(arrays, facts["constant"], "constant"))
    constant = store.tree("constant")
    if constant is None:
        return {"lacks": "constant"}, {}
    method, number, since = _method(asked), int(facts["round"]), int(facts["since"])
    memory = _memory(asked, arrays, since)
    if memory is None:
        return {"lacks": "state"}, {}
    state, own = memory
    head = sent["params"]
    scores, _ = _scores(asked, head)
    start = head if asked.point.train.broadcast else own
    n_classes = len(facts["classes"])
    done = lane.train(
        _lane(asked, n_classes), method, training_of(asked.point), number, start, {**sent, **constant}, state
    )
    new = (done.state, () if asked.point.train.broadcast else done.end)
    if tree_to_arrays(new)[0]:
        store.put_state(number, new, since)
    message, shape = tree_to_arrays(done.message)
    return {"message": shape, "loss": done.loss, "scores": scores}, message


def _memory(asked: Asked, arrays: Arrays, since: int) -> tuple[Tree, Tree] | None:
    """The method's state at this site and, where heads are not broadcast, its own head, as of the round `since`."""
    if since:
        kept = asked.store.state(since)
        if kept is not None:
            return kept[0], kept[1]
        if asked.facts["remembers"]:
            return None
    first = arrays_to_tree(arrays, asked.facts["first"], "first")
    if asked.point.train.broadcast:
        return first, ()
    from ggeur.experiment.built import head_of
    from ggeur.experiment.dealing import first_head

    base = asked.store.array("base")
    assert base is not None
    none, classes = np.zeros((0, base.shape[1]), np.float32), tuple(asked.facts["classes"])
    like = EmbeddingTable(none, np.zeros(0, np.int64), class_names=classes)
    return first, first_head(head_of(asked.point), asked.seed, like, asked.site.client)


def evaluate(asked: Asked, arrays: Arrays) -> Reply:
    """Score a head on this site's test rows; with `last`, by class too, and forget the run."""
    if asked.store.facts() is None:
        return {"lacks": "set"}, {}
    scores, confusion = _scores(asked, arrays_to_tree(arrays, asked.facts["head"], "head"))
    if asked.facts.get("last"):
        asked.store.clear()
    return {"scores": scores}, {"confusion": confusion}


def _scores(asked: Asked, params: Tree) -> tuple[dict[str, list[int]], Any]:
    """Right answers and rows of each domain, and how often class i was taken for class j."""
    from ggeur.experiment.built import head_of
    from ggeur.experiment.evaluation import _predict

    x, y, domain = (asked.store.array(name) for name in ("test_x", "test_y", "test_domain"))
    kept = asked.store.facts()
    assert x is not None and y is not None and domain is not None and kept is not None
    n_classes = len(asked.facts["classes"])
    confusion = np.zeros((n_classes, n_classes), np.int64)
    if not len(y):
        return {}, confusion
    predicted = np.asarray(_predict(head_of(asked.point))(params, np.asarray(x)))
    np.add.at(confusion, (y, predicted), 1)
    right = predicted == y
    names = {int(d): kept["domains"][d] for d in np.unique(domain)}
    return {n: [int(right[domain == d].sum()), int((domain == d).sum())] for d, n in names.items()}, confusion
