"""Write `card.md`: a model's classes, sites, accuracy and privacy, for people who did not make it."""

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ggeur.federation.ledger import Ledger
from ggeur.heads import IMAGES
from ggeur.models.model import Model
from ggeur.privacy.gaussian import guarantee

_ENCODER = (("Encoder:", "encoder"), ("weights", "weights"), ("preprocessing", "preprocessing"))


_COVERS = {
    "everything": "It covers everything that is computed from the statistics, this model included, but not the "
    "accuracies that sites report on their test samples.",
    "statistics": "It covers only the statistics: clients then train on their own samples, and it covers neither what "
    "they send in rounds nor this model.",
}


def card(model: Model, ledger: Ledger, history: Sequence[Mapping[str, Any]], *, statistics: bool = True) -> str:
    """Return the card of a one-shot classifier `model` of the sites in the `ledger`; `history` are its receipts.

    `statistics` says whether those of the sites are in the same folder.
    """
    a = model.algorithm
    constants = _pairs(a["constants"]) or "none"
    many = "one site" if len(ledger.entries) == 1 else f"{len(ledger.entries)} sites"
    lines = [
        "# Model card",
        "",
        f"A classifier of {len(model.class_names)} classes on frozen embeddings of {model.dimension} dimensions, "
        f"computed by `ggeur fit` from statistics that {many} sent once. "
        f"{_privacy(model.privacy, features=model.head in ('kernel', 'lookup'))}",
        "",
        f"- Classes: {_texts(model.class_names)}",
        _encoder(model),
        f"- Method: {_text(a['method'])} ({constants}), from {a['covariance']} statistics",
        *([f"- Why: {_text(a['why'])}"] if a["why"] else []),
        *([f"- Chosen with the help of: {_chosen_by(a['chosen_by'], ledger)}"] if a["chosen_by"] else []),
        *_units_of(a.get("units_of") or {}, ledger),
        "",
        "| site | samples | classes |",
        "|---|---|---|",
        *(f"| {_text(e.name)} | {e.samples} | {len(e.class_names)} |" for e in ledger.entries),
        "",
        *_scores(model.metrics, bool(history)),
        *calibration_words(model.calibration),
        *_not_for(model),
        *_history(history, ledger),
        *(_WITH_STATISTICS if statistics else _WITHOUT_STATISTICS),
        "",
    ]
    return "\n".join(lines)


def _encoder(model: Model) -> str:
    said = (f"{what} {_text(model.encoder.get(key, 'not known'))}" for what, key in _ENCODER)
    return f"- {', '.join(said)}"


_FORGOTTEN = (
    "After a site is removed, the head is bit-identical to one fitted without it, with the same hyperparameters. "
    "Copies made before are not changed."
)
_WITH_STATISTICS = (
    f"Sites can join and leave: `ggeur add`, `ggeur forget`. {_FORGOTTEN}",
    "",
    "`statistics/` holds the statistics of every site: keep it where the sites agreed that it may lie.",
    "To hand the model on, leave them out: `ggeur export FOLDER --without-statistics`.",
)
_WITHOUT_STATISTICS = (
    "This copy holds no statistics of sites, neither of one nor their total. It predicts, exports and serves. Sites "
    f"join and leave the model where the statistics are, and this copy does not change with it. {_FORGOTTEN}",
)
_UNREAD = 4  # samples of a group from which on no attack on its statistics is known to recover one


def _privacy(made: Mapping[str, Any], *, features: bool) -> str:
    if not made:
        return (
            "Statistics are not anonymous: those of a class with one sample at a site are that sample, and a head may "
            "reveal it. The model has no privacy guarantee."
        )
    few = features or made.get("min_count", 0) < _UNREAD  # with features, groups of thirty were recovered
    so = "Samples of smaller groups still follow from the statistics" if few else "So no sample follows from them"
    return (
        f"{' '.join(sentences(made))} {so}; membership can still be inferred from the statistics, and they are not "
        "differentially private."
    )


