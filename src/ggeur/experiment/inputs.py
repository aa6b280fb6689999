"""What a run's numbers depend on beside its settings: tables, a model to start from, a text tower; as fingerprints."""

from ggeur.core.errors import Unavailable
from ggeur.experiment.setup import Setup
from ggeur.experiment.start_model import start_fingerprint
from ggeur.experiment.trial_data import TrialData
from ggeur.methods import has_own_head
from ggeur.settings.grid import Experiment
from ggeur.settings.schema import Settings


def fingerprints(experiment: Experiment, trial_data: TrialData) -> dict[str, str]:
    """By name, of all that the points of `experiment` read; a run that goes on must find the same."""
    sources = dict.fromkeys(point.data for point in experiment.points)
    found = {str(s.table or s.dataset): trial_data.table(s).fingerprint() for s in sources}
    for point in experiment.points:
        found |= start_fingerprint(point) | _weights_fingerprint(point, trial_data)
    return found


def _weights_fingerprint(point: Settings, trial_data: TrialData) -> dict[str, str]:
    """Of what a method has frozen, such as a text tower; nothing of one that cannot be built, which is said later."""
    if not has_own_head(point.train.method):
        return {}
    try:
        trained = Setup.of(point).of_task(trial_data.task(point.data)).trained
    except Unavailable:
        return {}
    own = None if trained is None else trained.method.own
    found = "" if own is None else own.weights()
    method, clip = point.train.method, point.method.get(point.train.method, {}).get("clip")
    where = f" in {clip}" if clip else ""
    return {f"The frozen model of {method}{where} for {point.data.table or point.data.dataset}": found} if found else {}
