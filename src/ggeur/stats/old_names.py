"""Old names of 0.2 and earlier, so that their models and run folders load.

Experiment files are not translated: an old key there ends in a sentence that names the new one (`renamed`).
"""

import re
from collections.abc import Mapping
from typing import Any

# "section.key" of an experiment -> what it is called now.
KEYS = {
    "partition.left_out": "partition.validation",
    "augment.statistics": "augment.covariance",
    "augment.empty_cell": "augment.empty_group",
    "train.batch": "train.batch_size",
    "train.rate": "train.learning_rate",
    "privacy.secure_sum": "privacy.secure_aggregation",
    "privacy.rows": "privacy.samples",
    "federate.nodes": "federate.sites",
    "federate.min_nodes": "federate.min_sites",
}
HYPERPARAMETERS = {"rate": "learning_rate", "server_rate": "server_learning_rate", "batch": "batch_size"}
SOLVERS = {"limit": "ggeur-limit", "gated": "mixture", "limit+gated": "blend", "text_prior": "text-prior"}
COVARIANCES = {"means": "none"}
OPTIONS = {
    "--cell": "--trial",
    "--own": "--custom",
    "--own-methods": "--custom-methods",
    "--statistics": "--covariance",
    "--helps": "--contributions",
    "--kind": "--partition",
}
# In result.json, model.json, ledger.json and checkpoints.
RECORDS = {
    "cell": "trial",
    "cells": "trials",
    "statistics": "covariance",
    "rows": "samples",
    "test_rows": "test_samples",
    "left_out": "validation",
    "secure_sum": "secure_aggregation",
}
# Files and folders of models, runs and sites -> what they were called.
FILES = {
    "statistics": "sums",
    "contributions.json": "helps.json",
    "trial": "cell",
    "aggregations.jsonl": "sums.jsonl",
}
_LABEL = re.compile(r"^(limit\+gated|limit|gated|text_prior)(?= \(|$)")  # as "limit (scale 2)"
_METHODS = ("method", "start", "taken", "label")  # keys whose values name a method, or a candidate


def renamed(section: str, key: str) -> str | None:
    """Return the new name of a key of [section]; None where it never had another."""
    if section.startswith("method"):
        return HYPERPARAMETERS.get(key)
    new = KEYS.get(f"{section}.{key}")
    return new and new.partition(".")[2]


def solver(name: str) -> str:
    """Return today's name of a method, or of a candidate as "limit (scale 2)"."""
    return _LABEL.sub(lambda match: SOLVERS[match[1]], name)


def settings_of_before(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the experiment `tree`, as a run folder of 0.2 keeps it, in today's names."""
    found: dict[str, Any] = {}
    for section, part in tree.items():
        if section == "arm" and isinstance(part, list):
            found[section] = [settings_of_before(arm) for arm in part]
        elif section == "method" and isinstance(part, dict):
            found[section] = {solver(name): _hyperparameters(values) for name, values in part.items()}
        elif isinstance(part, dict):
            found[section] = {_key(section, key): _value(key, value) for key, value in part.items()}
        else:
            found[section] = part
    return found


def varied_of_before(varied: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that a grid varies, "section.key": value, in today's names."""
    found = {}
    for name, value in varied.items():
        section, _, key = name.rpartition(".")
        new = KEYS.get(name) or RECORDS.get(name, name)
        if section.startswith("method."):
            new = f"method.{solver(section[7:])}.{HYPERPARAMETERS.get(key, key)}"
        found[new] = _value(key, value)
    return found


def record_of_before(record: Any) -> Any:
    """Return a JSON record of results, a model or its ledger in today's names."""
    if isinstance(record, list):
        return [record_of_before(one) for one in record]
    if not isinstance(record, dict):
        return record
    found = {}
    for key, value in record.items():
        if key == "settings" and isinstance(value, dict):
            value = varied_of_before(value)
        elif key == "expected" and isinstance(value, dict):
            value = {solver(name): one for name, one in value.items()}
        elif key in ("constants", "asked", "parameters") and isinstance(value, dict):
            value = _hyperparameters(value)
        elif key in ("kind", "statistics", "covariance"):
            value = _value("statistics", value)
        elif key in _METHODS and isinstance(value, str):
            value = solver(value)
        elif key == "metrics" and isinstance(value, dict):
            value = {{"cells": "groups"}.get(name, RECORDS.get(name, name)): one for name, one in value.items()}
        elif key not in ("class_names", "domains", "encoder"):  # which have names of the user's
            value = record_of_before(value)
        found[RECORDS.get(key, key)] = value
    if record.get("method") == "limit" and isinstance(found.get("constants"), dict):
        found["constants"].setdefault("fill", "none")  # which 0.2 did not know
    return found


def _key(section: str, key: str) -> str:
    return renamed(section, key) or key


def _hyperparameters(values: Any) -> Any:
    if not isinstance(values, dict):
        return values
    return {HYPERPARAMETERS.get(key, key): _value(key, value) for key, value in values.items()}


def _value(key: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_value(key, one) for one in value]
    if isinstance(value, dict):
        return {_value("method", name) if key == "method" else name: _value(name, one) for name, one in value.items()}
    if key in _METHODS and isinstance(value, str):
        return solver(value)
    if key == "statistics" and isinstance(value, str):
        return COVARIANCES.get(value, value)
    return value
