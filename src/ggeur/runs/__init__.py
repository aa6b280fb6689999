"""What is on disk of a run: its folder, checkpoints, results, models, and the signals that must not cut them."""