def _text(value: Any) -> str:
    """Return others' `name` escaped for Markdown, without tables, links or tags."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in str(value)).split())
    plain = re.sub(r"[\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", plain)
    return html.escape(plain, quote=False).replace("://", "&#58;//")


def _texts(names: Iterable[str]) -> str:
    return ", ".join(map(_text, names))


def _chosen_by(names: Sequence[str], ledger: Ledger) -> str:
    there = [name for name in names if name in ledger.names]
    gone = len(names) - len(there)
    return ", ".join([*map(_text, there), *([f"{gone} more, no longer in"] if gone else [])])


def _units_of(told: Mapping[str, Any], ledger: Ledger) -> list[str]:
    """Return a line about the units of features, where others have a part in them than those who are in."""
    if not told:
        return []
    lacks = [_text(name) for name in ledger.names if name not in told["sites"]]
    gone = len([name for name in told["sites"] if name not in ledger.names])
    said = [f"include {gone} {'site that is' if gone == 1 else 'sites that are'} no longer in"] if gone else []
    said += [f"do not include {', '.join(lacks)}"] if lacks else []
    return [f"- Not exact: units of {_text(told['date'])} {' and '.join(said)}"] if said else []


def _scores(metrics: Mapping[str, Any], changed: bool) -> list[str]:
    if not metrics and changed:
        return [
            "No test samples were scored since a site joined or left, so the accuracy is unknown.",
            "",
        ]
    if not metrics:
        return ["No test samples were given, so the accuracy is unknown.", ""]
    samples = metrics.get("samples") or {
        d: sum(n for _, n in own.values()) for d, own in metrics.get("groups", {}).items()
    }
    scores = "; ".join(_score(name, value, samples.get(name, 0)) for name, value in metrics["domains"].items())
    return [f"Accuracy on test samples, in percent: {scores}; mean {metrics['avg']:.1f}.", ""]


def _score(name: str, percent: float, samples: int) -> str:
    """Return an accuracy with its standard error for so many samples."""
    spread = f" ± {np.sqrt(percent * (100 - percent) / samples):.1f} ({samples:,} samples)" if samples else ""
    return f"{_text(name)} {percent:.1f}{spread}"


def calibration_words(said: Mapping[str, Any]) -> list[str]:
    """Return a paragraph about the calibration of the probabilities."""
    if "temperature" not in said:
        none = "Its probabilities are uncalibrated: take them as an order, not as chances."
        return [none + (f" {str(said['why'])[:1].upper()}{str(said['why'])[1:]}." if said.get("why") else ""), ""]
    words = f"Its probabilities are calibrated: logits are divided by {said['temperature']:.3g}"
    if "source" in said:
        return [f"{words}, fitted on {_fitted_on(said)}.", ""]
    if (left := said.get("validation")) is None:
        return [f"{words}, and nothing says by which samples that was fitted.", ""]
    words += (
        f", fitted on {left['samples']:,} cross-validated answers, which changes no answer. The expected calibration "
        f"error there is {left['error']:.1f} points ({left['error_before']:.1f} before)"
        + (f" at the temperature of those heads, {left['temperature']:.3g}" if "temperature" in left else "")
        + (", a rough guess, as there are fewer samples than dimensions" if said.get("rough") else "")
    )
    if (test := said.get("test")) is not None:
        words += f", and {test['error']:.1f} ({test['error_before']:.1f}) on {test['samples']:,} test samples"
    return [f"{words}.", ""]


def _fitted_on(said: Mapping[str, Any]) -> str:
    """Return the samples that the temperature was fitted on, and the error on test samples."""
    by_statistics = said["source"] == "statistics"
    words = "synthetic samples made from the statistics" if by_statistics else "the test samples"
    words += ", which changes no answer"
    if (test := said.get("test")) is None:
        return words
    error = f"{test['error']:.1f} points ({test['error_before']:.1f} before) on {test['samples']:,} test samples"
    return f"{words}. The expected calibration error is {error}"


def _not_for(model: Model) -> list[str]:
    """Return the uses that the model is not for."""
    few = _texts(model.metrics.get("domains", {})) or "none"
    return [
        "Not for:",
        "",
        f"- pictures or samples of another encoder, or domains unlike those it was tested on ({few});",
        "- anything that is none of its classes: it names one all the same, unless a least probability is asked for "
        "(`--reject`);",
        "- decisions about people that nobody checks: nothing here was measured in use;",
        "- publishing where its training samples are secret: without a privacy guarantee, a head may reveal them.",
        "",
    ]


def model_card(model: Model) -> str:
    """Return the card of a model without a list of sites: that of a run's trial, or a copy without statistics."""
    a, kind = model.algorithm, "pictures" if model.head in IMAGES else "embeddings"
    said = {
        "Head": f"{model.head}, on {kind} of {model.takes} dimensions",
        "Method": _text(a.get("method", "not known")) + (f", which took {_text(a['taken'])}" if a.get("taken") else ""),
        "Constants": _pairs(a.get("constants", {})),
        "Augmentation": _text(a.get("augmentation", "")),
        "Seed": a.get("seed"),
        "Data": _text(model.settings.get("dataset", "")),
        "Skew": _pairs(model.settings.get("partition", {})),
        "Training": _pairs(model.settings.get("train", {})),
        "Privacy": " ".join(sentences(model.privacy)) or "The model has no privacy guarantee.",
    }
    lines = [
        "# Model card",
        "",
        f"A classifier of {len(model.class_names)} classes on {kind}, trained by ggeur without moving samples.",
        "",
        f"- Classes: {_texts(model.class_names)}",
        _encoder(model),
        *(f"- {key}: {value}" for key, value in said.items() if value not in (None, "")),
        "",
        *_scores(model.metrics, False),
        *calibration_words(model.calibration),
        *_not_for(model),
        "Use: `ggeur predict FOLDER_OF_THIS_CARD PICTURES`, or `ggeur.load_model(folder).predict(pictures)` in Python.",
        "",
    ]
    return "\n".join(lines)


