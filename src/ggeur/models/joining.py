"""Sites that join a solved model or leave it: the head is solved again from what remains, and a receipt says so."""

import hashlib
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ggeur.data.tables.columns import TableColumns
from ggeur.data.tables.pairing import is_table
from ggeur.federation.ledger import Entry, Ledger
from ggeur.federation.one_shot import OneShot
from ggeur.federation.plan import FederationPlan
from ggeur.federation.stored_statistics import StoredFederation, StoredStatistics
from ggeur.heads.head import Params
from ggeur.methods import kind_of
from ggeur.methods.algorithm import ClosedForm
from ggeur.models.fitted import Fitted, calibrated, keep, scores
from ggeur.models.model import Model
from ggeur.models.prediction import encoder_of
from ggeur.models.site_files import LEDGER, load_ledger, load_statistics, settle
from ggeur.models.sites import (
    AnySite,
    SentSite,
    check_alike,
    class_names_of,
    held_samples,
    name_of_path,
    read_sites,
    shared_by,
    site_name,
)
from ggeur.models.solution import Solution, solve
from ggeur.models.transaction import Command, current, locked
from ggeur.stats.custom import is_custom, one_line
from ggeur.stats.errors import GgeurError, GgeurWarning
from ggeur.stats.features import FeatureMap, TableMap
from ggeur.stats.site_statistics import largest
from ggeur.stats.units import Units


class Opened(NamedTuple):
    """A model that sites can join and leave."""

    folder: Path
    model: Model
    ledger: Ledger
    solution: Solution
    custom: bool  # whether a method that is a user's own may be imported

    @classmethod
    def at(cls, folder: Path, custom: bool) -> "Opened":
        """The one in `folder`; `custom` allows a method that is a user's own, whose module is imported.

        The head's numbers are not read: it is solved again, and where they are damaged that is what mends them.
        """
        model = Model.load(folder, custom=custom, numbers=False)
        if model.privacy.get("secure_aggregation"):
            raise GgeurError(
                f"The model at {folder} was made under secure aggregation, of which only the total was ever seen: no "
                f"single "
                "site can join it or be forgotten; run again, with at least three sites more or fewer.",
                code="model-secure-aggregation",
            )
        if "chosen_by" in model.algorithm and not current(folder, LEDGER).exists():  # which `fit` alone writes
            raise GgeurError(
                f"The model at {folder} holds no statistics of its sites, so none can join or leave it: use the folder "
                "that `ggeur fit` wrote, or fit again from the tables of all sites.",
                code="model-without-statistics",
            )
        ledger = load_ledger(folder)
        try:
            solution = Solution.from_json(model.algorithm)
        except (KeyError, TypeError) as error:
            raise GgeurError(
                f"{folder / 'model.json'} does not say how it was solved: {one_line(error)}.",
                code="model-solution-unreadable",
            ) from error
        _check_custom(solution.method, custom)
        if kind_of(solution.method) is not ClosedForm:
            raise GgeurError(
                f"{folder / 'model.json'} says '{solution.method}', which is no one-shot classifier.",
                code="model-not-one-shot",
            )
        return cls(folder, model, ledger, solution, custom)

    @property
    def plan(self) -> FederationPlan | None:
        """Return the plan that its sites followed, if they did."""
        tree = self.model.settings.get("plan")
        return None if tree is None else FederationPlan.of(tree, f"{self.folder / 'model.json'}")

    @property
    def min_count(self) -> int:
        """How many samples of a class a site must have to share them."""
        return int(self.model.settings.get("min_count", 0))

    def read(
        self,
        paths: Sequence[Path],
        encoder: str | None,
        columns: TableColumns | None = None,
        trust: Path | None = None,
    ) -> list[AnySite]:
        """The sites at `paths`, whose samples must come from the model's encoder, with what they share of them."""
        tower = encoder_of(self.model, encoder) if any(path.is_dir() and not is_table(path) for path in paths) else None
        plan = self.plan
        sites = read_sites(paths, tower, columns=columns, plan=plan, trust=trust)
        sites = [shared_by(site, plan, self.min_count) for site in sites]
        check_alike(sites, self.model.encoder, self.model.dimension)
        return sites

    def statistics(self, ledger: Ledger, again: Sequence[AnySite]) -> list[StoredStatistics]:
        """Return what all in the `ledger` sent: kept here or, where they are given, sent `again` and held to their
        hashes.
        """
        if not again:
            return [load_statistics(self.folder, entry) for entry in ledger.entries]
        found = {site.name: site for site in again}
        missing, more = [n for n in ledger.names if n not in found], [n for n in found if n not in ledger.names]
        if more:
            raise GgeurError(
                f"The site '{more[0]}' was never added, so it has nothing to send again.", code="site-not-added"
            )
        if missing:
            raise GgeurError(
                f"The sites {', '.join(missing)} must send their statistics again too: name their tables.",
                code="statistics-not-resent",
            )
        each = [found[e.name].statistics(e.kind) for e in ledger.entries]
        for entry, statistics in zip(ledger.entries, each, strict=True):
            if not entry.holds(statistics):
                raise GgeurError(
                    f"The statistics of '{entry.name}' do not match their hash: these samples were never added.",
                    code="statistics-hash-mismatch",
                )
        return each


