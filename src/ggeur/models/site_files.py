"""Files beside a one-shot classifier: every site's statistics, the ledger of its sites, and receipts."""

import json
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ggeur.federation.contributions import FILE as CONTRIBUTIONS
from ggeur.federation.ledger import Entry, Ledger
from ggeur.federation.stored_features import StoredFeatures
from ggeur.federation.stored_statistics import StoredStatistics
from ggeur.models.transaction import NEXT, PART, Command, clear, close, current, land, pending, settled, temporaries
from ggeur.stats.custom import one_line
from ggeur.stats.errors import GgeurError
from ggeur.stats.old_names import FILES
from ggeur.stats.site_statistics import COVARIANCES, SiteStatistics
from ggeur.stats.storage import (
    CannotWrite,
    cannot,
    check_format,
    read_arrays,
    sealed,
    unsealed,
    write_atomically,
    write_bytes,
)

STATISTICS, LEDGER, RECEIPTS = "statistics", "ledger.json", "receipts"
PAGE = "report.html"
HEAD, ABOUT, CARD = "head.npz", "model.json", "card.md"
WRITTEN = (HEAD, ABOUT, CARD, LEDGER, STATISTICS, FILES[STATISTICS])  # by a fit
_LONGEST = 200  # bytes of a site's name: a file's may have 255, its ending and a temporary one included
_SCHEMA = 2  # the first had no facts about encoders


def load_ledger(folder: Path, *, sealed_too: bool = False) -> Ledger:
    """Return the ledger of the model at `folder`; raise GgeurError where it is missing or damaged.

    A model that ggeur 0.2 sealed is refused, unless `sealed_too` says that its sites' statistics are not needed.
    """
    path = folder / LEDGER
    try:
        content = settled(folder, [LEDGER], lambda: current(folder, LEDGER).read_bytes())
        check_format(json.loads(content), _SCHEMA, path, "schema")
        tree = unsealed(content, {"schema", "sites", "total"})
        if tree["schema"] not in (1, _SCHEMA):
            raise ValueError(f"its schema is {tree['schema']}, and this version of ggeur reads {_SCHEMA}")
        entries = [Entry(**{**one, "class_names": tuple(map(str, one["class_names"]))}) for one in tree["sites"]]
        if not all(_is_file_name(e.name) for e in entries):  # a removed site's file is deleted
            raise ValueError("the name of a site is not that of a file")
        if (
            not entries
            or any(e.kind not in COVARIANCES for e in entries)
            or len({e.name for e in entries}) < len(entries)
        ):
            raise ValueError("its sites are not sites")
        if not all(isinstance(e.encoder, dict | None) for e in entries):
            raise ValueError("what it says of encoders is no table")
        total = bool(tree["total"])  # its hash, where the model is sealed
    except FileNotFoundError as error:
        raise GgeurError(
            f"The model at {folder} keeps no statistics: a trained head cannot add or forget a site; train it again "
            "without, or compute one with `ggeur fit`.",
            code="model-without-statistics",
        ) from error
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise GgeurError(
            f"{path} is damaged, so the sites of the model are not known: {one_line(error)}.", code="ledger-damaged"
        ) from error
    if total and not sealed_too:
        raise GgeurError(
            f"The model at {folder} was sealed by ggeur 0.2 and keeps no site's statistics, only their total: no site "
            "can join or leave it; fit it again from the tables of all sites with `ggeur fit`.",
            code="model-only-total",
        )
    return Ledger.of(entries)


def save_ledger(folder: Path, ledger: Ledger) -> None:
    """Write `ledger.json` to `folder`."""
    sites = [e._asdict() for e in ledger.entries]
    write_bytes(folder / LEDGER, sealed({"schema": _SCHEMA, "sites": sites, "total": ""}))


def save_statistics(folder: Path, statistics: StoredStatistics) -> None:
    """Write the statistics of a site to a file with its name; `folder` is the model's."""
    check_site_name(statistics.name)
    (folder / STATISTICS).mkdir(parents=True, exist_ok=True)
    _write(folder / STATISTICS / f"{statistics.name}.npz", statistics)


def check_site_name(name: str) -> None:
    """Raise GgeurError where the `name` of a site cannot be that of a file."""
    if not _is_file_name(name):
        raise GgeurError(f"The site '{name}' cannot be a file's name; give it another.", code="site-name-invalid")


def _is_file_name(name: Any) -> bool:
    if not isinstance(name, str) or not 0 < len(name.encode(errors="replace")) <= _LONGEST:
        return False
    return not name.startswith(".") and not any(c in name for c in "/\\\0")


def load_statistics(folder: Path, entry: Entry) -> StoredStatistics:
    """Return the statistics of the site with that `entry`; raise GgeurError where they were changed."""
    path = current(folder, f"{STATISTICS}/{entry.name}.npz")
    before = current(folder, f"{FILES[STATISTICS]}/{entry.name}.npz")
    path = before if before.exists() and not path.exists() else path
    names, messages, features = _read(path)
    statistics = StoredStatistics(entry.name, names, entry.kind, messages, features, entry.sequence)
    if not entry.holds(statistics):
        raise GgeurError(
            f"{path} does not match its hash in the ledger; bring it back, or forget the site.",
            code="statistics-file-changed",
        )
    return statistics


