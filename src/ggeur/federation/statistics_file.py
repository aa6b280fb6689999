"""The .stats file: all that a site sends, once, in a file that people can check and other programs can write.

It is an .npz archive without pickles and without compression:

    meta.json     UTF-8: what `Meta` declares, the plan among it
    count.npy     (D, C) float64: samples of each domain and class
    sum.npy       (g, p) float64: the sum of each group that has samples, in the order of the counts
    moments.npy   (m,) float64: domain after domain, the rows that `PackedStatistics` describes
    signature     64 bytes, optional: Ed25519, on `statement`

The archive's comment is "sha256:" and the hash of all bytes before it; what another program writes may have none.
"""

import hashlib
import io
import json
import math
import os
import reprlib
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.lib import format as npy
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ggeur.federation.plan import FORMAT as PLAN_FORMAT
from ggeur.federation.plan import ClassNames, FederationPlan, Name, PlannedEncoder, first_fault
from ggeur.federation.stored_statistics import StoredStatistics
from ggeur.stats.errors import GgeurError, nearest_file
from ggeur.stats.packed_statistics import PackedStatistics, packed_length
from ggeur.stats.site_statistics import matrices
from ggeur.stats.storage import cannot, check_format, read_arrays, write_bytes

SUFFIX = ".stats"
FORMAT = 1  # of meta.json and all that it describes; a file of a higher one is refused
_ARRAYS = ("count", "sum", "moments")
_SIGNATURE, _META = "signature", "meta.json"
_MEMBERS = {_META, *(f"{name}.npy" for name in _ARRAYS)}
_SEAL, _SEAL_LENGTH = b"sha256:", 71
_MOST_META = 2**26
_END = 22  # bytes of a zip's last record, without its comment


def _site(name: str) -> str:
    if name.startswith(".") or any(c in name for c in "/\\") or name != name.strip():
        raise ValueError("it cannot be a file's name")
    return name


SenderName = Annotated[Name, Field(min_length=1), AfterValidator(_site)]


class Meta(BaseModel):
    """What a .stats file says beside its numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: Literal[1] = 1
    plan: FederationPlan
    site: SenderName
    sequence: Annotated[int, Field(strict=True, ge=1, le=10**9)] = 1
    date: Annotated[str, Field(pattern=r"^(\d{4}-\d{2}-\d{2})?$")] = ""
    classes: ClassNames
    domains: Annotated[tuple[Annotated[Name, Field(min_length=1)], ...], Field(min_length=1, max_length=100_000)]
    encoder: PlannedEncoder
    labelled: Annotated[bool, Field(strict=True)] = True


class StatisticsFile(NamedTuple):
    """A site's statistics by domain, and what they are."""

    meta: Meta
    packed: Mapping[str, PackedStatistics]
    signature: bytes = b""
    received: bytes = b""  # the statement on the members of a file that was read

    @property
    def site(self) -> str:
        """Return the name of the site."""
        return self.meta.site

    @property
    def plan(self) -> FederationPlan:
        """Return what it was made by."""
        return self.meta.plan

    @property
    def stored(self) -> StoredStatistics:
        """Return the statistics as a federation adds them up."""
        messages = {domain: one.statistics for domain, one in self.packed.items()}
        return StoredStatistics(
            self.site, self.meta.classes, self.plan.covariance, messages, sequence=self.meta.sequence
        )

    @property
    def samples(self) -> int:
        """Return how many samples they are of."""
        return int(sum(one.count.sum() for one in self.packed.values()))

    @property
    def statement(self) -> bytes:
        """Return the bytes that a site signs: a line for each member with its hash, as sha256sum prints them."""
        return self.received or _statement(self._members())

    def signed(self, sign: Callable[[bytes], bytes]) -> Self:
        """Return the same with the signature that `sign` makes of the statement."""
        return self._replace(signature=sign(self.statement))

    def to_bytes(self) -> bytes:
        """Return the file; the same statistics are the same bytes."""
        members = self._members() | ({_SIGNATURE: self.signature} if self.signature else {})
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name in sorted(members):
                about = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                about.create_system, about.external_attr = 3, 0o644 << 16
                archive.writestr(about, members[name])
            archive.comment = bytes(_SEAL_LENGTH)
        content = buffer.getvalue()[:-_SEAL_LENGTH]
        return content + _SEAL + hashlib.sha256(content).hexdigest().encode()

    def save(self, path: str | os.PathLike[str]) -> int:
        """Write the file to `path`, whole or not at all, and return its size in bytes."""
        content = self.to_bytes()
        write_bytes(path, content)
        return len(content)

    def _members(self) -> dict[str, bytes]:
        each = list(self.packed.values())
        arrays = {
            "count": np.stack([one.count for one in each]),
            "sum": np.concatenate([one.sum[one.count > 0] for one in each]),
            "moments": np.concatenate([one.moments for one in each]),
        }
        members = {_META: self.meta.model_dump_json(indent=1).encode()}
        for name, array in arrays.items():
            file = io.BytesIO()
            npy.write_array(file, np.ascontiguousarray(array, "<f8"), version=(1, 0), allow_pickle=False)
            members[f"{name}.npy"] = file.getvalue()
        return members


