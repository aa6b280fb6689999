"""Tables of embeddings as other programs write them, read in pieces: Parquet, CSV, NumPy, HDF5, saved datasets."""