def settle(folder: Path) -> Command | None:
    """Finish a change of the model in `folder`, which is locked, that was interrupted, and return it.

    Files of a killed process are removed too, above all statistics of sites that the ledger does not have.
    """
    with cannot(f"write {folder}", CannotWrite):
        clear(folder / PART)
        done = pending(folder)
        if done is not None:
            for stale in (CONTRIBUTIONS, FILES[CONTRIBUTIONS], PAGE):  # it describes the former sites
                (folder / stale).unlink(missing_ok=True)
            land(folder)
            _move_old_files(folder)
        _sweep(folder, load_ledger(folder))
        close(folder)
    return done


def _move_old_files(folder: Path) -> None:
    """Move the statistics of sites to where they lie since 0.3."""
    before = folder / FILES[STATISTICS]
    for path in sorted(before.glob("*.npz")):
        to = folder / STATISTICS / path.name
        to.parent.mkdir(exist_ok=True)
        path.unlink() if to.exists() else os.replace(path, to)
    with suppress(OSError):  # not there, or a file of the user's is
        before.rmdir()


def _sweep(folder: Path, ledger: Ledger) -> None:
    # Compare files and not names: some file systems change the spelling of accents.
    places = [folder / STATISTICS, folder / FILES[STATISTICS]]
    known = [place / f"{name}.npz" for place in places for name in ledger.names]
    known = [path for path in known if path.exists()]
    stray = [path for place in (*places, folder / RECEIPTS) for path, _ in temporaries(place)]
    files = (HEAD, ABOUT, CARD, LEDGER, CONTRIBUTIONS, PAGE)
    stray += [path for path, name in temporaries(folder) if name in files]
    unsure = {path for place in places for path in place.glob("*.npz")} - set(known)
    stray += [path for path in unsure if not any(path.samefile(one) for one in known)]
    for path in stray:
        path.unlink(missing_ok=True)


def write_receipt(folder: Path, new: Path, what: str, site: str, ledger: Ledger, more: Mapping[str, Any]) -> str:
    """Write a dated receipt of `what` was done with `site` and which sites remain, with `more` facts; return its name.

    It is written to `new`, with the next number in `folder`.
    """
    (new / RECEIPTS).mkdir(parents=True, exist_ok=True)
    numbers = [_number(path) for path in _receipts(folder)]
    said = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "what": what,
        "site": site,
        "remaining": list(ledger.names),
        "hash_of_what_remains": ledger.fingerprint(),
        **more,
    }
    name = f"{RECEIPTS}/{max(numbers, default=0) + 1:04d}-{what}.json"
    write_bytes(new / name, sealed(said))
    return name


def read_receipts(folder: Path) -> list[dict[str, Any]]:
    """Return all readable receipts, the oldest first."""
    found = []
    for path in _receipts(folder):
        with suppress(OSError, ValueError, RecursionError):
            said = json.loads(path.read_bytes())
            if isinstance(said, dict):
                found.append(said)
    return found


def _receipts(folder: Path) -> list[Path]:
    """Return the files of receipts, by number."""
    there = [*(folder / RECEIPTS).glob("*.json"), *(folder / NEXT / RECEIPTS).glob("*.json")]
    return sorted(there, key=lambda path: (_number(path), path.name))


def _number(path: Path) -> int:
    match = re.match(r"([0-9]{1,18})-", path.name)
    return int(match[1]) if match else 0


def _write(path: Path, statistics: StoredStatistics) -> None:
    names, domains = np.array(statistics.class_names, np.str_), np.array(list(statistics.messages), np.str_)
    arrays: dict[str, Any] = {"class_names": names, "domains": domains}
    for i, m in enumerate(statistics.messages.values()):
        arrays |= {f"count{i}": m.count, f"sum{i}": m.sum, f"second{i}": m.second, f"center{i}": m.center}
    if statistics.features is not None:
        arrays |= statistics.features.arrays
    with write_atomically(path) as file:
        np.savez(file, allow_pickle=False, **arrays)


def _read(path: Path) -> tuple[tuple[str, ...], dict[str, SiteStatistics], StoredFeatures | None]:
    arrays = read_arrays(path)
    try:
        domains = [str(d) for d in arrays["domains"]]
        parts = [[arrays[f"{part}{i}"] for part in ("count", "sum", "second", "center")] for i in range(len(domains))]
        names, messages = tuple(str(n) for n in arrays["class_names"]), [SiteStatistics(*part) for part in parts]
        features = StoredFeatures.read(arrays)
        if not messages or not all(_is_sound(m, len(names)) for m in messages):
            raise ValueError("its arrays do not go together")
        return names, dict(zip(domains, messages, strict=True)), features
    except (KeyError, TypeError, ValueError) as error:
        raise GgeurError(f"{path} does not hold statistics: {one_line(error)}.", code="file-not-statistics") from error


def _is_sound(m: SiteStatistics, n_classes: int) -> bool:
    """Return whether these are valid statistics of so many classes."""
    (p,) = m.center.shape
    shapes = m.count.shape == (n_classes,) and m.sum.shape == (n_classes, p) and m.second.shape[1:] == (p, p)
    arrays = (m.count, m.sum, m.second, m.center)
    numbers = all(a.dtype == np.float64 and np.isfinite(a).all() for a in arrays)
    return shapes and numbers and len(m.second) in (0, 1, n_classes)
