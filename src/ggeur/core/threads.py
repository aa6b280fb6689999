"""The number of threads that work side by side."""

THREADS = 2
"""Fixed, and not the machine's count: what shares a compiled call depends on it, and with that the last digits of
every sum, which are to be the same on every machine."""
