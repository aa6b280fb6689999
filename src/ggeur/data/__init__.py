"""Images and embeddings as they lie on disk: tables, datasets, readers, partitions, whole-or-nothing files."""

from ggeur.data import partition as partition  # which `ggeur` offers as an attribute
