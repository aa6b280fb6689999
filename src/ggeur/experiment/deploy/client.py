"""The ClientApp: what a site answers. It sends sums and heads; rows, augmented sets and states stay on its disk."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ggeur.core.augment import plan_draws
from ggeur.core.errors import GgeurError
from ggeur.core.statistics import ClassStatistics
from ggeur.core.virtual import VirtualSet, virtual_set
from ggeur.data.table import EmbeddingTable
from ggeur.engine.flower.packing import Arrays, Tree, arrays_to_tree, pack_statistics, tree_to_arrays
from ggeur.engine.flower.records import from_records, to_records
from ggeur.engine.flower.shapes import Shapes, own_noise
from ggeur.engine.flower.store import Store
from ggeur.experiment.config import Settings
from ggeur.experiment.deploy.site import Site, relabelled
from ggeur.methods import CLOSED

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp

Facts = dict[str, Any]
Reply = tuple[Facts, Arrays]


def client_app() -> "ClientApp":
    """The app that a SuperNode runs."""
    from flwr.clientapp import ClientApp

    app = ClientApp()
    app.query("hello")(_answering(_hello))
    app.query("statistics")(_answering(_statistics))
    app.query("augment")(_answering(_augment))
    app.train()(_answering(_train))
    app.evaluate()(_answering(_evaluate))
    return app


class Asked:
    """A message's common part: which run, which cell of it, which settings."""

    def __init__(self, site: Site, facts: Facts) -> None:
        self.site, self.facts = site, facts
        self.point = Settings.model_validate(facts["point"])
        self.seed = int(facts["seed"])
        self.store = Store(site.root, str(facts["run"]), int(facts["cell"]), site.client)

    def table(self, *, fresh: bool = False) -> EmbeddingTable:
        table = self.site.load(self.point, self.seed, self.store.path.parent, fresh=fresh)
        return table if fresh else relabelled(table, self.facts["classes"], self.facts["domains"])


def _answering(answer: Callable[[Asked, Arrays], Reply]) -> Callable[["Message", "Context"], "Message"]:
    """`answer` as Flower calls it; what is wrong at this site becomes a sentence for the server's log."""

    def reply(message: "Message", context: "Context") -> "Message":
        from flwr.app import Message

        began = time.perf_counter()
        try:
            facts, arrays = from_records(message.content)
            facts, arrays = answer(Asked(Site(context.node_config), facts), arrays)
        except GgeurError as error:
            facts, arrays = {"problem": str(error)}, {}
        facts["seconds"] = time.perf_counter() - began
        return Message(to_records(facts, arrays), reply_to=message)

    return reply


def _hello(asked: Asked, arrays: Arrays) -> Reply:
    """Who this site is, what its table is about, and whether it has its training set of this run already."""
    table = asked.table(fresh=True)
    own = np.flatnonzero(~_test(table))
    homes = np.unique(table.domains[own])
    kept = asked.store.facts()
    return {
        "partition": asked.site.client,
        "classes": table.class_names,
        "domains": table.domain_names,
        "dimension": table.dimension,
        "encoder": {k: table.meta[k] for k in ("encoder", "weights", "preprocessing") if k in table.meta},
        "count": np.bincount(table.y[own], minlength=table.n_classes).tolist(),
        "home": table.domain_names[homes[0]] if len(homes) == 1 else None,
        "fingerprint": table.fingerprint(),
        "test": int(_test(table).sum()),
        "ready": kept is not None and kept["fingerprint"] == table.fingerprint(),
    }, {}


def _test(table: EmbeddingTable) -> Any:
    assert table.test is not None  # it has been split
    return table.test


def _statistics(asked: Asked, arrays: Arrays) -> Reply:
    """Per-class sums of the training rows, about the center that the server may have asked for."""
    table = asked.table()
    own = np.flatnonzero(~_test(table))
    s = ClassStatistics.from_embeddings(table.x[own], table.y[own], table.n_classes, center=arrays.get("center"))
    packed = pack_statistics(s, asked.facts["matrices"])
    return {}, {"count": packed.count, "sum": packed.sum, "second": packed.second}


