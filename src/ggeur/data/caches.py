"""The folder for what ggeur can make again: compiled programs, embeddings."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return $GGEUR_CACHE, else ggeur's own folder under the user's cache folder."""
    own = os.environ.get("GGEUR_CACHE")
    return Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ggeur"
