"""Files damaged at random: flipped bits, zeros, missing and repeated parts, and files cut short."""

import numpy as np

HOW = ("flip", "zero", "drop", "repeat", "cut")


def damaged(content: bytes, seed: int) -> tuple[str, bytes]:
    """Return how, and other bytes than `content`."""
    rng = np.random.default_rng(seed)
    how, at = HOW[seed % len(HOW)], int(rng.integers(len(content)))
    size = int(rng.integers(1, 1 + max(1, len(content) // int(rng.choice([4, 64, 1024])))))
    if how == "flip":
        changed = bytearray(content)
        changed[at] ^= 1 << int(rng.integers(8))
    elif how == "zero":
        changed = bytearray(content)
        changed[at : at + size] = bytes(len(changed[at : at + size]))
    else:
        part = content[at : at + size]
        changed = bytearray(content[:at])
        changed += {"drop": b"", "repeat": part + part, "cut": b""}[how]
        changed += b"" if how == "cut" else content[at + size :]
    return how, bytes(changed)
