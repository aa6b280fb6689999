"""A model folder as its page reads it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ggeur.core.errors import GgeurError
from ggeur.core.types import Float, Int
from ggeur.experiment.contributions import Contributions, load_contributions
from ggeur.experiment.joining import Opened
from ggeur.experiment.solution import Solution
from ggeur.federation.ledger import Entry
from ggeur.runs.model import Model
from ggeur.runs.site_files import LEDGER, load_sums, read_receipts
from ggeur.runs.transaction import current, pending


class FittedFolder(NamedTuple):
    """A folder as `ggeur fit` wrote it, and the sites that joined and left since."""

    folder: Path
    model: Model
    solution: Solution
    entries: Sequence[Entry]
    counts: Mapping[str, Int]  # samples of every class at each site
    receipts: Sequence[Mapping[str, Any]]
    contributions: Contributions | None

    @property
    def left(self) -> int:
        """The number of sites that took part in the selection and have left."""
        return len(set(self.solution.chosen_by) - {e.name for e in self.entries})

    @property
    def chosen_by_all(self) -> bool:
        """Whether the sites of the selection are those of the model."""
        return set(self.solution.chosen_by) == {e.name for e in self.entries}

    @property
    def percent(self) -> tuple[tuple[str, ...], Float]:
        """Domains, and the percentage of test samples right in each domain and class (D, C); NaN without samples."""
        groups = self.model.metrics.get("groups", {})
        found = np.full((len(groups), len(self.model.class_names)), np.nan)
        for d, own in enumerate(groups.values()):
            for c, name in enumerate(self.model.class_names):
                if name in own:
                    right, samples = own[name]
                    found[d, c] = 100 * right / samples
        return tuple(groups), found


def is_model(folder: Path) -> bool:
    """Return whether the folder holds a model, and not a run with several."""
    return current(folder, "model.json").is_file() and not (folder / "result.json").exists()


def read_model_folder(folder: Path, own: bool = False) -> FittedFolder:
    """Read the `folder`; `own` allows a custom method, whose module is imported."""
    if not current(folder, LEDGER).exists():
        raise GgeurError(
            f"{folder} does not say who is in the model: only a folder that `ggeur fit` wrote has a page, and no copy "
            "of it without the statistics.",
            code="model-without-ledger",
        )
    opened = Opened.at(folder, own)
    model, entries = opened.model, opened.ledger.entries
    counts = {}
    for entry in entries:  # one by one, as the statistics of all sites may not fit into memory
        sums = load_sums(folder, entry)
        count = np.sum([m.count for m in sums.messages.values()], axis=0)
        counts[entry.name] = _by_class(sums.class_names, count, model)
    receipts = read_receipts(folder)
    contributions = None if pending(folder) else load_contributions(folder)  # of the sites before the change
    return FittedFolder(folder, model, opened.solution, entries, counts, receipts, contributions)


def _by_class(names: Sequence[str], count: Any, model: Model) -> Int:
    known = dict(zip(names, count.astype(np.int64).tolist(), strict=True))
    return np.array([known.get(name, 0) for name in model.class_names], np.int64)
