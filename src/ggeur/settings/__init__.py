"""The experiment file, typed: sections, defaults, grids, and what they stand for."""