def add_site(
    folder: Path,
    site: Path,
    others: Sequence[Path] = (),
    *,
    encoder: str | None = None,
    columns: TableColumns | None = None,
    choose_again: bool = False,
    keep_units: bool = False,
    trust: Path | None = None,
    custom: bool = False,
) -> Path:
    """Add the site at `site` to the model in `folder`; the receipt.

    The tables of the `others`, who are in already, are needed only where the model does not keep their statistics.
    `choose_again` selects the solver anew, from all statistics. `keep_units` keeps units and landmarks of features, so
    that nobody is asked again, and says what is not exact. `trust` is a folder of public keys, one of
    which must have signed the site's file.
    """
    with ExitStack() as held:
        name, cut = site_name(site), _locked(folder, held)
        opened = Opened.at(folder, custom)
        if cut is not None and cut.is_for("add", name, choose_again) and name in opened.ledger.names:
            (new,), entry = opened.read([site], encoder, columns), opened.ledger.entry(name)
            if entry.holds(new.statistics(entry.kind)):  # and not other samples under the same name
                return folder / cut.receipt
        (new,) = opened.read([site], encoder, columns, trust)
        opened.ledger.check_new(name, new.sent.meta.sequence if isinstance(new, SentSite) else 0)
        ledger = opened.ledger.without(name) if name in opened.ledger.names else opened.ledger
        again = opened.read(others, encoder, columns) if others else []
        return _settle(opened, new.name, ledger, again, choose_again, keep_units, new)


def forget_site(
    folder: Path,
    name: str,
    remaining: Sequence[Path] = (),
    *,
    encoder: str | None = None,
    choose_again: bool = False,
    keep_units: bool = False,
    custom: bool = False,
) -> Path:
    """Take the site `name` out of the model in `folder`, as if it had never been in; the receipt.

    The tables of the `remaining` sites are needed only where the model does not keep their statistics. `choose_again`
    selects the solver anew, from all statistics. `keep_units` keeps units and landmarks of features, so that nobody is
    asked again, and says what is not exact.
    """
    with ExitStack() as held:
        cut = _locked(folder, held)
        opened = Opened.at(folder, custom)
        if cut is not None and any(cut.is_for("forget", n, choose_again) for n in (name, name_of_path(name))):
            return folder / cut.receipt
        name = name if name in opened.ledger.names else name_of_path(name)
        ledger = opened.ledger.without(name)
        if not ledger.entries:
            raise GgeurError(
                f"'{name}' is the only site, and without it there is no model: delete {folder} instead.",
                code="site-only-one",
            )
        again = opened.read(remaining, encoder) if remaining else []
        return _settle(opened, name, ledger, again, choose_again, keep_units, None)


def _locked(folder: Path, held: ExitStack) -> Command | None:
    """Lock the folder and bring it to rest; the command that was cut short there, if one was, which is now done."""
    if not current(folder, LEDGER).exists():
        return None  # nothing to change, as is then said
    held.enter_context(locked(folder))
    return settle(folder)


