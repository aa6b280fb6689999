"""The result of round 0, kept for sites that come back and for resumed runs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ggeur.experiments.checkpoint import VERSIONS
from ggeur.federation.augmentation_plan import Layout, Shapes
from ggeur.flower.server.agreement import Agreement, Client, Hello
from ggeur.flower.wire.packing import Arrays, load_tree, pack_factors, save_tree, unpack_factors
from ggeur.stats.augmented_sets import BankLayout
from ggeur.stats.custom import one_line
from ggeur.stats.errors import GgeurError
from ggeur.stats.types import Int, Tree
from ggeur.stats.units import Units

_SCHEMA = 1  # version of the file's format


@dataclass(frozen=True)
class RoundZero:
    """The participating sites, their agreement, and how many samples each draws along which shapes."""

    agreement: Agreement
    clients: Sequence[Client]  # those that take part, by index
    layout: Layout
    shapes: Shapes
    units: Units | None = None  # units of sites' samples, None for those of the encoder

    @cached_property
    def place(self) -> dict[int, int]:
        """Return the position in `clients`, and in all counts over them, by a client's index."""
        return {client.index: k for k, client in enumerate(self.clients)}

    @cached_property
    def samples(self) -> list[int]:
        """Return how many samples each client trains on."""
        return [self.layout.samples(k) for k in range(len(self.clients))]

    @property
    def trainable(self) -> Int:
        """Return the indices of the clients that have samples to train on."""
        return np.array([client.index for client, n in zip(self.clients, self.samples, strict=True) if n], np.int64)

    def for_client(self, index: int) -> Arrays:
        """Return the arrays for client `index`: shapes to draw along, others' prototypes, its position in the noise."""
        layout, k = self.layout, self.place[index]
        shapes, others = self.shapes.of(layout.draws[k] > 0), layout.others(k)
        return {
            **pack_factors(shapes.factors, shapes.rest),
            "factor_of": shapes.factor_of,
            "prototypes": layout.prototypes[others].astype(np.float32),
            "present": layout.present[others],
            "size": layout.bank.size,
            "offset": layout.bank.offset[k],
            **packed(self.units),
        }

    def save(self, path: Path, rest: Tree) -> None:
        """Write it with `rest` to `path` atomically."""
        about = {
            "schema": _SCHEMA,
            "agreement": vars(self.agreement),
            "clients": [client.hello.model_dump() for client in self.clients],
            "largest": self.shapes.largest,
        }
        tree = {
            "about": np.array(json.dumps(about)),
            "shapes": {**pack_factors(self.shapes.factors, self.shapes.rest), "factor_of": self.shapes.factor_of},
            "layout": {**vars(self.layout), "bank": vars(self.layout.bank)},
            "units": packed(self.units),
            "rest": rest,
        }
        save_tree(path, tree)

    @classmethod
    def load(cls, path: Path) -> tuple["RoundZero", Tree]:
        """Return the round 0 saved to `path`, with no client present yet, and the `rest` saved with it."""
        try:
            return cls._read(load_tree(path))
        except (GgeurError, OSError, ValueError, KeyError, TypeError, LookupError) as error:
            raise GgeurError(
                f"{path} is damaged or another version's ({one_line(error)}): go on with the ggeur that began the run, "
                f"whose version {VERSIONS} names, or start a new run with --out.",
                code="checkpoint-damaged",
            ) from error

    @classmethod
    def _read(cls, tree: Tree) -> tuple["RoundZero", Tree]:
        about = json.loads(str(tree["about"]))
        if about.get("schema") != _SCHEMA:
            raise ValueError(f"its schema is not {_SCHEMA}")
        a = about["agreement"]
        agreement = Agreement(tuple(a["classes"]), tuple(a["domains"]), a["dimension"], a["encoder"])
        clients = [Client(Hello.model_validate(hello)) for hello in about["clients"]]
        factors = unpack_factors(tree["shapes"], agreement.dimension)
        shapes = Shapes(*factors, tree["shapes"]["factor_of"], about["largest"])
        layout = Layout(**{**tree["layout"], "bank": BankLayout(**tree["layout"]["bank"])})
        units = Units.unpack(tree["units"]["units"]) if tree["units"] else None
        return cls(agreement, clients, layout, shapes, units), tree["rest"]


def packed(units: Units | None) -> Arrays:
    """Return `units` as arrays to send; no arrays for None."""
    return {} if units is None else {"units": units.pack()}
