"""Samples on disk: embedding tables, images, datasets and their readers, partitions, the built-in digits."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, ["digits", "partition"])  # which `ggeur` offers