def read_statistics_file(path: str | os.PathLike[str]) -> StatisticsFile:
    """Return the statistics at `path`, every value checked; raise GgeurError where they are not sound."""
    path = Path(path)
    try:
        with cannot(f"read {path}"):
            content = path.read_bytes()
    except GgeurError as error:
        if path.exists():
            raise
        raise GgeurError(f"There is no file {path}.{nearest_file(path)}", code="file-missing") from error
    try:
        members = _members_of(content, path)
    except (ValueError, OSError, NotImplementedError, zipfile.BadZipFile, EOFError, RuntimeError) as error:
        raise GgeurError(
            f"{path} is damaged or no file of statistics ({error}): ask the site to send it again.",
            code="statistics-file-damaged",
        ) from error
    arrays = read_arrays(io.BytesIO(content), _ARRAYS, of=path)
    try:
        meta = Meta.model_validate_json(members[_META])
        packed = _packed(meta, arrays)
    except ValidationError as error:
        _check_formats(members[_META], path)
        raise GgeurError(
            f"{path} is no file of statistics: {first_fault(error)}.", code="file-not-statistics"
        ) from error
    except ValueError as error:
        raise GgeurError(f"{path} holds no statistics of samples: {error}.", code="file-not-statistics") from error
    return StatisticsFile(meta, packed, members.pop(_SIGNATURE, b""), _statement(members))


def _check_formats(meta: bytes, path: Path) -> None:
    """Raise GgeurError where a later version wrote the description `meta`, or the plan in it."""
    with suppress(ValueError, RecursionError):  # it is no JSON, which is said otherwise
        tree = json.loads(meta)
        check_format(tree, FORMAT, path)
        check_format(tree.get("plan") if isinstance(tree, dict) else None, PLAN_FORMAT, f"The plan in {path}")


def is_statistics_file(path: Any) -> bool:
    """Return whether `path` goes by the name of a file of statistics."""
    return isinstance(path, str | os.PathLike) and Path(path).suffix == SUFFIX and not Path(path).is_dir()


def check_can_send(name: str) -> None:
    """Raise GgeurError where a site of that `name` cannot send a file."""
    try:
        TypeAdapter(SenderName).validate_python(name)
    except ValidationError as error:
        raise GgeurError(
            f"A site cannot be called {reprlib.repr(name)}: give another name (--name), of 1 to 200 printable "
            "characters without slashes, and no dot or space first, nor a space last.",
            code="site-name-invalid",
        ) from error


