"""Images and embeddings as they lie on disk: tables, datasets, readers, partitions, whole-or-nothing files."""
