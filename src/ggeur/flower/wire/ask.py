"""Ask nodes, and return for each an answer or the reason why there is none. Nothing is lost silently."""

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ggeur.flower.wire.packing import Arrays
from ggeur.flower.wire.records import from_records, to_records
from ggeur.stats.errors import GgeurError

if TYPE_CHECKING:
    from flwr.app import Message

_LOOK = 0.5  # seconds between two looks for answers; Flower's own send_and_receive looks every three


class Grid(Protocol):
    """The part of Flower's Grid that is used."""

    def get_node_ids(self) -> Iterable[int]: ...
    def push_messages(self, messages: Iterable["Message"]) -> Iterable[str]: ...
    def pull_messages(self, message_ids: Iterable[str]) -> Iterable["Message"]: ...


class Question(NamedTuple):
    """A question to a node."""

    kind: str  # as in "train" or "query.statistics"
    facts: Mapping[str, Any]
    arrays: Arrays


class Answer(NamedTuple):
    """A node's answer, or in `problem` the reason why there is none that can be used."""

    node: int
    facts: dict[str, Any]
    arrays: Arrays
    seconds: float  # between the first question and this answer
    problem: str | None = None
    transient: bool = False  # the node was slow or absent, and may answer another time


def ask(grid: Grid, questions: Iterable[tuple[int, Question]], *, timeout: float, group: str = "") -> Iterable[Answer]:
    """Send all `questions`, each to its node, over Flower's `grid`, then yield answers as they come.

    After `timeout` seconds the rest yield a problem each. Questions are sent one by one, so that an iterator of large
    ones need not hold them all; `group` is their name in Flower's log, the round's number.
    """
    from flwr.app import Message

    waiting: dict[str, int] = {}
    began = time.monotonic()
    for node, q in questions:
        message = Message(to_records(q.facts, q.arrays), node, q.kind, ttl=timeout + 30.0, group_id=group)
        sent = list(grid.push_messages([message]))
        if not sent or not sent[0]:
            yield _no_answer(node, "the SuperLink did not take the message; has the node left?", transient=True)
        else:
            waiting[sent[0]] = node
    while waiting:
        for reply in grid.pull_messages(list(waiting)):
            asked = waiting.pop(reply.metadata.reply_to_message_id, None)
            if asked is not None:
                yield _read(asked, reply, began)
        if waiting and time.monotonic() - began > timeout:
            for node in waiting.values():
                yield _no_answer(node, f"no answer within {timeout:g} seconds", transient=True)
            return
        if waiting:
            time.sleep(_LOOK)


def _read(node: int, reply: "Message", began: float) -> Answer:
    if reply.has_error():
        from flwr.common.constant import ErrorCode

        away = (ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE, ErrorCode.NODE_UNAVAILABLE)
        code, reason = reply.error.code, str(reply.error.reason).strip()
        return _no_answer(node, reason or f"error {code}", transient=code in away)
    try:
        facts, arrays = from_records(reply.content)
    except GgeurError as error:
        return _no_answer(node, str(error))
    if "problem" in facts:  # the site's own sentence
        return _no_answer(node, str(facts["problem"]))
    return Answer(node, facts, arrays, time.monotonic() - began)


def _no_answer(node: int, problem: str, *, transient: bool = False) -> Answer:
    return Answer(node, {}, {}, 0.0, problem, transient)
