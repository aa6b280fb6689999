"""Round 0 on the server: merged statistics become shapes and prototypes, and each site's noise is laid out."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.core.means import covariance_from_means
from ggeur.core.types import Float
from ggeur.core.virtual import BankLayout
from ggeur.data.files import read_arrays, write_atomically
from ggeur.deploy.server.agreement import Agreement, Client
from ggeur.deploy.wire.factors import Shapes, class_shapes, shapes_of_covariances, shared_shape
from ggeur.deploy.wire.packing import Arrays, Packed, triangle_size
from ggeur.methods import kind_of, resolve_solved
from ggeur.methods.algorithm import Solved
from ggeur.settings.schema import Augment, Settings

_ORDER = ("means", "pooled", "per-class")
_FAR = 1e3  # mean over spread beyond which second moments about zero lose digits, as in simulation


def matrices_needed(point: Settings) -> str | None:
    """The least that sites must send: per-class or pooled second moments, means, or nothing."""
    a, needs = point.augment, []
    if a.kind == "ggeur":
        needs.append("per-class" if a.statistics == "pooled" and a.guided < 1 else a.statistics)
    elif a.kind == "prototypes":
        needs.append("means")
    for name in (point.train.method, point.train.start):
        if name != "random" and kind_of(name) is Solved:
            solved = resolve_solved(name, point.method.get(name, {}))
            needs.append("means" if solved.needs == "means" else "per-class")
    return max(needs, key=_ORDER.index, default=None)


def far_center(total: Packed) -> Float | None:
    """The federation's mean, where it is so far above the spread that moments about it must be asked for."""
    n, p = total.count.sum(), total.dimension
    if not len(total.second) or n == 0:
        return None
    diagonal = np.cumsum(np.arange(p, 0, -1)) - np.arange(p, 0, -1)
    mean = total.sum.sum(axis=0) / n
    square = (total.second[:, diagonal].sum() / n - mean @ mean) / p
    return mean if np.abs(mean).max() > _FAR * np.sqrt(max(square, 0.0)) else None


def guided_classes(count: NDArray[np.int64], guided: float) -> NDArray[np.bool_]:
    """(K, C): which clients give a class its shape; the largest, up to the share `guided` of the class."""
    if guided >= 1:
        return np.ones(count.shape, np.bool_)
    order = np.argsort(-count, axis=0, kind="stable")
    ranked = np.take_along_axis(count, order, axis=0)
    enough = np.cumsum(ranked, axis=0) - ranked < guided * count.sum(axis=0)
    chosen = np.zeros_like(enough)
    np.put_along_axis(chosen, order, enough, axis=0)
    return np.asarray(chosen)


def global_shapes(
    total: Packed, means: Float, count: NDArray[np.int64], homes: NDArray[np.int64], a: Augment, center: Float | None
) -> Shapes:
    """The shape of every class from what `[augment] statistics` lets sites send; `means` (K, C, p) are theirs."""
    if a.statistics == "means":
        return shapes_of_covariances(
            covariance_from_means(count.astype(np.float64), means, homes), count.sum(axis=0) > 0, a.scale
        )
    if a.statistics == "pooled":
        n = max(float(total.count.sum()), 1.0)
        within = sum((total.scatter(c) for c in range(len(total.second))), np.zeros((total.dimension,) * 2)) / n
        return shared_shape(within, total.count > 0, a.scale)
    return class_shapes(total, center, a.scale)


