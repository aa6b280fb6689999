"""Experiments: settings and grids, the runner, run folders and results, audits."""
