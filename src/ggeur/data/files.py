"""Files in and out, for the rooms above `core`, where they are written and read."""

from ggeur.core.files import CannotWrite, cannot, lock_file, read_arrays, write_atomically, write_bytes

__all__ = ["CannotWrite", "cannot", "lock_file", "read_arrays", "write_atomically", "write_bytes"]
