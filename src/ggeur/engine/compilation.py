"""Compiled programs are kept on disk, so that a second run of the same shapes starts at once."""

from typing import Any

import jax

from ggeur.data.caches import cache_folder


def keep_compiled_programs() -> None:
    """Turn on JAX's persistent compilation cache, unless the user has set one up already."""
    config: Any = jax.config
    if config.jax_compilation_cache_dir is None:
        config.update("jax_compilation_cache_dir", str(cache_folder() / "jax"))
        config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
