"""The run folder: what was asked (`config.toml`), every round (`metrics.jsonl`), the result, and the trained heads."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from ggeur.core.errors import GgeurError
from ggeur.data.files import write_atomically
from ggeur.data.table import EmbeddingTable
from ggeur.experiment.config import Settings
from ggeur.experiment.grid import Experiment
from ggeur.experiment.model import Model
from ggeur.experiment.result import Result
from ggeur.heads.head import Params


class RunFolder:
    """A folder of one run; made new, never mixed with another's."""

    def __init__(self, path: str | os.PathLike[str], experiment: Experiment) -> None:
        self.path = Path(path)
        self._made = not self.path.exists()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if any(self.path.iterdir()):
                raise GgeurError(f"The folder {self.path} is not empty; name a new one with --out.")
            self._write("config.toml", experiment.to_toml())
            self._metrics = (self.path / "metrics.jsonl").open("a", encoding="utf-8")
        except OSError as error:
            raise GgeurError(f"Cannot write the run folder {self.path}: {error.strerror or error}.") from error

    def _write(self, name: str, text: str) -> None:
        with write_atomically(self.path / name) as file:
            file.write(text.encode())

    def record(self, event: dict[str, Any]) -> None:
        """One line of `metrics.jsonl`."""
        try:
            self._metrics.write(json.dumps(event) + "\n")
            self._metrics.flush()
        except OSError as error:
            raise GgeurError(f"Cannot write {self._metrics.name}: {error.strerror or error}.") from error

    def save_model(self, cell: int, params: Params, settings: Settings, table: EmbeddingTable) -> None:
        """The head of one cell under `model/`, with what is needed to use it: classes and encoder."""
        encoder = {k: table.meta[k] for k in ("encoder", "weights", "preprocessing") if k in table.meta}
        model = Model(params, settings.train.head, table.dimension, table.class_names, encoder)
        model.save(self.path / "model" / f"cell-{cell:03d}")

    def abandon(self) -> None:
        """After an error: leave nothing behind, unless rounds have been recorded, which the user may want."""
        self._metrics.close()
        with suppress(OSError):
            if not (self.path / "metrics.jsonl").stat().st_size:
                (self.path / "metrics.jsonl").unlink()
                (self.path / "config.toml").unlink()
                if self._made:
                    self.path.rmdir()

    def finish(self, result: Result) -> None:
        self._metrics.close()
        self._write("result.json", result.to_json())
