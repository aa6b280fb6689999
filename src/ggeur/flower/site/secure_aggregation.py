"""A site's half of a secure aggregation: its key, its masked vector, and at last the seed of its own mask.

A process starts for every message, so secrets are on disk between messages, readable by the user only. Only those of
the last attempt are kept: a site that joins another attempt can never show the secrets of the one before. Opened
attempts stay in the site's log for good.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ggeur.experiments.settings_privacy import Privacy
from ggeur.flower.site.addends import addend, statistics_by_domain
from ggeur.flower.site.aggregation_log import AggregationLog
from ggeur.flower.site.data import test_samples
from ggeur.flower.site.request import Facts, Reply, Request
from ggeur.flower.site.site_policy import note_spending, spending
from ggeur.privacy.secure_aggregation import FEWEST
from ggeur.privacy.secure_aggregation.fixed_point import encode
from ggeur.privacy.secure_aggregation.keys import Announced, Attempt, KnownSites, Secrets, announce, sign
from ggeur.privacy.secure_aggregation.masks import bound_question, mask
from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import write_bytes


class _Kept(NamedTuple):
    """This site's files of an attempt, with a digest of its keys and the facts of its reply once a vector was sent."""

    attempt: Attempt
    own: Secrets
    announced: Announced
    digest: str = ""
    facts: Mapping[str, Any] = {}
    apart: Mapping[str, Any] = {}  # where totals are by domain, the sites of each
    privacy: Mapping[str, Any] = {}  # at the time of the vector: the seed is asked for by another message


def keys(request: Request) -> Reply:
    """Return this site's signed public key for the attempt of `request`; raise where it takes no part."""
    attempt, site, known = _attempt(request), request.site, request.site.known_sites()
    _check_sites(attempt, known, site.client)
    kept = _load(request, attempt)
    once = not request.release.exact
    AggregationLog(site.root, known, site.client).check(attempt, joined=kept is not None, once=once)
    if kept is None:
        table, own = request.table(), Secrets.new()
        held = np.unique(table.domains[~test_samples(table)])
        domains = tuple(table.domain_names[d] for d in held.tolist())
        kept = _Kept(attempt, own, announce(attempt, site.client, own, domains, site.key))
        _save(request, kept)
    return {"key": kept.announced._asdict()}, {}


def masked(request: Request) -> Reply:
    """Return this site's masked vector: the same bytes if it is asked again; raise for other keys."""
    attempt, known = _attempt(request), request.site.known_sites()
    kept = _load(request, attempt)
    if kept is None:
        raise GgeurError("this site has no key in this attempt", code="site-key-missing")
    announced = _announced(request.facts)
    known.check_keys(attempt, announced)
    if announced[request.site.client] != kept.announced:
        raise GgeurError("the key that came as this site's own is not its own", code="site-key-not-own")
    question, path = _question(request), request.masks / "vector.npy"
    digest = bound_question(attempt, announced, question)
    if not kept.digest:
        holders = [one.domains for one in announced.values()]
        apart = {d: [s for s in attempt.sites if d in announced[s].domains] for one in holders for d in one}
        apart = apart if statistics_by_domain(request) else {}
        privacy = request.point.privacy
        log, noisy = AggregationLog(request.site.root, known, request.site.client), not privacy.release.exact
        log.check(attempt, joined=True, once=noisy, apart=apart)
        if noisy:
            request.site.policy.afford(request.site.root, privacy)
        facts, blocks, arrays = addend(request, holders)
        vector = encode(arrays, blocks, len(attempt.sites))
        mask(vector, request.site.client, kept.own, attempt, announced, question)
        np.save(path, vector)
        receipt = sign(request.site.key, attempt.text("sent", digest.hex()))
        kept = kept._replace(digest=digest.hex(), facts=facts | {"receipt": receipt}, apart=apart)
        kept = kept._replace(privacy=privacy.model_dump(exclude_unset=True))
        _save(request, kept)
    if kept.digest != digest.hex():
        raise GgeurError(
            "this site has sent its vector for other keys or another question, and sends no second one",
            code="policy-second-vector",
        )
    return dict(kept.facts), {"masked": np.load(path)}


