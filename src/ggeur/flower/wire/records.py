"""Turn arrays and facts into Flower's records and back; nothing that arrives is trusted."""

import json
from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ggeur.flower.wire.packing import Arrays
from ggeur.stats.errors import GgeurError

if TYPE_CHECKING:
    from flwr.app import RecordDict

VERSION = version("ggeur")  # every message has its sender's version of ggeur
_DEEPEST = 20  # lists in lists; ours have four, and Python gives up at a thousand, at a place the sender could choose


def to_records(facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None) -> "RecordDict":
    """Return records with `facts` as JSON, with ggeur's version, and `arrays` as bytes of NumPy's format."""
    from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

    records = RecordDict({"facts": ConfigRecord({"json": json.dumps({"ggeur": VERSION, **facts})})})
    if arrays:
        records["arrays"] = ArrayRecord({name: Array(np.array(a, order="C")) for name, a in arrays.items()})
    return records


def from_records(records: "RecordDict") -> tuple[dict[str, Any], Arrays]:
    """Return the facts and arrays of a message's `records`; raise GgeurError with the end of a sentence."""
    try:
        facts = json.loads(str(records["facts"]["json"]))
        if not isinstance(facts, dict):
            raise ValueError("its facts are not an object")
        if _deeper_than(facts, _DEEPEST):
            raise ValueError("its facts are nested too deeply")
        arrays = {str(name): array.numpy() for name, array in records.get("arrays", {}).items()}
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):  # an .npz would open as one, too
            raise ValueError("its arrays are not arrays")
    except Exception as error:  # whatever a foreign message makes the parsers raise
        raise GgeurError(
            f"its message cannot be read ({type(error).__name__}: {error})", code="message-unreadable"
        ) from error
    return facts, arrays


def _deeper_than(value: Any, levels: int) -> bool:
    """Return whether a JSON value nests lists or objects deeper than `levels`."""
    layer = [value]
    for _ in range(levels):
        parts = [part.values() if isinstance(part, dict) else part for part in layer if isinstance(part, dict | list)]
        layer = [one for part in parts for one in part]
    return any(isinstance(one, dict | list) for one in layer)
