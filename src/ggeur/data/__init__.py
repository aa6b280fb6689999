"""Samples on disk: embedding tables, images, datasets and their readers, partitions, the built-in digits."""

from ggeur.data import digits as digits  # which `ggeur` offers as attributes
from ggeur.data import partition as partition