def hub_card(model: Model) -> str:
    """Return the card for the hub, after metadata in YAML, which JSON is a part of."""
    a, kind = model.metrics, "pictures" if model.head in IMAGES else "frozen-embeddings"
    about: dict[str, Any] = {
        "library_name": "ggeur",
        "pipeline_tag": "image-classification",
        "tags": ["federated-learning", "ggeur", kind, str(model.algorithm.get("method", "head"))],
    }
    if "/" in (name := str(model.encoder.get("encoder", ""))) and ":" not in name:
        about["base_model"] = name
    if a:
        scores = [{"type": "accuracy", "name": f"accuracy, {d}", "value": round(v, 2)} for d, v in a["domains"].items()]
        task, data = {"type": "image-classification"}, str(model.settings.get("dataset") or "test samples of the sites")
        about["model-index"] = [
            {
                "name": "ggeur",
                "results": [{"task": task, "dataset": {"name": data, "type": "private"}, "metrics": scores}],
            }
        ]
    head = "\n".join(f"{key}: {json.dumps(value)}" for key, value in about.items())
    return f"---\n{head}\n---\n\n{model_card(model)}"


def _pairs(tree: Mapping[str, Any]) -> str:
    """Return keys that have a value, in a line."""
    return ", ".join(f"{_text(key)} = {_text(value)}" for key, value in tree.items() if value not in (None, "", [], {}))


def _history(history: Sequence[Mapping[str, Any]], ledger: Ledger) -> list[str]:
    """Return the changes of sites, without the names of sites that have left, since the card may be published."""
    said = []
    for r in history:
        site = _text(r["site"]) if r.get("site") in ledger.names else "a site that is no longer in"
        note = f": {_text(r['note'])}" if r.get("note") else ""
        said.append(f"{_text(r.get('date', ''))} {_text(r.get('what', ''))} {site}{note}".strip())
    return ["History:", "", *(f"- {line}" for line in said), ""] if said else []


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
