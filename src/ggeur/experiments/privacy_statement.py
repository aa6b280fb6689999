"""The privacy guarantee of a trial: as model.json keeps it, and of several trials in sentences."""

from collections.abc import Iterable
from typing import Any

from ggeur.experiments.result import Trial
from ggeur.experiments.settings import Settings
from ggeur.methods import kind_of
from ggeur.methods.algorithm import ClosedForm, Reference, Selection, ZeroShot
from ggeur.models.card import sentences

_MOST = 2  # guarantees that a page or a screen states in full


def privacy_of(point: Settings, *, simulated: bool) -> dict[str, Any]:
    """Return the privacy guarantee of a trial with these settings; empty where there is none."""
    p, kind = point.privacy, kind_of(point.train.method)
    release = p.release
    made: dict[str, Any] = {"min_count": p.min_count or None, "radius": p.radius, "projection": p.projection}
    if kind in (Reference, ZeroShot):  # nobody sends anything
        if kind is Reference and (not release.exact or p.secure_aggregation):
            made["covers"] = "nothing"
        return {key: value for key, value in made.items() if value is not None}
    made["secure_aggregation"] = ("simulated" if simulated else True) if p.secure_aggregation else None
    if not release.exact:
        made |= {**release.facts, "mechanism": p.mechanism_name, "guarantee": release.statement}
        if release.guarantee:
            made["covers"] = "everything" if kind in (ClosedForm, Selection) else "statistics"
        made["noise"] = "simulated" if simulated else "operating system"
    return {key: value for key, value in made.items() if value is not None}


def privacy_sentences(trials: Iterable[Trial]) -> list[str]:
    """Return the guarantees of several `trials` in sentences, each once; if there are many, that they differ."""
    each = list({repr(sorted(trial.privacy.items())): trial.privacy for trial in trials if trial.privacy}.values())
    if len(each) > _MOST:
        return ["Trials differ in their privacy guarantees; the model.json of each has its own."]
    return list(dict.fromkeys(sentence for made in each for sentence in sentences(made)))