def _augment(asked: Asked, arrays: Arrays) -> Reply:
    """Draw this site's training set along the global shapes and keep it; reply with the method's first message."""
    table, a = asked.table(), asked.point.augment
    own = np.flatnonzero(~_test(table))
    y = table.y[own]
    means, present = arrays["prototypes"], arrays["present"]
    bank = None
    draws = plan_draws(y[:0], table.n_classes)
    if a.kind != "none":
        draws = plan_draws(
            y,
            table.n_classes,
            target=a.target or 0,
            per_sample=a.per_sample,
            prototypes=present,
            per_prototype=a.per_prototype,
            empty_cell=a.empty_cell,
        )
    noise = None
    if a.kind == "ggeur":
        shapes = Shapes(arrays["factors"], arrays["factor_of"], 0.0)
        size, offset = arrays["size"], arrays["offset"]
        noise, bank = own_noise(draws.label, shapes, size, offset, asked.site.client, asked.seed, table.dimension)
    made = virtual_set(np.arange(len(own)), y, draws, noise, len(own))
    test = _test(table)
    base = np.concatenate([table.x[own].astype(np.float32), means.reshape(-1, table.dimension)])
    asked.store.keep(
        {"fingerprint": asked.facts["fingerprint"], "originals": made.originals, "domains": table.domain_names},
        {
            "base": _stored(base, asked.point),
            "bank": None if bank is None else _stored(bank, asked.point),
            "row": made.row,
            "noise": made.noise,
            "y": made.y,
            "test_x": table.x[test],
            "test_y": table.y[test],
            "test_domain": table.domains[test],
        },
    )
    return _first_message(asked, len(made.y), table.n_classes)


def _stored(array: Any, point: Settings) -> Any:
    """As `[train] storage` has it."""
    with np.errstate(over="ignore"):
        stored = array.astype(point.train.storage)
    if not np.isfinite(stored).all():
        raise GgeurError('storage = "float16" holds values up to 65504 and this site\'s are larger; use "float32"')
    return stored


def _first_message(asked: Asked, rows: int, n_classes: int) -> Reply:
    from ggeur.engine.flower import lane

    prepared: Tree = ()
    if rows and asked.point.train.method not in CLOSED:
        prepared = lane.prepare(_lane(asked, n_classes), _method(asked), asked.point.train.batch)
    arrays, shape = tree_to_arrays(prepared)
    return {"rows": rows, "prepared": shape}, arrays


def _method(asked: Asked) -> Any:
    from ggeur.engine.compilation import keep_compiled_programs
    from ggeur.experiment.federation import head_of
    from ggeur.methods import resolve

    keep_compiled_programs()
    name = asked.point.train.method
    return resolve(name, head_of(asked.point), asked.point.method.get(name, {}))


def _lane(asked: Asked, n_classes: int) -> Any:
    from ggeur.engine.flower.lane import Lane

    kept = asked.store.facts() or {}
    base, bank, row, noise, y = (asked.store.array(name) for name in ("base", "bank", "row", "noise", "y"))
    assert base is not None and row is not None and noise is not None and y is not None
    made = VirtualSet(row, noise, y, int(kept["originals"]))
    return Lane(asked.seed, asked.site.client, base, bank, made, n_classes)


def _train(asked: Asked, arrays: Arrays) -> Reply:
    """Score the head as it comes, then train from it; what this site remembers is kept under the round's number."""
    from ggeur.engine.flower import lane
    from ggeur.experiment.runner import training

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
        _lane(asked, n_classes), method, training(asked.point), number, start, {**sent, **constant}, state
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
    from ggeur.experiment.federation import first_head, head_of

    base = asked.store.array("base")
    assert base is not None
    like = EmbeddingTable(np.zeros((0, base.shape[1]), np.float32), [], class_names=tuple(asked.facts["classes"]))  # type: ignore[arg-type]
    return first, first_head(head_of(asked.point), asked.seed, like, asked.site.client)


def _evaluate(asked: Asked, arrays: Arrays) -> Reply:
    """Score a head on this site's test rows; with `last`, by class too, and forget the run."""
    if asked.store.facts() is None:
        return {"lacks": "set"}, {}
    scores, confusion = _scores(asked, arrays_to_tree(arrays, asked.facts["head"], "head"))
    if asked.facts.get("last"):
        asked.store.clear()
    return {"scores": scores}, {"confusion": confusion}


def _scores(asked: Asked, params: Tree) -> tuple[dict[str, list[int]], Any]:
    """Right answers and rows of each domain, and how often class i was taken for class j."""
    from ggeur.experiment.evaluate import _predict
    from ggeur.experiment.federation import head_of

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
