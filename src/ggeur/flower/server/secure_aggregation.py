"""The server's half of a secure aggregation: pass on keys, add masked vectors, then ask for the seeds that open them.

A site that is lost before its vector has come ends the attempt, and another begins, with new keys. Once seeds are asked
for, all of them must come: the total cannot be opened otherwise. Once a total is opened, its sites are fixed for the
whole trial, since totals of different sites could be subtracted from each other; absent sites are waited for.
"""

import json
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ggeur.flower.server.agreement import Client
from ggeur.flower.server.roster import QuestionFor, Roster
from ggeur.flower.wire.ask import Answer, Question
from ggeur.flower.wire.packing import Arrays
from ggeur.privacy.secure_aggregation import FEWEST
from ggeur.privacy.secure_aggregation.fixed_point import Block, Vector, decode
from ggeur.privacy.secure_aggregation.keys import Announced, Attempt, transcript
from ggeur.privacy.secure_aggregation.masks import unmask
from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import write_bytes

_MOST_ATTEMPTS = 5  # at one total, with the same sites
_LOOK = 0.5  # seconds between two looks for a site that is away


class LostSite(Exception):
    """A site was lost before its vector had come and no total was opened yet; the next attempt goes without it."""


class Sum(NamedTuple):
    """A total to compute: `what` names it for people, `asks` names what a site adds.

    `blocks` are those of the vectors. `question` returns a site's question, and `read` returns what its answer says
    in the clear beside the vector, or raises GgeurError. `number` is the round's.
    """

    what: str
    asks: str
    blocks: Sequence[Block]
    question: QuestionFor = lambda client: Question("", {}, {})
    read: Callable[[Client, Answer], Any] = lambda client, answer: None
    number: int = 0


class Summed(NamedTuple):
    """The arrays of a total, and what each site sent in the clear, by its number."""

    arrays: Arrays
    said: dict[int, Any]


