"""What round 0 came to, kept for sites that come back and for runs that are resumed."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ggeur.core.augmented_sets import BankLayout
from ggeur.core.custom import one_line
from ggeur.core.errors import GgeurError
from ggeur.core.types import Int, Tree
from ggeur.core.units import Units
from ggeur.deploy.server.agreement import Agreement, Client, Hello
from ggeur.deploy.wire.packing import Arrays, load_tree, pack_factors, save_tree, unpack_factors
from ggeur.federation.layout import Layout
from ggeur.federation.shapes import Shapes
from ggeur.runs.versions import FILE as VERSIONS

_SCHEMA = 1  # of what is kept; another version may mean something else by the same names


@dataclass(frozen=True)
class RoundZero:
    """Who takes part, what they have in common, and what each is to draw along which shapes."""

    agreement: Agreement
    clients: Sequence[Client]  # those that take part, by index
    layout: Layout
    shapes: Shapes
    units: Units | None = None  # that sites take their samples in, where not as they lie there

    @cached_property
    def place(self) -> dict[int, int]:
        """Where in `clients`, and in all that is counted over them, the client of an index comes."""
        return {client.index: k for k, client in enumerate(self.clients)}

    @cached_property
    def samples(self) -> list[int]:
        """How many samples each client trains on."""
        return [self.layout.samples(k) for k in range(len(self.clients))]

    @property
    def trainable(self) -> Int:
        """The indices of the clients that have samples to train on."""
        return np.array([client.index for client, n in zip(self.clients, self.samples, strict=True) if n], np.int64)

    def for_client(self, index: int) -> Arrays:
        """What client `index` is sent: the shapes it draws along, others' prototypes, its own place in the noise."""
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
        """Write it to `path`, and `rest` beside it, whole or not at all."""
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
        """As saved to `path`, and what was saved beside it; no client is there yet."""
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
    """`units` as they travel; nothing where there are none."""
    return {} if units is None else {"units": units.pack()}
