"""Versions of a run's packages, kept beside its result, since other versions may give other numbers."""

import json
import platform
from importlib.metadata import version
from pathlib import Path

FILE = "versions.json"
_PACKAGES = ("ggeur", "numpy", "scipy", "jax", "optax", "scikit-learn")


def installed_versions() -> dict[str, str]:
    """Return Python's version and those of the packages that numbers depend on."""
    return {"Python": platform.python_version()} | {name: version(name) for name in _PACKAGES}


def read_versions(folder: Path) -> dict[str, str]:
    """Return the versions that a run folder keeps; empty if there are none that can be read."""
    try:
        kept = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return {str(name): str(found) for name, found in kept.items()}
    except (OSError, ValueError, AttributeError):
        return {}
