"""`.scores` files: the counts of one site's test samples, written deterministically, without pickles, and checked.

An .npz with `samples` (C,), `confusion` (C, C), `few` (C + 1,), all int64; `positive` and `negative` (R, 100) int64 and
`edges` (R, 101) bool, R = C or, of two classes, 1; and `about`, JSON: `format` 1, `site`, `model` (a hash of the head,
its classes and its temperature), `class_names`, `min_count`, `salt`, `share`, `scored`, `right`, `groups` (four sums or
null), and `sha256` of all the rest, the arrays in this order as little-endian bytes. `federation/score_counts.py` says
what is counted.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from ggeur.data.holdout import check_salt
from ggeur.federation.score_counts import BINS, WITHHELD, GroupCounts, ScoreCounts
from ggeur.stats.custom import one_line
from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import check_format, read_arrays, write_atomically
from ggeur.stats.types import Bool, Int

SUFFIX = ".scores"
Scored = Literal["held out", "marked", "all"]  # which samples: by the hash, by the table's marks, or all of a table
_ARRAYS = ("samples", "confusion", "few", "positive", "negative", "edges")
_FORMAT, _MOST = 1, 2**53
_KEYS = ("format", "site", "model", "class_names", "min_count", "salt", "share", "scored", "right", "groups")


class ScoreFile(NamedTuple):
    """What a site sends of its test samples, and by which model and hold-out."""

    site: str
    model: str
    class_names: tuple[str, ...]
    min_count: int
    salt: str
    share: float
    scored: Scored
    counts: ScoreCounts

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file to `path`, whole or not at all; the same counts give the same bytes."""
        arrays, about = _arrays(self.counts), self._about()
        about["sha256"] = _digest(arrays, about)
        with write_atomically(path) as file:
            np.savez(file, allow_pickle=False, **arrays, about=np.array(json.dumps(about, sort_keys=True)))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "ScoreFile":
        """Read the file at `path`; a GgeurError names it where it is damaged, changed or another kind of file."""
        path = Path(path)
        found = read_arrays(path)
        try:
            return _checked({name: found[name] for name in (*_ARRAYS, "about")}, set(found), path)
        except (KeyError, TypeError, ValueError, RecursionError, OverflowError, GgeurError) as error:
            if isinstance(error, GgeurError) and error.code == "format-newer":
                raise
            why = f"it has no {error}" if isinstance(error, KeyError) else one_line(error)
            raise GgeurError(
                f"{path} does not hold scores as `ggeur evaluate` writes them: {why}.", code="file-not-scores"
            ) from error

    def _about(self) -> dict[str, Any]:
        c = self.counts
        groups = None if c.groups is None else list(c.groups)
        values = (_FORMAT, *self[:2], list(self.class_names), *self[3:7], c.right, groups)
        return dict(zip(_KEYS, values, strict=True))


def _arrays(counts: ScoreCounts) -> dict[str, NDArray[Any]]:
    return {
        name: np.ascontiguousarray(getattr(counts, name), np.bool_ if name == "edges" else np.dtype("<i8"))
        for name in _ARRAYS
    }


def _digest(arrays: dict[str, NDArray[Any]], about: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for array in arrays.values():
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _checked(found: dict[str, NDArray[Any]], names: set[str], path: Path) -> ScoreFile:
    about = json.loads(str(found["about"]))
    check_format(about, _FORMAT, path)
    if not isinstance(about, dict) or about.get("format") != _FORMAT:
        raise ValueError(f"its format is not {_FORMAT}")
    if set(about) != {*_KEYS, "sha256"} or names != {*_ARRAYS, "about"}:
        raise ValueError("it holds other things than it should")
    for name in _ARRAYS:
        if found[name].dtype != (np.bool_ if name == "edges" else np.int64):
            raise ValueError(f"{name} is not of whole numbers")
    groups = None if about["groups"] is None else GroupCounts(*map(_whole, about["groups"]))
    arrays = {name: found[name] for name in _ARRAYS}
    counts = ScoreCounts(**arrays, right=_whole(about["right"], least=WITHHELD), groups=groups)
    if about["sha256"] != _digest(_arrays(counts), {key: about[key] for key in _KEYS}):
        raise ValueError("its checksum does not match; it was changed or damaged")
    class_names, site = tuple(about["class_names"]), about["site"]
    texts = (*class_names, site, about["model"])
    if not all(isinstance(text, str) and text.isprintable() and text for text in texts):
        raise ValueError("a name is not plain text")
    if len(set(class_names)) < len(class_names) or about["scored"] not in get_args(Scored):
        raise ValueError("its classes have one name twice, or it does not say what was scored")
    share, least = about["share"], _whole(about["min_count"])
    if not isinstance(share, int | float) or not 0 <= share < 1:
        raise ValueError("its share is not one")
    _check_counts(counts, len(class_names), least)
    return ScoreFile(
        site, about["model"], class_names, least, check_salt(about["salt"]), float(share), about["scored"], counts
    )


def _whole(value: Any, least: int = 0) -> int:
    if type(value) is not int or not least <= value < _MOST:
        raise ValueError(f"{value!r} is not a count")
    return value


def _check_counts(c: ScoreCounts, n_classes: int, least: int) -> None:
    """Raise ValueError unless the counts go together: also a file that somebody made up must add up."""
    rows = 1 if n_classes == 2 else n_classes
    shapes = (
        (c.samples, (n_classes,)),
        (c.confusion, (n_classes, n_classes)),
        (c.few, (n_classes + 1,)),
        (c.positive, (rows, BINS)),
        (c.negative, (rows, BINS)),
        (c.edges, (rows, BINS + 1)),
    )
    if n_classes < 2 or any(array.shape != shape for array, shape in shapes):
        raise ValueError("its arrays do not go together")
    counts = (c.samples, c.positive, c.negative)
    if any((a < 0).any() or (a >= _MOST).any() for a in counts) or (c.confusion < WITHHELD).any():
        raise ValueError("a count is negative")
    if not set(c.few.tolist()) <= {0, 1, 2} or not c.edges[:, [0, -1]].all():
        raise ValueError("its arrays do not go together")
    total, hidden = int(c.samples.sum()), c.confusion == WITHHELD
    shown = np.where(hidden, 0, c.confusion).sum(axis=1)
    apart = ((c.positive + c.negative) * ~c.edges[:, :-1]).any()
    of_rows = c.samples[c.scored]
    sums = (c.positive.sum(axis=1) != of_rows).any() or (c.negative.sum(axis=1) != total - of_rows).any()
    if sums or apart or (shown > c.samples).any() or ((shown != c.samples) & ~hidden.any(axis=1)).any():
        raise ValueError("its counts do not add up")
    right = int(np.where(hidden, 0, c.confusion).trace())
    if c.right != WITHHELD and not right <= c.right <= total - int(np.where(hidden, 0, c.confusion).sum() - right):
        raise ValueError("its counts do not add up")
    if least == 0 and (hidden.any() or c.right == WITHHELD):
        raise ValueError("it withholds counts without a min_count")
    if _has_small(c, hidden, least):
        raise ValueError(f"a count is below its min_count of {least}")


def _has_small(c: ScoreCounts, hidden: Bool, least: int) -> bool:
    shown: list[Int] = [c.samples, c.confusion[~hidden], c.positive.ravel(), c.negative.ravel()]
    return any(((array > 0) & (array < least)).any() for array in shown)
