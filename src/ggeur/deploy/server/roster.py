"""Who is there: Flower's nodes come and go under changing ids; a client is known by its partition index alone."""

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ggeur.core.errors import GgeurError
from ggeur.deploy.server.agreement import Agreement, Client
from ggeur.deploy.server.journal import Journal
from ggeur.deploy.wire.ask import Answer, Question, ask
from ggeur.deploy.wire.packing import Arrays
from ggeur.deploy.wire.records import to_records
from ggeur.settings.schema import Federate

if TYPE_CHECKING:
    from flwr.serverapp import Grid

_LOOK = 0.5  # seconds between two looks for nodes


class Roster:
    """The sites of one cell, and every message to them."""

    def __init__(self, grid: "Grid", settings: Federate, journal: Journal, common: dict[str, Any]) -> None:
        assert settings.nodes is not None
        self.grid, self.settings, self.journal = grid, settings, journal
        self.common = common  # what every message says: run, cell, seed, settings
        self.clients: dict[int, Client] = {}
        self.agreement: Agreement | None = None
        self.closed = False  # round 0 is over: who was not there then is not part of this run
        self.bytes_up = self.bytes_down = 0
        self._refused: set[int] = set()  # nodes that are not asked again
        self._silent: dict[int, str] = {}  # nodes that did not say hello, and why

    @property
    def present(self) -> list[Client]:
        """The clients that can be asked, in the order of their index."""
        return [client for _, client in sorted(self.clients.items()) if client.node is not None]

    def gather(self) -> None:
        """Wait until all sites have said hello, or, when the time is up, until enough have."""
        wanted = len(self.clients) if self.closed else self.settings.nodes or 1
        least = self.settings.min_nodes
        self.journal("waiting", nodes=wanted)
        end = time.monotonic() + self.settings.wait
        while True:
            self.meet(0)
            if len(self.present) >= wanted or time.monotonic() > end:
                break
            time.sleep(_LOOK)
        if len(self.present) < least:
            raise GgeurError(
                f"{len(self.present)} of {wanted} sites are there after {self.settings.wait:g} seconds, and "
                f"[federate] min_nodes = {least}; start the others' SuperNodes and look at their logs."
            )

    def meet(self, number: int) -> None:
        """See who has left, and greet whoever is new."""
        live = set(self.grid.get_node_ids())
        for client in self.present:
            if client.node not in live:
                self.journal("left", client=client.index, node=str(client.node), round=number)
                client.node = None
        known = {client.node for client in self.present} | self._refused
        for answer in self.ask([(node, "query.hello", {}, {}) for node in sorted(live - known)], number):
            if answer.problem is not None:
                self._note_silence(answer, number)
                continue
            try:
                self._admit(Client.of(answer.facts, answer.node, self.settings.nodes or 1), number)
            except GgeurError as error:
                self.refuse(answer.node, answer.facts.get("partition"), number, str(error))

    def _note_silence(self, answer: Answer, number: int) -> None:
        """Say it once; a node that was slow or has left is greeted again, one that cannot answer is not."""
        node, why = answer.node, answer.problem or ""
        if self._silent.get(node) != why:
            self._silent[node] = why
            self.journal("silent", node=str(node), round=number, why=why)
        if not answer.transient:
            self._refused.add(node)

    def _admit(self, client: Client, number: int) -> None:
        there = self.clients.get(client.index)
        if there is not None and there.node is not None:
            raise GgeurError(f"partition-id {client.index} is already held by node {there.node}")
        if there is None and self.closed:
            raise GgeurError("it came after the statistics were merged; it takes part in the next run")
        if there is not None and there.fingerprint != client.fingerprint:
            raise GgeurError("its data are not those with which this run began")
        if self.agreement is not None:
            self.agreement.check(client)
        self.clients[client.index] = client
        self.journal(
            "joined" if there is None else "returned", client=client.index, node=str(client.node), round=number
        )

    def refuse(self, node: int, client: Any, number: int, why: str) -> None:
        """Turn a node away for good: it is named, and neither asked nor counted again."""
        self._refused.add(node)
        self.journal("refused", client=client, node=str(node), round=number, why=why)

    def drop(self, client: Client, number: int, why: str) -> None:
        """Refuse a client that had been admitted."""
        assert client.node is not None
        self.refuse(client.node, client.index, number, why)
        del self.clients[client.index]

    def missing(self, client: int, node: int | None, number: int, why: str) -> None:
        self.journal("missing", client=client, node=None if node is None else str(node), round=number, why=why)

    def ask(self, questions: Iterable[tuple[int, str, dict[str, Any], Arrays]], number: int) -> Iterable[Answer]:
        """Put (node, kind, facts, arrays) to nodes, with what every message says."""

        def made() -> Iterable[Question]:
            for node, kind, facts, arrays in questions:
                self.bytes_down += sum(a.nbytes for a in arrays.values())
                yield Question(node, kind, to_records({**self.common, **facts}, arrays))

        for answer in ask(self.grid, made(), timeout=self.settings.timeout, group=str(number)):
            self.bytes_up += sum(a.nbytes for a in answer.arrays.values())
            yield answer

    def ask_clients(
        self, clients: Iterable[Client], make: Callable[[Client], tuple[str, dict[str, Any], Arrays]], number: int
    ) -> Iterable[tuple[Client, Answer]]:
        """The same for clients that are present; each answer comes with the client that gave it."""
        asked = {client.node: client for client in clients if client.node is not None}
        questions = ((node, *make(client)) for node, client in asked.items() if node is not None)
        for answer in self.ask(questions, number):
            yield asked[answer.node], answer