def _settle(
    opened: Opened,
    name: str,
    ledger: Ledger,
    again: Sequence[AnySite],
    choose_again: bool,
    keep_units: bool,
    new: AnySite | None,
) -> Path:
    """Solve for the sites of the `ledger` and the `new` one, and write all that follows from it."""
    solution, model = opened.solution, opened.model
    kept = _kept_map(opened) if keep_units else None
    before = opened.statistics(ledger, again)
    kind = largest([solution.kind, *(entry.kind for entry in opened.ledger.entries)]) or solution.kind
    statistics = before if new is None else [*before, new.statistics(kind)]
    given = {site.name: site for site in (*again, *([] if new is None else [new]))}
    names = class_names_of([one.class_names for one in statistics])
    federation = StoredFederation(statistics, names, held_samples(given.values()))
    if choose_again:
        solution, found = _chosen_again(opened, federation)
    else:
        found = solution.solve(federation, kept)
    exact = ""
    if kept is None:
        solution = solution.with_units(found, federation)
    elif exact := kept_units_note(solution, name, joins=new is not None):
        warnings.warn(exact, GgeurWarning, stacklevel=3)
    known = {one.name: one.features for one in before}
    changed = [s for s in federation.stored if s.name not in known or s.features is not known[s.name]]
    entries = [e._replace(encoder=given[e.name].encoder) if e.name in given else e for e in ledger.entries]
    others = [e for e in entries if e.name not in {one.name for one in changed}]
    ledger = Ledger.of([*others, *(Entry.of(one, given[one.name].encoder) for one in changed)])
    sites = sorted(given.values(), key=lambda site: site.name)
    wanted = model.settings.get("calibrate", True)
    fitted = Fitted(
        solution,
        found.params,
        federation,
        ledger.encoder(model.encoder),
        model.settings,
        scores(sites, federation.class_names, solution, found.params),
        calibrated(federation, solution, found.params, sites) if wanted else {},
    )
    more: dict[str, Any] = {
        "note": _note(name, opened.solution, choose_again),
        "method": solution.method,
        "hash_of_head": head_hash(found.params),
        **({"units": exact} if exact else {}),
    }
    command = Command("forget" if new is None else "add", name, choose_again)
    kept_files = keep(opened.folder, fitted, changed, ledger, command, more)
    return opened.folder / kept_files.receipt


def _kept_map(opened: Opened) -> FeatureMap:
    """Return the model's units and landmarks."""
    if opened.solution.solved.features is None:
        raise GgeurError(
            f"'{opened.solution.method}' has no features whose units could be kept: leave --keep-units out.",
            code="option-keep-units",
        )
    model = Model.load(opened.folder, custom=opened.custom)
    params, kind = model.params, TableMap if model.head == "lookup" else FeatureMap
    return kind(Units(params["center"], float(params["scale"])), params["landmarks"])


def kept_units_note(solution: Solution, name: str, *, joins: bool) -> str:
    """Return what is not exact where the site `name` `joins` or leaves and the units of features stay; else ""."""
    told = solution.units_of
    if not told or joins == (name in told["sites"]):
        return ""
    return f"Not exact: units of {told['date']} {'do not include' if joins else 'include'} {name}."


def _chosen_again(opened: Opened, federation: StoredFederation) -> tuple[Solution, OneShot]:
    """Select the solver anew, from the statistics of all who are in."""
    before = opened.solution
    if not before.chosen_by:
        raise GgeurError(
            f"'{before.method}' was given and not chosen, so there is nothing to choose again.",
            code="model-method-not-chosen",
        )
    for method in before.candidates:
        _check_custom(method, opened.custom)
    return solve(federation, "auto", before.asked, before.covariance, before.seed)


def _check_custom(method: str, custom: bool) -> None:
    """GgeurError where a model names a `method` whose module its reader has not allowed to be imported."""
    if is_custom(method) and not custom:
        raise GgeurError(
            f"The model names your own '{method}' to solve its head; if you trust it, say --custom.",
            code="model-custom-untrusted",
        )


def _note(name: str, solution: Solution, choose_again: bool) -> str:
    """Return a note on whether the site took part in choosing the constants."""
    if choose_again:
        return "constants chosen again, by all who are in"
    if not solution.chosen_by:
        return ""
    part = "took part" if name in solution.chosen_by else "took no part"
    return f"its samples {part} in choosing the constants, which are kept"


def head_hash(params: Params) -> str:
    """A hash of every number of a head."""
    import jax  # whose names of paths receipts have always been made with

    digest = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_flatten_with_path(params)[0]:
        array = np.asarray(leaf)
        digest.update(f"{path}{array.dtype}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _list(ledger: Ledger) -> str:
    return ", ".join(ledger.names)
