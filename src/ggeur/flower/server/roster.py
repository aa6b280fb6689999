"""The roster of sites: Flower's node ids change, so a client is identified by its partition index."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from ggeur.experiments.settings import Federate
from ggeur.flower.server.agreement import Agreement, Client, check_version
from ggeur.flower.server.journal import Journal
from ggeur.flower.wire.ask import Answer, Grid, Question, ask
from ggeur.stats.errors import GgeurError

_WHO = "federation.jsonl in the run folder says who was refused or missing, and why"
_LOOK = 0.5  # seconds between two looks for nodes
T = TypeVar("T")
QuestionFor = Callable[[Client], Question]
AnswerReader = Callable[[Client, Answer], T]


class Roster:
    """The sites of one trial on Flower's `grid`, and every message to them, each with the `common` facts.

    `settings` are [federate]'s; joining and leaving sites are written to `journal`.
    """

    def __init__(self, grid: Grid, settings: Federate, journal: Journal, common: dict[str, Any]) -> None:
        assert settings.sites is not None
        self.grid, self.settings, self.journal = grid, settings, journal
        self.common = common  # the facts of every message: run, trial, seed, settings
        self.clients: dict[int, Client] = {}
        self.agreement: Agreement | None = None
        self.closed = False  # round 0 is over: who was not there then is not part of this run
        self.bytes_up = self.bytes_down = 0
        self._refused: set[int] = set()  # nodes that are not asked again
        self._silent: dict[int, str] = {}  # nodes that sent no greeting, and why
        self.lost: set[int] = set()  # clients that were left out in round 0, and may come back

    @property
    def present(self) -> list[Client]:
        """Return the clients that can be asked, in the order of their index."""
        return [client for client in self.known if client.node is not None]

    @property
    def known(self) -> list[Client]:
        """Return the clients that take part, also absent ones, in the order of their index."""
        return [client for _, client in sorted(self.clients.items())]

    @property
    def absent(self) -> list[Client]:
        """Return the clients that take part but are absent."""
        return [client for client in self.known if client.node is None]

    def gather(self) -> None:
        """Wait until all sites have sent a greeting or the time is up; raise if there are too few."""
        wanted = len(self.clients) if self.closed else self.settings.sites or 1
        self.journal("waiting", nodes=wanted)
        self.wait_until(lambda: len(self.present) >= wanted, time.monotonic() + self.settings.wait)
        here = f"{len(self.present)} of {wanted} sites are there after {self.settings.wait:g} seconds"
        self.require(len(self.present), None, here, "start the others' SuperNodes and look at their logs")

    def wait_until(self, enough: Callable[[], bool], end: float) -> None:
        """Greet sites until there are `enough` or it is `end`; a site that does not answer delays neither."""
        self.meet(0, end)
        while not enough() and time.monotonic() <= end:
            time.sleep(_LOOK)
            self.meet(0, end)

    def await_lost(self, end: float) -> bool:
        """Wait until `end` for clients that were lost in round 0, and say so; return whether one is back."""
        lost = set(self.lost)
        if lost and (seconds := round(end - time.monotonic())) > 0:
            self.journal("awaited", clients=sorted(lost), seconds=seconds)
            self.wait_until(lambda: not self.lost, end)
        return lost > self.lost

    def require(self, there: int, most: int | None, here: str, remedy: str = _WHO) -> None:
        """Raise, with `here` and `remedy`, where fewer sites are `there` than min_sites or `most`, if that is less."""
        least = self.settings.min_sites if most is None else max(min(self.settings.min_sites, most), 1)
        if there < least:
            raise GgeurError(f"{here}, and [federate] min_sites = {least}; {remedy}.", code="federation-sites-too-few")

    def require_enough(self) -> None:
        """Raise where fewer than min_sites sites remain before training."""
        there = len(self.present)
        self.require(there, None, f"{there} sites remain before training")

    def meet(self, number: int, end: float | None = None) -> None:
        """Note sites that have left before round `number`, and greet new ones; wait for them until `end` at most."""
        seconds = self.settings.wait if end is None else max(end - time.monotonic(), _LOOK)
        live = set(self.grid.get_node_ids())
        for client in self.present:
            if client.node not in live:
                self.journal("left", client=client.index, node=str(client.node), round=number)
                client.node = None
        known = {client.node for client in self.present} | self._refused
        greetings = [(node, Question("query.hello", {}, {})) for node in sorted(live - known)]
        for answer in self._ask(greetings, number, min(seconds, self.settings.timeout)):
            if answer.problem is not None:
                self._note_silence(answer, number)
                continue
            try:
                self._admit(Client.of(answer.facts, answer.node, self.settings.sites or 1), number)
            except GgeurError as error:
                self.refuse(answer.node, answer.facts.get("partition"), number, str(error))

    def _note_silence(self, answer: Answer, number: int) -> None:
        """Note once why a node sent no greeting; ask it again if it was slow or away, never if it cannot answer."""
        node, why = answer.node, answer.problem or ""
        if self._silent.get(node) != why:
            self._silent[node] = why
            self.journal("silent", node=str(node), round=number, why=why)
        if not answer.transient:
            self._refused.add(node)

    def _admit(self, client: Client, number: int) -> None:
        there = self.clients.get(client.index)
        if there is not None and there.node is not None:
            raise GgeurError(
                f"partition-id {client.index} is already held by node {there.node}", code="message-partition-taken"
            )
        if there is None and self.closed:
            raise GgeurError(
                "it came after the statistics were merged; it takes part in the next run", code="message-too-late"
            )
        if there is not None and there.hello.fingerprint != client.hello.fingerprint:
            raise GgeurError("its data are not those with which this run began", code="message-data-changed")
        if self.agreement is not None:
            self.agreement.check(client)
        self.clients[client.index] = client
        self.lost.discard(client.index)
        event = "joined" if there is None else "returned"
        self.journal(event, client=client.index, node=str(client.node), round=number)

    def refuse(self, node: int, client: Any, number: int, why: str) -> None:
        """Refuse `node`, which says that it is `client`, for the whole run; `why` ends a sentence about it.

        It is named in the journal, and neither asked nor counted again.
        """
        self._refused.add(node)
        self.journal("refused", client=client, node=str(node), round=number, why=why)

    def drop(self, client: Client, number: int, why: str) -> None:
        """Refuse `client`, which had been admitted, in round `number`; `why` ends a sentence about it."""
        assert client.node is not None
        self.refuse(client.node, client.index, number, why)
        del self.clients[client.index]

    def leave_out(self, client: Client, number: int, why: str) -> None:
        """Continue without `client`, which was late or lost in round `number`; it is greeted again when it is back."""
        self.missing(client, number, why)
        self.lost.add(client.index)
        del self.clients[client.index]

    def missing(self, client: Client, number: int, why: str) -> None:
        """Note that `client` does not count in round `number`; `why` ends a sentence about it."""
        node = None if client.node is None else str(client.node)
        self.journal("missing", client=client.index, node=node, round=number, why=why)

    def ask(
        self, clients: Iterable[Client], question: QuestionFor, read: AnswerReader[T], number: int, result: str = ""
    ) -> Iterator[tuple[Client, Answer, T]]:
        """Ask those of `clients` that are present in round `number`; yield who answered, the answer, and what it says.

        `question` returns a client's question. `read` returns the content of its answer, or raises GgeurError with
        half a sentence. In round 0 a client with an invalid answer leaves the run, and one without an answer is left
        out for now; after round 0 either is missing. `result`, the consequence, is said before the reason.
        """
        there = {client.node: client for client in clients if client.node is not None}
        for answer in self._ask(((node, question(client)) for node, client in there.items()), number):
            client = there[answer.node]
            try:
                if answer.problem is not None:
                    raise GgeurError(answer.problem, code="message-answer-missing")
                check_version(answer.facts)
                value = read(client, answer)
            except GgeurError as error:
                out = self.missing if self.closed else self.leave_out if answer.transient else self.drop
                out(client, number, f"{result}{error}")
                continue
            yield client, answer, value

    def _ask(self, each: Iterable[tuple[int, Question]], number: int, timeout: float | None = None) -> Iterator[Answer]:
        """Send questions to nodes, with the common facts."""

        def questions() -> Iterator[tuple[int, Question]]:
            for node, question in each:
                self.bytes_down += sum(a.nbytes for a in question.arrays.values())
                yield node, question._replace(facts={**self.common, **question.facts})

        for answer in ask(self.grid, questions(), timeout=timeout or self.settings.timeout, group=str(number)):
            self.bytes_up += sum(a.nbytes for a in answer.arrays.values())
            yield answer