def seed(request: Request) -> Reply:
    """Return the seed of this site's own mask, once every site has signed that it answered the same question."""
    attempt, known = _attempt(request), request.site.known_sites()
    kept = _load(request, attempt)
    if kept is None or not kept.digest:
        raise GgeurError("this site has sent no vector in this attempt", code="site-vector-missing")
    receipts = request.facts.get("receipts")
    if not isinstance(receipts, dict) or receipts.keys() != {str(site) for site in attempt.sites}:
        raise GgeurError("not every site of this attempt has sent its vector", code="site-vectors-incomplete")
    for site, receipt in receipts.items():
        known.check(int(site), str(receipt), attempt.text("sent", kept.digest))
    site, privacy = request.site, Privacy.model_validate(dict(kept.privacy))
    site.allowed(privacy.mechanism_name, "privacy mechanism")
    noisy = not privacy.release.exact
    with spending(site.root):
        log = AggregationLog(site.root, known, site.client)
        log.check(attempt, joined=True, once=noisy, apart=kept.apart)
        if not log.has(attempt):
            if noisy:
                site.policy.afford(site.root, privacy)
                note_spending(site.root, request.store.identity, privacy)
            log.add(attempt, kept.apart)
    return {"seed": kept.own.seed}, {}


def _attempt(request: Request) -> Attempt:
    if not request.point.privacy.secure_aggregation:
        raise GgeurError("[privacy] secure_aggregation is not set", code="site-secure-aggregation-off")
    told = request.facts["attempt"]
    store = request.store.identity.split("-")
    run = f"{store[0]}-{store[2]}"  # without the client's number, which differs
    return Attempt(run, str(told["what"]), str(told["name"]), tuple(int(site) for site in told["sites"]))


def _question(request: Request) -> bytes:
    """Return the question to this site without the keys, as bytes; all sites must have the same."""
    facts = {name: fact for name, fact in request.facts.items() if name not in ("attempt", "keys")}
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name, array in sorted(request.arrays.items()):
        digest.update(f"{name} {array.shape} {array.dtype}".encode() + array.tobytes())
    return digest.digest()


def _announced(facts: Facts) -> dict[int, Announced]:
    told = facts.get("keys")
    try:
        return {
            int(site): Announced(str(one["public"]), tuple(map(str, one["domains"])), str(one["signature"]))
            for site, one in dict(told or {}).items()
        }
    except (KeyError, TypeError, ValueError) as error:
        raise GgeurError("the keys of this attempt cannot be read", code="site-keys-unreadable") from error


def _check_sites(attempt: Attempt, known: KnownSites, own: int) -> None:
    """Raise unless the sites of the attempt are in the roster, enough, and include this one."""
    sites = attempt.sites
    if len(set(sites)) < len(sites) or own not in sites or any(site not in known for site in sites):
        raise GgeurError("the sites of this attempt are not those of this site's roster", code="site-roster-mismatch")
    if len(sites) < FEWEST:
        raise GgeurError(
            f"a secure aggregation needs {FEWEST} sites: of two, each could subtract its own",
            code="policy-sites-too-few",
        )
    if 2 * len(sites) <= len(known):
        raise GgeurError(
            f"only {len(sites)} of the {len(known)} sites of the roster take part, and over half must",
            code="policy-roster-minority",
        )


def _load(request: Request, attempt: Attempt) -> _Kept | None:
    """Return the files of this `attempt`, if it is the last that this site joined."""
    try:
        told = json.loads((request.masks / "attempt.json").read_bytes())
    except (OSError, ValueError):
        return None
    run, what, name, sites = told["attempt"]
    found = Attempt(run, what, name, tuple(sites))
    if found != attempt:
        return None
    public, domains, signature = told["announced"]
    announced = Announced(public, tuple(domains), signature)
    made = {name: told.get(name, {}) for name in ("apart", "privacy")}
    return _Kept(found, Secrets(*told["own"]), announced, told["digest"], told["facts"], **made)


def _save(request: Request, kept: _Kept) -> None:
    request.masks.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.chmod(request.masks, 0o700)
    write_bytes(request.masks / "attempt.json", json.dumps(kept._asdict()).encode())