class SecureAggregation:
    """Totals over the sites of `roster`; the file `kept` has what an attempt needs after a crash of this process."""

    def __init__(self, roster: Roster, kept: Path) -> None:
        self._roster, self._kept = roster, kept
        self.sites: tuple[int, ...] | None = None  # the sites of the totals opened in this trial

    def total(self, asked: Sum) -> Summed:
        """Return the total `asked` for; raise LostSite where a site was lost and the others may continue without it."""
        for _ in range(_MOST_ATTEMPTS):
            clients = self._there(asked.number)
            try:
                return self._attempt(asked, clients)
            except LostSite:
                self._roster.journal("restarted", what=asked.what, round=asked.number)
                if self.sites is None:
                    raise
        raise GgeurError(
            f"The secure aggregation of {asked.what} was started {_MOST_ATTEMPTS} times and lost a site each time.",
            code="secure-aggregation-attempts-exhausted",
        )

    def _there(self, number: int) -> list[Client]:
        """Return the present clients or, after a total was opened, its clients once all are back."""
        roster, end = self._roster, time.monotonic() + self._roster.settings.wait
        if self.sites is not None:
            while not set(self.sites) <= {client.index for client in roster.present}:
                if time.monotonic() > end:
                    away = sorted(set(self.sites) - {client.index for client in roster.present})
                    raise GgeurError(
                        f"{_names(away)} left after a secure aggregation with it was opened, and a total without it "
                        "would reveal its statistics; start its node again and resume the run.",
                        code="secure-aggregation-site-left",
                    )
                time.sleep(_LOOK)
                roster.meet(number)
        there = [client for client in roster.present if self.sites is None or client.index in self.sites]
        if len(there) < FEWEST:
            raise GgeurError(
                f"{len(there)} sites are there, and a secure aggregation needs {FEWEST}: of two, each knows both.",
                code="secure-aggregation-too-few-sites",
            )
        return there

    def _attempt(self, asked: Sum, clients: list[Client]) -> Summed:
        began, number = time.monotonic(), asked.number
        attempt = self._begin(asked.what, tuple(client.index for client in clients))
        told = {"attempt": {"what": asked.what, "name": attempt.name, "sites": attempt.sites}}
        each = self._roster.ask(clients, lambda client: Question("query.keys", told, {}), _read_key, number)
        announced = {client.index: key for client, _, key in each}
        if len(announced) < len(clients):
            raise LostSite
        keys = {str(site): one._asdict() for site, one in announced.items()}
        size = sum(block.size for block in asked.blocks)

        def masked(client: Client) -> Question:
            own = asked.question(client)
            return Question("query.masked", {**own.facts, **told, "asks": asked.asks, "keys": keys}, own.arrays)

        def vector(client: Client, answer: Answer) -> tuple[Vector, str, Any]:
            said = asked.read(client, answer)
            return *_read_vector(answer, size), said

        total, receipts, said = np.zeros(size, np.uint64), {}, {}
        for client, _, (found, receipt, about) in self._roster.ask(clients, masked, vector, number):
            total += found
            receipts[str(client.index)], said[client.index] = receipt, about
        if len(receipts) < len(clients):
            raise LostSite
        self._keep(attempt)
        seeds = self._seeds(attempt, Question("query.seed", {**told, "receipts": receipts}, {}), number)
        unmask(total, seeds.values(), transcript(attempt, announced))
        self.sites = attempt.sites
        took = round(time.monotonic() - began, 2)
        self._roster.journal("summed", what=asked.what, round=number, sites=attempt.sites, seconds=took)
        return Summed(dict(decode(total, asked.blocks, len(clients))), said)

    def _seeds(self, attempt: Attempt, question: Question, number: int) -> dict[int, str]:
        """Return all seeds, waiting for absent sites; raise GgeurError if one does not come, and open nothing."""
        roster, seeds, end = self._roster, dict[int, str](), time.monotonic() + self._roster.settings.wait
        was, roster.closed = roster.closed, True  # whoever does not answer now is missing, not out
        try:
            while True:
                clients = [c for c in roster.present if c.index in attempt.sites and c.index not in seeds]
                for client, _, seed in roster.ask(clients, lambda client: question, _read_seed, number):
                    seeds[client.index] = seed
                lost = sorted(set(attempt.sites) - seeds.keys())
                if not lost:
                    return seeds
                if time.monotonic() > end:
                    raise GgeurError(
                        f"{_names(lost)} was lost after its vector had come, so the total cannot be opened; start its "
                        "node again and resume the run.",
                        code="secure-aggregation-site-lost",
                    )
                time.sleep(_LOOK)
                roster.meet(number)
        finally:
            roster.closed = was

    def _begin(self, what: str, sites: tuple[int, ...]) -> Attempt:
        """Return a new attempt, or that whose seeds an earlier process asked for, as sites then join no other."""
        run = f"{self._roster.common['run']}-{self._roster.common['trial']}"
        try:
            kept = json.loads(self._kept.read_bytes())
            if kept[:2] == [run, what] and tuple(kept[3]) == sites:
                return Attempt(run, what, str(kept[2]), sites)
        except (OSError, ValueError):
            pass
        return Attempt(run, what, secrets.token_hex(16), sites)

    def _keep(self, attempt: Attempt) -> None:
        self._kept.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(self._kept, json.dumps(attempt).encode())


def _read_key(client: Client, answer: Answer) -> Announced:
    try:
        told = answer.facts["key"]
        return Announced(str(told["public"]), tuple(map(str, told["domains"])), str(told["signature"]))
    except (KeyError, TypeError) as error:
        raise GgeurError("its key for a secure aggregation cannot be read", code="message-key-unreadable") from error


def _read_vector(answer: Answer, size: int) -> tuple[Vector, str]:
    found = answer.arrays.get("masked", np.zeros(0))
    if found.shape != (size,) or found.dtype != np.uint64:
        raise GgeurError(
            f"its vector has shape {found.shape} and type {found.dtype}, not {(size,)} and uint64",
            code="message-vector-shape",
        )
    return found, str(answer.facts.get("receipt"))


def _read_seed(client: Client, answer: Answer) -> str:
    seed = answer.facts.get("seed")
    if not isinstance(seed, str) or len(seed) != 64 or set(seed) - set("0123456789abcdef"):
        raise GgeurError("its seed is not valid", code="message-seed-invalid")
    return seed


def _names(sites: Sequence[int]) -> str:
    return ", ".join(f"Client {site}" for site in sites)
