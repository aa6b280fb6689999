"""Copy a model folder without the statistics of its sites."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ggeur.core.errors import GgeurError
from ggeur.data.files import cannot, write_bytes
from ggeur.federation.ledger import Ledger
from ggeur.runs.card import card, model_card
from ggeur.runs.model import Model
from ggeur.runs.site_files import ABOUT, CARD, HEAD, LEDGER, load_ledger, read_receipts
from ggeur.runs.transaction import current, settled


def write_without_statistics(folder: Path, out: Path, *, own: bool = False) -> None:
    """Write the model in `folder` to `out`, which must be new or empty: the classifier, model.json and card.md.

    These files are written from the loaded model, and nothing else is copied: no statistics of a site or of all, no
    ledger with their hashes, no receipts and no page. `own` allows a custom head.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise GgeurError(f"{out} is a file or is not empty; name a new folder with --out.", code="folder-taken")

    def read() -> tuple[Model, Ledger | None, Sequence[Mapping[str, Any]]]:
        listed = current(folder, LEDGER).exists()
        ledger = load_ledger(folder, sealed_too=True) if listed else None
        return Model.load(folder, own=own), ledger, read_receipts(folder)

    model, ledger, receipts = settled(folder, (ABOUT, HEAD, LEDGER), read)  # all from before or all from after a change
    text = model_card(model) if ledger is None else card(model, ledger, receipts, statistics=False)
    with cannot(f"write {out}"):
        out.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".ggeur-", dir=out.parent) as part:
            new = Path(part) / "model"
            model.save(new)
            write_bytes(new / CARD, text.encode())
            os.replace(new, out)  # there whole or not at all
