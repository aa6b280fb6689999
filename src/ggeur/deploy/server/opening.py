"""Round 0 as messages: sites' statistics are asked for, checked, spooled to disk and merged in the clients' order."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError
from ggeur.core.types import Float
from ggeur.deploy.server.agreement import Agreement, Client
from ggeur.deploy.server.layout import Plan, far_center, global_shapes, guided_classes, matrices_needed
from ggeur.deploy.server.roster import Roster
from ggeur.deploy.wire.check import check_statistics
from ggeur.deploy.wire.packing import Arrays, Packed
from ggeur.settings.schema import Settings


class Opening:
    """The plan of a cell, and the merged statistics that a head may be solved from."""

    def __init__(self, plan: Plan, total: Packed | None, center: Float | None) -> None:
        self.plan, self.total, self.center = plan, total, center


def open_federation(roster: Roster, point: Settings) -> Opening:
    """Agree on classes, collect what `[augment]` and the head need, and lay out everybody's training set."""
    _agree(roster)
    matrices = matrices_needed(point)
    if matrices is None:
        return Opening(Plan.of(_agreed(roster), _members(roster), point.augment, None, None), None, None)
    with tempfile.TemporaryDirectory(prefix="ggeur-statistics-") as folder:
        spool, total, center = _statistics(roster, matrices, Path(folder))
        while Agreement.of(roster.present).classes != _agreed(roster).classes:
            _settle(roster)  # what only a refused site had named is no class of this run
            spool, total, center = _statistics(roster, matrices, Path(folder))
        clients = _members(roster)
        count = _agreed(roster).counts(clients)
        means, sums = _means(spool, center)
        shapes = None
        if point.augment.kind == "ggeur":
            a = point.augment
            guided = total if a.guided >= 1 else _merged(spool, guided_classes(count, a.guided))
            homes = np.array([-1 if c.home is None else _agreed(roster).domains.index(c.home) for c in clients])
            roster.journal("merging", clients=len(clients), classes=len(count[0]), dimension=total.dimension)
            shapes = global_shapes(guided, means, count, homes, a, center)
            if a.scale == "eigenvalue" and not 0.1 <= shapes.largest <= 10:
                why = f"the largest eigenvalue, {shapes.largest:.3g}, is outside 0.1..10"
                roster.journal("note", why=f"scale = 'eigenvalue' depends on the embedding's units, and {why}.")
    plan = Plan.of(_agreed(roster), clients, point.augment, shapes, (count, sums))
    if point.augment.steps == 2 and point.augment.kind in ("prototypes", "ggeur") and not plan.homes:
        roster.journal("note", why="Step 2 adds nothing: the sites are not of several domains.")
    return Opening(plan, total, center)


def _agree(roster: Roster) -> None:
    """Refuse sites whose embeddings cannot be compared with those of most, and fix the classes and domains."""
    basis = Agreement.of_most(roster.present)
    for client in roster.present:
        try:
            basis.check(client)
        except GgeurError as error:
            roster.drop(client, 0, str(error))
    _require(roster)
    if roster.settings.test_table is None and not any(client.test for client in roster.present):
        raise GgeurError("No site has test rows: name a table on the server with [federate] test_table.")
    _settle(roster)


def _settle(roster: Roster) -> None:
    roster.agreement = Agreement.of(roster.present)
    roster.common |= {"classes": roster.agreement.classes, "domains": roster.agreement.domains}


def _agreed(roster: Roster) -> Agreement:
    assert roster.agreement is not None
    return roster.agreement


def _members(roster: Roster) -> list[Client]:
    return [client for _, client in sorted(roster.clients.items())]


def _require(roster: Roster) -> None:
    least = roster.settings.min_nodes
    if len(roster.present) < least:
        raise GgeurError(
            f"{len(roster.present)} sites remain before training, and [federate] min_nodes = {least}; "
            "federation.jsonl in the run folder says who was refused and why."
        )


def _statistics(roster: Roster, matrices: str, folder: Path) -> tuple[dict[int, Path], Packed, Float | None]:
    """Every client's statistics, their sum, and the center they are about where zero would lose digits."""
    spool = _collect(roster, matrices, None, folder)
    total, center = _merged(spool), None
    if matrices != "means" and (center := far_center(total)) is not None:
        spool = _collect(roster, matrices, center, folder)
        total = _merged(spool)
    return spool, total, center


def _collect(roster: Roster, matrices: str, center: Float | None, folder: Path) -> dict[int, Path]:
    """Every client's checked statistics as a file; who sends none, or impossible ones, is out of this run."""
    agreement, clients = _agreed(roster), roster.present
    count = {c.index: row for c, row in zip(clients, agreement.counts(clients).astype(np.float64), strict=True)}
    arrays: Arrays = {} if center is None else {"center": center}
    spool: dict[int, Path] = {}
    asked = roster.ask_clients(clients, lambda client: ("query.statistics", {"matrices": matrices}, arrays), 0)
    for client, answer in asked:
        try:
            if answer.problem is not None:
                raise GgeurError(answer.problem)
            packed = _packed(answer.arrays)
            check_statistics(packed, len(agreement.classes), agreement.dimension, matrices, count[client.index])
        except GgeurError as error:
            roster.drop(client, 0, str(error))
            continue
        spool[client.index] = folder / f"{client.index}.npz"
        np.savez(spool[client.index], count=packed.count, sum=packed.sum, second=packed.second)
        roster.journal("statistics", client=client.index, seconds=round(answer.seconds, 2))
    _require(roster)
    return dict(sorted(spool.items()))


def _packed(arrays: Mapping[str, NDArray[Any]]) -> Packed:
    if arrays.keys() != {"count", "sum", "second"}:
        raise GgeurError("its statistics are not counts, sums and second moments")
    return Packed(**arrays)


def _merged(spool: Mapping[int, Path], classes: NDArray[np.bool_] | None = None) -> Packed:
    """The sum in the clients' order, holding two at a time; of client k only classes marked in row k."""
    total: Packed | None = None
    for k, path in enumerate(spool.values()):
        with np.load(path, allow_pickle=False) as file:
            one = Packed(file["count"], file["sum"], file["second"])
        one = one if classes is None else one.only(classes[k])
        total = one if total is None else total + one
    if total is None or not total.count.any():
        raise GgeurError("The federation has no training samples at all.")
    return total


def _means(spool: Mapping[int, Path], center: Float | None) -> tuple[Float, Float]:
    """(K, C, p): every client's class means, zero where it holds none, and its class sums."""
    means, sums = [], []
    for path in spool.values():
        with np.load(path, allow_pickle=False) as file:
            n = file["count"][:, None]
            whole = file["sum"] if center is None else file["sum"] + n * center
        sums.append(whole)
        means.append(whole / np.maximum(n, 1))
    return np.stack(means), np.stack(sums)
