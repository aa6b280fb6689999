"""Hold out test samples by a public hash, so that every command finds the same ones and no list of them is kept.

position = SHA-256(salt, key) as a number in [0, 1);    a sample is held out where its position is below the share

The key is the sample's group (a patient, say), else its id, else its image's hash, else its embedding. Samples with one
key are on one side, at every site of the federation.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ggeur.data.table import EmbeddingTable
from ggeur.data.tables.files import TableFiles
from ggeur.stats.errors import GgeurError
from ggeur.stats.types import Bool, Float, Int
from ggeur.stats.validate import check_is

TEST_SHARE, SALT = 0.2, "ggeur"  # where no plan says otherwise


def held_out(
    table: EmbeddingTable,
    share: float = TEST_SHARE,
    salt: str = SALT,
    *,
    groups: Sequence[Any] | None = None,
    ids: Sequence[Any] | None = None,
    images: Sequence[str] | None = None,
) -> Bool:
    """Return which samples of a site's `table` are test samples.

    A table that marks test samples keeps its marks. A class of the site never loses its last training sample: the key
    at the highest position stays in training, with all its samples. `ggeur summarize` leaves these samples out of the
    statistics and `ggeur evaluate` scores them; both must give the whole table of the site, the share, the salt, and
    the same one of `groups`, `ids` and `images` (SHA-256 of each image file, in hexadecimal).

    `held_out_in_files` is the same for tables in files of any size.

    >>> x = np.arange(40.0).reshape(20, 2)
    >>> table = EmbeddingTable(x, np.arange(20) % 2)
    >>> held_out(table, 0.5, "our study", groups=["p1"] * 10 + ["p2"] * 6 + ["p3"] * 4)[[0, 10, 16]]
    array([False,  True, False])
    """
    check_test_share(share)
    if table.test is not None:
        return table.test.copy()
    positions = hash_positions(salt, table.x, groups=groups, ids=ids, images=images)
    return below_share(positions, table.y, share)


class FilesHoldOut(NamedTuple):
    """Which samples of a table in files are held out, with the classes and groups of all, in the files' order."""

    held: Bool
    y: Int
    groups: tuple[str, ...]  # or () where no column groups them


def held_out_in_files(
    files: TableFiles, share: float = TEST_SHARE, salt: str = SALT, *, every: bool = False
) -> FilesHoldOut:
    """Return which samples of the table in `files` are test samples, read piece by piece; `every` takes all.

    As `held_out`, by the columns that the files have for groups and ids.
    """
    check_test_share(share)
    positions, marks, classes, groups = [], [], [], list[str]()
    for piece in files.pieces():
        marks.append(piece.test)
        classes.append(piece.y)
        groups += piece.group
        if not every and not files.marked:
            keys = {"groups": piece.group or None, "ids": piece.id or None}
            positions.append(hash_positions(salt, piece.x, **keys))
    y, test = np.concatenate(classes), np.concatenate(marks)
    if every:
        test = np.ones(len(y), np.bool_)
    elif not files.marked:
        test = below_share(np.concatenate(positions), y, share)
    return FilesHoldOut(test, y, tuple(groups))


def hash_positions(
    salt: str,
    x: NDArray[Any],
    *,
    groups: Sequence[Any] | None = None,
    ids: Sequence[Any] | None = None,
    images: Sequence[str] | None = None,
) -> Float:
    """Return the position in [0, 1) of each sample, by `groups`, else `ids`, else `images`, else `x`."""
    start = hashlib.sha256(f"{len(check_salt(salt).encode())}:{salt}".encode())
    named = {"group": groups, "id": ids, "image": images}
    kind, keys = next(((kind, keys) for kind, keys in named.items() if keys is not None), ("embedding", None))
    if keys is not None and len(keys) != len(x):
        raise GgeurError(
            f"There are {len(x)} samples and {len(keys)} keys of the kind {kind}: give one for each sample.",
            code="holdout-keys-mismatch",
        )
    start.update(f":{kind}:".encode())
    known: dict[bytes, float] = {}  # most groups have many samples

    def position(key: bytes) -> float:
        if key not in known:
            digest = start.copy()
            digest.update(key)
            known[key] = (int.from_bytes(digest.digest()[:8], "big") >> 11) / 2**53
        return known[key]

    if keys is not None:
        return np.fromiter((position(key) for key in _encoded(keys, kind)), np.float64, len(x))
    return np.fromiter((position(_of_embedding(row)) for row in x), np.float64, len(x))


def below_share(positions: Float, y: ArrayLike, share: float) -> Bool:
    """Return which samples are held out, given all `positions` of a site and the classes `y` of its samples."""
    held = positions < check_test_share(share)
    _, y = np.unique(y, return_inverse=True)
    highest = np.zeros(y.max(initial=-1) + 1)
    np.maximum.at(highest, y, positions)
    last = highest[highest < share]  # of classes that would have no training sample
    return held & ~np.isin(positions, last)


def check_test_share(share: Any) -> float:
    """Return `share`, or raise GgeurError unless it is at least 0 and below 1."""
    check_is("test_share", share, int | float, "a number")
    if not 0 <= share < 1:  # also nan
        raise GgeurError(
            f"The test share is {share}; it must be at least 0 and below 1, such as {TEST_SHARE}.",
            code="holdout-share-invalid",
        )
    return float(share)


def check_salt(salt: Any) -> str:
    """Return `salt`, or raise GgeurError unless it is text."""
    if not isinstance(salt, str) or not 0 < len(salt) <= 200 or not salt.isprintable():
        raise GgeurError(
            "The salt of the test samples must be 1 to 200 printable characters.", code="holdout-salt-invalid"
        )
    return salt


def _encoded(keys: Iterable[Any], kind: str) -> Iterable[bytes]:
    """Return every key as text: 7, numpy's 7 and "7" are one key."""
    for number, key in enumerate(keys):
        key = key.item() if isinstance(key, np.generic) else key
        if key is None or key == "" or (isinstance(key, float) and math.isnan(key)):
            raise GgeurError(
                f"Sample {number} has no {kind}, and test samples are held out by it: name it, or choose another "
                "column.",
                code="holdout-key-missing",
            )
        yield str(key).encode(errors="surrogatepass")


def _of_embedding(row: NDArray[Any]) -> bytes:
    """Return a sample's bytes, the same whether a file has it in float16 or float32; 0 and -0 are one number."""
    return (row.astype("<f4") + np.float32(0)).tobytes()
