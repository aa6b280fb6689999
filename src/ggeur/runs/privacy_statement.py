"""The privacy guarantee of a model, as model.json keeps it and in sentences."""

from collections.abc import Iterable, Mapping
from typing import Any

from ggeur.methods import kind_of
from ggeur.methods.algorithm import ClosedForm, Reference, Selection, ZeroShot
from ggeur.privacy.gaussian import guarantee
from ggeur.runs.result import Trial
from ggeur.settings.schema import Settings

_COVERS = {
    "everything": "It covers everything that is computed from the statistics, this model included, but not the "
    "accuracies that sites report on their test samples.",
    "statistics": "It covers only the statistics: clients then train on their own samples, and it covers neither what "
    "they send in rounds nor this model.",
}
_MOST = 2  # guarantees that a page or a screen states in full


def promise(point: Settings, *, simulated: bool) -> dict[str, Any]:
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
        made |= {**release.facts, "mechanism": p.mechanism_name, "guarantee": release.promise}
        if release.guarantee:
            made["covers"] = "everything" if kind in (ClosedForm, Selection) else "statistics"
        made["noise"] = "simulated" if simulated else "operating system"
    return {key: value for key, value in made.items() if value is not None}


def promised(trials: Iterable[Trial]) -> list[str]:
    """Return the guarantees of several `trials` in sentences, each once; if there are many, that they differ."""
    each = list({repr(sorted(trial.privacy.items())): trial.privacy for trial in trials if trial.privacy}.values())
    if len(each) > _MOST:
        return ["Trials differ in their privacy guarantees; the model.json of each has its own."]
    return list(dict.fromkeys(sentence for made in each for sentence in sentences(made)))


def sentences(made: Mapping[str, Any]) -> list[str]:
    """Return a guarantee in sentences."""
    said = []
    if made.get("covers") == "nothing":
        said.append("A bound is trained on samples as they are: nothing of [privacy] but their clipping covers it.")
    noisy = "noise" in made
    if noisy:
        said.append(made.get("guarantee") or guarantee(made))  # models of 0.2 have the facts of Gaussian noise alone
        if "covers" in made:
            said.append(_COVERS[made["covers"]])
        if made["noise"] == "simulated":
            said.append("The noise came from the run's seed: it shows the cost of privacy and protects nobody.")
    if "radius" in made:
        said.append(f"Samples longer than {made['radius']:g} are scaled down to that, also when the model is used.")
    if "projection" in made:
        said.append(f"Samples are first projected to a public subspace of {made['projection']} dimensions.")
    if "min_count" in made:
        what = "a noisy total of" if noisy else ""
        few = f"{what} fewer than {made['min_count']} samples".strip()
        said.append(f"Classes with {few} took no part" + ("." if noisy else " at that site."))
    if "secure_aggregation" in made:
        said.append(
            "Secure aggregation: the server saw only the total of all sites. No single site can join the model or be "
            "removed."
            if made["secure_aggregation"] is True
            else "Statistics were added as under secure aggregation; a simulation masks nothing."
        )
    return said
