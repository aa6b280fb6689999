"""Our arrays and facts as Flower's records, and back; nothing that arrives is trusted to have any form."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError
from ggeur.engine.flower.packing import Arrays

if TYPE_CHECKING:
    from flwr.app import RecordDict


def to_records(facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None) -> "RecordDict":
    """`facts` travel as JSON, `arrays` as NumPy's own bytes."""
    from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

    records = RecordDict({"facts": ConfigRecord({"json": json.dumps(dict(facts))})})
    if arrays:
        named = {name: Array(np.array(array, order="C")) for name, array in arrays.items()}
        records["arrays"] = ArrayRecord(named)
    return records


def from_records(records: "RecordDict") -> tuple[dict[str, Any], Arrays]:
    """The facts and arrays, or a GgeurError that ends a sentence about the sender."""
    try:
        facts = json.loads(str(records["facts"]["json"]))
        if not isinstance(facts, dict):
            raise ValueError("its facts are not an object")
        arrays = {str(name): array.numpy() for name, array in records.get("arrays", {}).items()}
    except Exception as error:  # whatever a foreign message makes the parsers raise
        raise GgeurError(f"its message cannot be read ({type(error).__name__}: {error})") from error
    return facts, arrays
