"""Ask nodes and hear every one of them out: an answer, or the reason why there is none. Nothing is lost silently."""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from ggeur.core.errors import GgeurError
from ggeur.deploy.wire.packing import Arrays
from ggeur.deploy.wire.records import from_records

if TYPE_CHECKING:
    from flwr.app import Message, RecordDict
    from flwr.serverapp import Grid

_LOOK = 0.5  # seconds between two looks for answers; Flower's own send_and_receive looks every three


class Question(NamedTuple):
    node: int
    kind: str  # as in "train" or "query.statistics"
    records: "RecordDict"


class Answer(NamedTuple):
    """What a node said, or `problem`: why it said nothing that can be used."""

    node: int
    facts: dict[str, Any]
    arrays: Arrays
    seconds: float
    problem: str | None = None
    transient: bool = False  # the node was slow or away, and may answer another time


def ask(grid: "Grid", questions: Iterable[Question], *, timeout: float, group: str = "") -> Iterable[Answer]:
    """Send all questions, then yield answers as they come; after `timeout` seconds the rest yield a problem each.

    Questions are sent one by one, so that an iterator that makes large ones need not hold them all.
    """
    from flwr.app import Message

    waiting: dict[str, int] = {}
    began = time.monotonic()
    for q in questions:
        message = Message(q.records, q.node, q.kind, ttl=timeout + 30.0, group_id=group)
        sent = list(grid.push_messages([message]))
        if not sent or not sent[0]:
            yield _without(q.node, "the SuperLink did not take the message; has the node left?", began, transient=True)
        else:
            waiting[sent[0]] = q.node
    while waiting:
        for reply in grid.pull_messages(list(waiting)):
            node = waiting.pop(reply.metadata.reply_to_message_id, None)
            if node is not None:
                yield _read(node, reply, began)
        if waiting and time.monotonic() - began > timeout:
            for node in waiting.values():
                yield _without(node, f"no answer within {timeout:g} seconds", began, transient=True)
            return
        if waiting:
            time.sleep(_LOOK)


def _read(node: int, reply: "Message", began: float) -> Answer:
    if reply.has_error():
        from flwr.common.constant import ErrorCode

        away = (ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE, ErrorCode.NODE_UNAVAILABLE)
        code, reason = reply.error.code, str(reply.error.reason).strip()
        return _without(node, reason or f"error {code}", began, transient=code in away)
    try:
        facts, arrays = from_records(reply.content)
    except GgeurError as error:
        return _without(node, str(error), began)
    if "problem" in facts:  # the site's own sentence
        return _without(node, str(facts["problem"]), began)
    return Answer(node, facts, arrays, time.monotonic() - began)


def _without(node: int, problem: str, began: float, *, transient: bool = False) -> Answer:
    return Answer(node, {}, {}, time.monotonic() - began, problem, transient)
