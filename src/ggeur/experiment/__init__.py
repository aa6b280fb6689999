"""An experiment run in one process: the runner, its stacks and bounds, scoring, and what it costs."""
