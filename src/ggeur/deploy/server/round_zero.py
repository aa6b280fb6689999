"""What round 0 settled, kept for sites that come back and for runs that are resumed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.core.virtual import BankLayout
from ggeur.data.files import read_arrays, write_atomically
from ggeur.deploy.server.agreement import Agreement, Client
from ggeur.deploy.wire.packing import Arrays, from_triangles, triangles
from ggeur.federation.layout import Layout
from ggeur.federation.shapes import Shapes

_LAYOUT = ("count", "home", "domains", "prototypes", "present", "draws")


@dataclass(frozen=True)
class RoundZero:
    """Who takes part, what they have in common, and what each is to draw along which shapes."""

    agreement: Agreement
    clients: Sequence[Client]  # those that take part, by index
    layout: Layout
    shapes: Shapes

    def rows(self, k: int) -> int:
        """How many rows client k trains on."""
        return self.layout.rows(k)

    def for_client(self, k: int) -> Arrays:
        """What client k is sent: the shapes it draws along, others' prototypes, and its own place in the noise."""
        layout, others = self.layout, self.layout.others(k)
        shapes = self.shapes.of(layout.draws[k] > 0)
        return {
            "factors": triangles(shapes.factors),
            "factor_of": shapes.factor_of,
            "prototypes": layout.prototypes[others].astype(np.float32),
            "present": layout.present[others],
            "size": layout.bank.size,
            "offset": layout.bank.offset[k],
        }

    def save(self, path: Path, rest: Mapping[str, NDArray[Any]]) -> None:
        """Write it, and `rest` beside it, whole or not at all."""
        about = {
            "agreement": vars(self.agreement),
            "clients": [client.facts() for client in self.clients],
            "largest": self.shapes.largest,
        }
        arrays = {
            "about": np.array(json.dumps(about)),
            "factors": triangles(self.shapes.factors),
            "factor_of": self.shapes.factor_of,
            "size": self.layout.bank.size,
            "offset": self.layout.bank.offset,
            **{name: getattr(self.layout, name) for name in _LAYOUT},
        }
        with write_atomically(path) as file:
            np.savez(file, allow_pickle=False, **arrays, **rest)

    @classmethod
    def load(cls, path: Path) -> tuple["RoundZero", Arrays]:
        """As saved, and what was saved beside it."""
        arrays = read_arrays(path)
        about = json.loads(str(arrays.pop("about")))
        a = about["agreement"]
        agreement = Agreement(tuple(a["classes"]), tuple(a["domains"]), a["dimension"], a["encoder"])
        clients = [Client.of({**c, "ready": False}, None, 2**40) for c in about["clients"]]
        factors = from_triangles(arrays.pop("factors"), agreement.dimension)
        shapes = Shapes(factors, arrays.pop("factor_of"), about["largest"])
        bank = BankLayout(arrays.pop("size"), arrays.pop("offset"))
        layout = Layout(**{name: arrays.pop(name) for name in _LAYOUT}, bank=bank)
        return cls(agreement, clients, layout, shapes), arrays
