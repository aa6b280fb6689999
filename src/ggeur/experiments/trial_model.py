"""Build the model of a trial: its head with its classes, encoder, scores and settings."""

from collections.abc import Mapping
from typing import Any

from ggeur.data.table import EmbeddingTable
from ggeur.experiments.result import Trial
from ggeur.experiments.settings import Settings
from ggeur.heads import described, sizes
from ggeur.heads.head import Params
from ggeur.models.model import Model
from ggeur.stats.units import Units

_ENCODER = ("encoder", "weights", "preprocessing", "dimension")


def model_of_trial(
    trial: Trial,
    params: Params,
    point: Settings,
    table: EmbeddingTable,
    units: Units | None,
    solved: str | None,
    scored: Mapping[str, float] | None,
    test_samples: Mapping[str, int] | None,
) -> Model:
    """Return the model of the final head `params` of a `trial` with these settings, on samples of `table` in `units`.

    `solved` is the type of a head computed in closed form, if not that of [train]; `scored` is its accuracy by domain,
    on so many `test_samples`. It names no path of the machine that it was made on.
    """
    head = solved or point.train.head
    tree = point.model_dump(mode="json", exclude_none=True)
    algorithm = {"method": trial.method, "augmentation": trial.augment, "seed": trial.seed, "taken": trial.taken}
    settings = {"dataset": table.meta.get("dataset"), "partition": tree["partition"], "train": tree["train"]}
    metrics: dict[str, Any] = {}
    if scored:
        avg = sum(scored.values()) / len(scored)
        metrics = {"domains": dict(scored), "avg": avg, "samples": dict(test_samples or {})}
    return Model(
        params,
        head,
        table.dimension,
        table.class_names,
        {key: table.meta[key] for key in _ENCODER if key in table.meta},
        sizes(head, params) if solved else described(head, point.head_parameters),
        units,
        algorithm={key: value for key, value in algorithm.items() if value != ""},
        settings={key: value for key, value in settings.items() if value is not None},
        metrics=metrics,
        privacy=trial.privacy,
        ball=point.privacy.ball,
    )