@dataclass(frozen=True)
class Plan:
    """What round 0 settled, kept for sites that come back and for runs that are resumed."""

    agreement: Agreement
    clients: tuple[Client, ...]  # those that take part, by index
    count: NDArray[np.int64]  # (K, C)
    draws: NDArray[np.int64]  # (K, C)
    shapes: Shapes
    prototypes: NDArray[np.float32]  # (D, C, p), one per home
    present: NDArray[np.bool_]  # (D, C)
    homes: tuple[str, ...]  # the D domains that some client calls home
    layout: BankLayout

    @classmethod
    def of(
        cls,
        agreement: Agreement,
        clients: Sequence[Client],
        a: Augment,
        shapes: Shapes | None,
        sums: tuple[NDArray[np.int64], Float] | None,
    ) -> "Plan":
        """`sums`: counts (K, C) and sums (K, C, p) of every client, where prototypes may be needed."""
        p, classes = agreement.dimension, len(agreement.classes)
        count = agreement.counts(clients)
        homes = tuple(d for d in agreement.domains if any(client.home == d for client in clients))
        with_prototypes = a.kind in ("prototypes", "ggeur") and a.steps == 2 and len(homes) > 1
        prototypes, present = np.zeros((0, classes, p), np.float32), np.zeros((0, classes), np.bool_)
        if with_prototypes and sums is not None:
            own = np.array([[client.home == d for client in clients] for d in homes])  # (D, K)
            n = own.astype(np.float64) @ sums[0]
            total = np.einsum("dk,kcp->dcp", own.astype(np.float64), sums[1])
            prototypes = (total / np.maximum(n, 1)[:, :, None]).astype(np.float32)
            present = n > 0
        none = Shapes(np.zeros((0, triangle_size(p)), np.float32), np.full(classes, -1), 0.0)
        plan = cls(
            agreement,
            tuple(clients),
            count,
            np.zeros_like(count),
            none if shapes is None else shapes,
            prototypes,
            present,
            homes if with_prototypes else (),
            BankLayout(np.zeros(classes, np.int64), np.zeros(count.shape, np.int64)),
        )
        if a.kind == "none":
            return plan
        draws = np.stack([plan._draws(k, a) for k in range(len(clients))])  # as `plan_draws` has them
        return cls(**{**vars(plan), "draws": draws, "layout": BankLayout.of(draws, p, a.bank_mib * 2**20)})

    def _draws(self, k: int, a: Augment) -> NDArray[np.int64]:
        """How many draws client k makes of each class: a matter of counts alone, however absurd they are."""
        n = self.count[k]
        around_own = n * a.per_sample if a.per_sample is not None else np.maximum((a.target or 0) - n, 0)
        others = np.count_nonzero(self.present[self._others(k)], axis=0)
        if a.empty_cell == "first":
            others = np.where(n == 0, np.minimum(others, 1), others)
        return np.asarray(np.where(n > 0, around_own, 0) + others * a.per_prototype)

    def _others(self, k: int) -> list[int]:
        """The domains whose prototypes client k gets: all but its own; none for one that mixes domains."""
        home = self.clients[k].home
        return [] if home is None else [d for d, name in enumerate(self.homes) if name != home]

    def rows(self, k: int) -> int:
        """How many rows client k trains on."""
        return int(self.count[k].sum() + self.draws[k].sum())

    def for_client(self, k: int) -> Arrays:
        """What client k is sent: the shapes it draws along, others' prototypes, and its own place in the noise."""
        shapes, others = self.shapes.of(self.draws[k] > 0), self._others(k)
        return {
            "factors": shapes.factors,
            "factor_of": shapes.factor_of,
            "prototypes": self.prototypes[others],
            "present": self.present[others],
            "size": self.layout.size,
            "offset": self.layout.offset[k],
        }

    def save(self, path: Path, rest: Mapping[str, NDArray[Any]]) -> None:
        """Write the plan, and `rest` beside it, whole or not at all."""
        about = {
            "agreement": vars(self.agreement),
            "clients": [client.facts() for client in self.clients],
            "homes": self.homes,
            "largest": self.shapes.largest,
        }
        arrays = {
            "about": np.array(json.dumps(about)),
            "factors": self.shapes.factors,
            "factor_of": self.shapes.factor_of,
            "size": self.layout.size,
            "offset": self.layout.offset,
            **{name: getattr(self, name) for name in ("count", "draws", "prototypes", "present")},
        }
        with write_atomically(path) as file:
            np.savez(file, allow_pickle=False, **arrays, **rest)

    @classmethod
    def load(cls, path: Path) -> tuple["Plan", Arrays]:
        arrays = read_arrays(path)
        about = json.loads(str(arrays.pop("about")))
        a = about["agreement"]
        agreement = Agreement(tuple(a["classes"]), tuple(a["domains"]), a["dimension"], a["encoder"])
        clients = tuple(Client.of({**c, "ready": False}, None, 2**40) for c in about["clients"])
        names = ("count", "draws", "prototypes", "present")
        plan = cls(
            agreement,
            clients,
            homes=tuple(about["homes"]),
            shapes=Shapes(arrays.pop("factors"), arrays.pop("factor_of"), about["largest"]),
            layout=BankLayout(arrays.pop("size"), arrays.pop("offset")),
            **{name: arrays.pop(name) for name in names},
        )
        return plan, arrays
