"""Solvers: one-shot classifiers computed from the statistics of round 0, one file each; sites train nothing."""
