"""A round at a site: score the head that comes, train it on the site's set, and keep the method's state.

JAX is imported where it is used: a process starts for every message, and those of round 0 do not need it.
"""

from typing import Any

import numpy as np

from ggeur.flower.site.request import Reply, Request
from ggeur.flower.wire.packing import arrays_to_tree, tree_to_arrays
from ggeur.methods.algorithm import Task
from ggeur.stats.augmented_sets import AugmentedSet
from ggeur.stats.errors import GgeurError
from ggeur.stats.geometry import LowRank
from ggeur.stats.types import Int, Tree


def first_message(request: Request, samples: int) -> Reply:
    """Return the method's message before round 1, from the site's `samples` kept; `request` names the method."""
    from ggeur.engine import single_client

    message: Tree = ()
    if samples:
        message = single_client.prepare_client(
            stored_client(request), setup_of(request).trained, request.point.train.batch_size
        )
    arrays, shape = tree_to_arrays(message)
    return {"samples": samples, "prepared": shape}, arrays


def setup_of(request: Request) -> Any:
    """Return the setup for the settings of `request`."""
    from ggeur.engine.local import keep_compiled_programs
    from ggeur.experiments.setup import Setup

    keep_compiled_programs()
    setup = Setup.of(request.point).of_task(_task(request))
    own, theirs = None if setup.trained is None else setup.trained.method.head, str(request.facts.get("weights", ""))
    if own is not None and theirs not in ("", own.weights()):
        raise GgeurError(
            f"the frozen model of {request.point.train.method} is not the server's here; start the node with --encoder "
            "and a folder that holds the same",
            code="site-frozen-model-mismatch",
        )
    return setup


def _task(request: Request) -> Task:
    """Return the task; the server sends its text embeddings."""
    facts, (base,) = request.facts, request.store.arrays("base")
    classes, encoder = tuple(facts["classes"]), str(facts.get("encoder", ""))
    return Task(base.shape[1], classes, encoder=encoder, clip=request.site.clip)


def stored_client(request: Request) -> Any:
    """Return this site as a training client, from its files."""
    from ggeur.engine.single_client import SingleClient

    names = ("base", "bank", "sample", "noise", "y", "originals", *LowRank._fields)
    base, bank, sample, noise, y, originals, *few = request.store.arrays(*names)
    samples = AugmentedSet(sample, noise, y, int(originals[0]))
    bank_or_none, shapes = bank if len(bank) else None, LowRank(*few) if len(few[0]) else None
    return SingleClient(
        request.seed, request.site.client, base, bank_or_none, samples, len(request.facts["classes"]), shapes
    )


def _tree(request: Request, name: str) -> Tree:
    """Return the part of the message with this name."""
    return arrays_to_tree(request.arrays, request.facts[name], name)


def train_round(request: Request) -> Reply:
    """Score the head in `request`, then train from it."""
    request.exact()
    done, scores, _ = trained(request)
    message, shape = tree_to_arrays(done.message)
    return {"message": shape, "loss": done.loss, "scores": scores}, message


def trained(request: Request) -> tuple[Any, dict[str, list[int]], AugmentedSet]:
    """Return the result of a round at this site, the scores of the head that came, and the training set.

    The site's state is kept under the round's number.
    """
    from ggeur.engine import single_client
    from ggeur.engine.aggregation import frozen, shown

    facts, store, broadcast = request.facts, request.store, request.point.train.broadcast
    mine = stored_client(request)  # before anything is kept: where the set is lost, so is its folder
    if "constant" in facts:
        store.put_tree("constant", _tree(request, "constant"))
    sent, setup = {**_tree(request, "sent"), **store.tree("constant")}, setup_of(request)
    number, since = int(facts["round"]), int(facts["since"])
    if since and facts["remembers"]:
        state, own = store.tree(f"state-{since}")
    else:
        state, own = _tree(request, "first"), () if broadcast else _own_head(request, setup)
    head = sent["params"] if setup.method_head is None else shown(setup.trained, sent, frozen(setup.trained))
    scores, _ = _scores(request, head, setup.head)
    start = sent["params"] if broadcast else own
    done = single_client.train_client(mine, setup.trained, setup.training, number, start, sent, state)
    if facts["remembers"]:
        store.put_state(number, (done.state, () if broadcast else done.end), since)
    return done, scores, mine.set


def _own_head(request: Request, setup: Any) -> Tree:
    """Return the head that this site starts from, where heads are not broadcast."""
    from ggeur.federation.start import random_head

    return random_head(setup.head, _task(request), request.seed, request.site.client, setup.trained)


def score_round(request: Request) -> Reply:
    """Score the head in `request` on this site's test samples, and delete the run's files if it is the last."""
    from ggeur.heads import resolve

    kind = request.facts.get("kind")  # of a method's own head
    head = setup_of(request).head if kind is None else resolve(request.site.allowed(str(kind), "head"))
    scores, confusion = _scores(request, _tree(request, "head"), head)
    if request.facts.get("last"):
        request.forget()
    return {"scores": scores}, {"confusion": confusion}


def _scores(request: Request, params: Tree, head: Any) -> tuple[dict[str, list[int]], Any]:
    """Score the head with these `params` on the site's test samples."""
    x, y, domain = request.store.arrays("test_x", "test_y", "test_domain")
    return scores_of(request, (np.asarray(x), y, domain), params, head)


def scores_of(
    request: Request, test: tuple[Any, Int, Int], params: Tree, head: Any
) -> tuple[dict[str, list[int]], Int]:
    """Return right answers and samples by domain, and the confusion matrix, on the samples of `test`."""
    from ggeur.federation.evaluation import confusion, predicted_labels

    x, y, domain = test
    n_classes = len(request.facts["classes"])
    if not len(y):
        return {}, np.zeros((n_classes, n_classes), np.int64)
    predicted = np.asarray(predicted_labels(head)(params, x))
    names = {int(d): request.facts["domains"][d] for d in np.unique(domain)}
    right = predicted == y
    scores = {name: [int(right[domain == d].sum()), int((domain == d).sum())] for d, name in names.items()}
    return scores, confusion(y, predicted, n_classes)
