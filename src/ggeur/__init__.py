"""ggeur: one image classifier across sites that cannot share their images, even if their data differ.

>>> import ggeur, numpy as np
>>> x, y = np.random.default_rng(0).normal(size=(60, 8)), np.repeat([0, 1, 2], 20)
>>> a, b = (ggeur.ClassStatistics.from_embeddings(x[i::2], y[i::2], 3) for i in (0, 1))
>>> g = ggeur.Geometry.from_statistics(a + b)
>>> x2, y2 = ggeur.augment(x[::2], y[::2], g, target=100)
>>> np.bincount(y2)
array([100, 100, 100])
"""

from typing import Any

import lazy_loader

# Loaded on first use, so that `ggeur --help` starts without NumPy and the NumPy part of the library without JAX.
_loaded, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # all that __init__.pyi names


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("ggeur")
    return _loaded(name)
