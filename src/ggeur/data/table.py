"""EmbeddingTable: embeddings with labels and, where known, domains and a test mask; one `.npz` file, no pickles."""

from __future__ import annotations

import hashlib
import json
import os
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ggeur.stats.errors import GgeurError
from ggeur.stats.seeding import generator
from ggeur.stats.storage import read_arrays, write_atomically
from ggeur.stats.validate import as_array, check_embeddings, check_is, check_labels, check_path

TRAIN_SHARE = 0.7  # share of each domain that is tested, where a table brings no test mask
PARQUET = (".parquet", ".pq")
FIRST_TEXT = "single"  # the name of a set of text that has none
_ARRAYS = ("x", "y", "domain", "test", "class_names", "domain_names", "text", "text_names", "path", "meta")


@dataclass(frozen=True, eq=False)
class EmbeddingTable:
    """Samples of embeddings `x` (N, p) with labels `y` (N,); checked when made.

    Optional: `domain` (N,) with `domain_names`, `test` (N,) bool, `text`, sets of embeddings (C, p) of the class names
    by the name of their prompts (one array alone is "single"), `path` (N names of pictures) and `meta` (encoder,
    weights hash, preprocessing, dataset, the share already taken).

    Parameters
    ----------
    x : embeddings, (N, p), finite.
    y : labels, (N,), whole numbers from 0 on.
    domain : the domain of each sample, (N,); default: one domain.
    test : which samples are for testing, (N,); default: split 70/30 by the seed.
    class_names : name of each class; default: its number.
    domain_names : name of each domain.
    text : sets of embeddings (C, p) of the class names, by the name of their prompts.
    meta : encoder, weights hash, preprocessing, dataset, the share already taken.
    path : the name of each sample's picture, N of them or none.

    Attributes
    ----------
    n_classes : number of classes C.
    n_domains : number of domains.
    dimension : number of dimensions p.
    domains : the domain of each sample, (N,), zeros where the table has none.

    >>> t = EmbeddingTable(x=np.eye(4, dtype=np.float32), y=[0, 1, 0, 1], class_names=("cat", "dog"))
    >>> t.n_classes, t.domain_names, len(t.subset([0, 2]))
    (2, ('all',), 2)
    """

    x: NDArray[Any]
    y: NDArray[np.int64]
    domain: NDArray[np.int64] | None = None
    test: NDArray[np.bool_] | None = None
    class_names: tuple[str, ...] = ()
    domain_names: tuple[str, ...] = ()
    text: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    path: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        put("x", self._checked(self.x))
        samples = len(self.x)
        for names in ("class_names", "domain_names"):
            check_is(names, getattr(self, names), Sequence | np.ndarray, "a list of names")
        check_is("meta", self.meta, Mapping, "a mapping of names to values")
        put("y", check_labels(self.y, len(self.class_names) or None, samples))
        put("class_names", _names(self.class_names, self.y, "class"))
        if self.domain is None and len(self.domain_names) > 1:
            raise GgeurError(
                f"The table names {len(self.domain_names)} domains but gives its samples none.",
                code="table-domains-missing",
            )
        if self.domain is None:
            put("domain_names", tuple(map(str, self.domain_names)) or ("all",))
            put("domain", np.zeros(samples, np.int64))
        else:
            put("domain", check_labels(self.domain, len(self.domain_names) or None, samples, "domain"))
            put("domain_names", _names(self.domain_names, self.domain, "domain"))
        if self.test is not None:
            test = as_array("test mask", self.test)
            if test.shape != (samples,) or not np.isin(test, (0, 1)).all():
                raise GgeurError(
                    f"The test mask has shape {test.shape}; it must be {samples} booleans.",
                    code="table-test-mask-shape",
                )
            put("test", test.astype(np.bool_))
        if self.path and len(self.path) != samples:
            raise GgeurError(
                f"The table names {len(self.path)} pictures and has {samples} samples; name one for each.",
                code="table-paths-mismatch",
            )
        put("text", _text_sets(self.text))
        for array in self.text.values():
            if array.shape != (self.n_classes, self.dimension):
                raise GgeurError(
                    f"The text embeddings have shape {array.shape}; with {self.n_classes} classes and "
                    f"{self.dimension} dimensions they must be ({self.n_classes}, {self.dimension}).",
                    code="text-embeddings-shape",
                )

    @staticmethod
    def _checked(x: ArrayLike) -> NDArray[Any]:
        """The samples, as they are kept."""
        x = np.asarray(check_embeddings(x))
        if x.dtype in (np.float16, np.float32):
            return x
        with np.errstate(over="ignore"):
            return check_embeddings(x.astype(np.float32))  # a float64 beyond float32's range becomes infinite

    def __len__(self) -> int:
        return len(self.x)

    @property
    def n_classes(self) -> int:
        return len(self.class_names)

    @property
    def n_domains(self) -> int:
        return len(self.domain_names)

    @property
    def dimension(self) -> int:
        return int(self.x.shape[1])

    @property
    def domains(self) -> NDArray[np.int64]:
        """The domain of each sample, never None."""
        assert self.domain is not None
        return self.domain

    def subset(self, samples: ArrayLike) -> Self:
        """Return the table of these `samples` (indices or a mask), with the same classes and domains."""
        samples = as_array("samples", samples)
        samples = samples if samples.size else np.zeros(0, np.int64)  # [] is of floats to numpy
        if samples.ndim != 1 or not (
            samples.shape == (len(self),) if samples.dtype == np.bool_ else samples.dtype.kind in "iu"
        ):
            raise GgeurError(
                f"samples has shape {samples.shape} of {samples.dtype}; it must be indices, or a mask of all samples.",
                code="sample-selection-invalid",
            )
        if samples.dtype != np.bool_ and ((samples < -len(self)) | (samples >= len(self))).any():
            raise GgeurError(
                f"There is no sample {samples[np.abs(samples).argmax()]}: the table has {len(self)} samples.",
                code="sample-out-of-range",
            )
        test = None if self.test is None else self.test[samples]
        path = tuple(np.array(self.path, np.object_)[samples].tolist()) if self.path else ()
        return replace(self, x=self.x[samples], y=self.y[samples], domain=self.domains[samples], test=test, path=path)

    def split(self, seed: int) -> Self:
        """Return this table with a test mask: its own, or 70/30 within each domain, drawn by `seed`.

        The permutation depends on the seed and the domain's name alone, so a site that holds one domain finds the
        same split as a simulation that holds all.
        """
        if self.test is not None:
            return self
        test = np.zeros(len(self), np.bool_)
        for d, name in enumerate(self.domain_names):
            samples = np.flatnonzero(self.domains == d)
            order = generator(seed, "split", name).permutation(len(samples))
            test[samples[order[int(TRAIN_SHARE * len(samples)) :]]] = True
        split = copy(self)  # not `replace`, which would check every sample again
        object.__setattr__(split, "test", test)
        return split

    def fingerprint(self) -> str:
        """Return a hash of everything that a result depends on: embeddings, labels, domains, mask, names and text."""
        digest = hashlib.sha256(json.dumps([self.class_names, self.domain_names]).encode())
        text: list[NDArray[Any] | None] = [*self.text.values()] or [None]
        if tuple(self.text) not in ((), (FIRST_TEXT,)):  # as tables were before text had names
            digest.update(json.dumps(list(self.text)).encode())
        for array in (self.x, self.y, self.domains, self.test, *text):
            digest.update(b"none" if array is None else f"{array.dtype}{array.shape}".encode())
            digest.update(b"" if array is None else np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def _stored(self) -> NDArray[Any]:
        """The samples, as a file has them."""
        return self.x

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table to `path` (.npz or .parquet), whole or not at all."""
        if check_path("path", path).suffix in PARQUET:
            from ggeur.data.tables.writing import write_parquet

            write_parquet(path, self)
            return
        arrays: dict[str, NDArray[Any]] = {
            "x": self._stored(),
            "y": self.y,
            "domain": self.domains,
            "class_names": np.array(self.class_names, np.str_),
            "domain_names": np.array(self.domain_names, np.str_),
            "meta": np.array(json.dumps(dict(self.meta), sort_keys=True)),
        }
        arrays |= {} if self.test is None else {"test": self.test}
        if self.text:
            arrays["text"], arrays["text_names"] = (
                np.stack(list(self.text.values())),
                np.array(list(self.text), np.str_),
            )
        arrays |= {"path": np.array(self.path, np.str_)} if self.path else {}
        with write_atomically(check_path("path", path)) as file:
            np.savez(file, allow_pickle=False, **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read the table at `path`; a damaged or foreign file gives a GgeurError that names it.

        What is no `.npz`, `TableFiles` reads: it says what files and columns there may be.
        """
        path = check_path("path", path)
        if cls is EmbeddingTable and path.suffix != ".npz":
            from ggeur.data.tables.files import TableFiles
            from ggeur.data.tables.pairing import is_table

            if is_table(path):
                return cast(Self, TableFiles(path).read())
        arrays: dict[str, Any] = read_arrays(path, _ARRAYS)
        if cls is EmbeddingTable and "x" in arrays and arrays["x"].ndim == 4:
            raise GgeurError(
                f"{path} holds pictures, and embeddings are wanted here: embed them with an encoder.",
                code="table-not-embeddings",
            )
        if "x" not in arrays or "y" not in arrays:
            if cls is EmbeddingTable and not arrays.keys() & {"x", "y"}:  # of another program
                from ggeur.data.tables.arrays import NpzSource
                from ggeur.data.tables.files import TableFiles

                if NpzSource(path).fields:
                    return cast(Self, TableFiles(path).read())
            raise GgeurError(
                f"{path} is not an embedding table: it must hold the arrays x and y; samples without y have no labels.",
                code="file-not-table",
            )
        try:
            meta = json.loads(str(arrays.pop("meta", "{}")))
            if not isinstance(meta, dict):
                raise GgeurError("The meta must be a JSON object.", code="table-meta-invalid")
            for names in ("class_names", "domain_names", "path"):
                arrays[names] = tuple(arrays[names].ravel()) if names in arrays else ()
            if "text_names" in arrays:
                arrays["text"] = dict(zip(arrays.pop("text_names").ravel(), arrays.get("text", ()), strict=True))
            return cls(**arrays, meta=meta)
        except GgeurError as error:
            raise GgeurError(f"{path}: {error}", code=error.code) from error
        except (ValueError, TypeError, RecursionError) as error:
            raise GgeurError(f"{path} is damaged: {error}.", code="file-damaged") from error


def _text_sets(text: Any) -> dict[str, NDArray[Any]]:
    """The sets of text embeddings by name; one array alone is the first."""
    if text is None:
        return {}
    sets = text if isinstance(text, Mapping) else {FIRST_TEXT: text}
    for name in map(str, sets):
        if not name or any(unicodedata.category(c) in ("Cc", "Cs") for c in name):
            raise GgeurError(f"A set of text is named {name!r}; names must be plain text.", code="table-name-invalid")
    arrays = {str(name): check_embeddings(array, "text") for name, array in sets.items()}
    alike = np.result_type(*arrays.values()) if arrays else None  # a file holds all sets in one array
    return {name: array.astype(alike, copy=False) for name, array in arrays.items()}


def _names(names: Sequence[Any], labels: NDArray[np.int64], kind: str) -> tuple[str, ...]:
    """The names as text, or 0, 1, 2, ... for as many as the labels need."""
    if len(names) == 0:
        return tuple(map(str, range(int(labels.max(initial=-1)) + 1)))
    texts = tuple(map(str, names))
    strange = [text for text in texts if any(unicodedata.category(c) in ("Cc", "Cs") for c in text)]
    if strange:  # they would steer a terminal, or could not be written at all
        raise GgeurError(
            f"The {kind} name {strange[0]!r} holds control characters; names must be plain text.",
            code="table-name-invalid",
        )
    twice = [text for text, times in Counter(texts).items() if times > 1]
    if twice:
        raise GgeurError(f"More than one {kind} is named {twice[0]!r}; names must differ.", code="table-name-repeated")
    return texts
