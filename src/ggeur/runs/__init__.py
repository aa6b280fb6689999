"""Files of a run: its folder, checkpoints, results and models, and signals that must not cut them."""
