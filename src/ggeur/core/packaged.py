"""Files that lie beside our modules: tables and texts that are data, not code."""

import tomllib
from importlib.resources import files
from typing import Any


def packaged_toml(room: str, name: str) -> dict[str, Any]:
    """Read the TOML file `name` (a path) of the `room`, as in packaged_toml("paper", "published.toml")."""
    return tomllib.loads((files("ggeur") / room / name).read_text(encoding="utf-8"))