def check_fits_memory(classes: int, p: int, covariance: Any, domains: int, whose: str) -> None:
    """Raise GgeurError where the statistics of so many classes and dimensions are more than this machine can hold."""
    needed = 8 * domains * (classes * (p + 1) + matrices(covariance, classes) * p * p)
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else math.inf
    if needed > there:
        raise GgeurError(
            f"The statistics of {whose} would take {needed / 2**30:,.0f} GiB, of {classes:,} classes in {p:,} "
            'dimensions, more than this machine has: name another column of labels, or plan covariance = "pooled".',
            code="statistics-too-large",
        )


def _statement(members: Mapping[str, bytes]) -> bytes:
    lines = [f"{hashlib.sha256(members[name]).hexdigest()}  {name}\n" for name in sorted(members)]
    return ("ggeur statistics 1\n" + "".join(lines)).encode()


def _members_of(content: bytes, path: Path) -> dict[str, bytes]:
    """Return all members by name; raise where the archive is not as it was written."""
    if not content:
        raise ValueError("it is empty")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        seal, infos = archive.comment, archive.infolist()
        before = content[: len(content) - len(seal)]
        if before[-_END : -_END + 4] != b"PK\5\6":
            raise ValueError("bytes follow its end")
        if seal and seal != _SEAL + hashlib.sha256(before).hexdigest().encode():
            raise ValueError("its checksum does not match")
        names = [info.filename for info in infos]
        if any(info.compress_type != zipfile.ZIP_STORED or info.file_size > len(content) for info in infos):
            raise ValueError("it is compressed")
        if any(info.filename == _META and info.file_size > _MOST_META for info in infos):
            raise ValueError(f"{_META} is too large")
        if set(names) - {_SIGNATURE} != _MEMBERS or len(set(names)) < len(names):
            if _META in names:
                _check_formats(archive.read(_META), path)
            raise ValueError(f"it must hold {', '.join(sorted(_MEMBERS))} and no other file but {_SIGNATURE}")
        return {info.filename: archive.read(info) for info in infos}


def _packed(meta: Meta, arrays: Mapping[str, Any]) -> dict[str, PackedStatistics]:
    """Return the statistics by domain; raise ValueError where they are not what `meta` says."""
    shape, p = (len(meta.domains), len(meta.classes)), meta.encoder.dimension
    if not p or meta.plan.encoder.dimension not in (0, p):
        raise ValueError("it does not say how many dimensions its samples have")
    if meta.labelled and meta.plan.classes not in ((), meta.classes):
        raise ValueError("its classes are not those of its plan")
    if tuple(sorted(set(meta.domains))) != meta.domains:
        raise ValueError("its domains are not in the order of their names")
    count, total, moments = (arrays.get(name, np.zeros(0)) for name in _ARRAYS)
    if any(a.dtype != np.float64 or not np.isfinite(a).all() for a in (count, total, moments)):
        raise ValueError("it has numbers that are not finite float64")
    if count.shape != shape or total.shape != (np.count_nonzero(count), p) or moments.ndim != 1:
        raise ValueError("its arrays do not have the shapes that its classes, domains and dimensions need")
    check_fits_memory(shape[1], p, meta.plan.covariance, shape[0], "the file")
    packed, at, sums = {}, 0, np.zeros((*shape, p))
    sums[count != 0] = total
    for d, domain in enumerate(meta.domains):
        if (count[d] < 0).any() or (count[d] > 2**53).any():
            raise ValueError("its counts are not numbers of samples")
        small = (count[d] > 0) & (count[d] < meta.plan.min_count)
        if meta.labelled and small.any():
            raise ValueError(f"it has a group of fewer than min_count = {meta.plan.min_count} samples")
        length = packed_length(count[d], p, meta.plan.covariance)
        packed[domain] = PackedStatistics(meta.plan.covariance, count[d], sums[d], moments[at : at + length])
        packed[domain].check()
        at += length
    if at != len(moments):
        raise ValueError("it has more or fewer moments than its counts need")
    return packed
