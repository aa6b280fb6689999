"""The ClientApp: what a site answers. It sends sums and heads; rows, augmented sets and states stay on its disk."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ggeur.core.errors import GgeurError
from ggeur.deploy.site.data import Reply, Request, Site
from ggeur.deploy.site.opening import augment, hello, statistics
from ggeur.deploy.site.training import evaluate, train
from ggeur.deploy.wire.packing import Arrays
from ggeur.deploy.wire.records import from_records, to_records

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp


def client_app() -> "ClientApp":
    """The app that a SuperNode runs."""
    from flwr.clientapp import ClientApp

    app = ClientApp()
    app.query("hello")(_answering(hello))
    app.query("statistics")(_answering(statistics))
    app.query("augment")(_answering(augment))
    app.train()(_answering(train))
    app.evaluate()(_answering(evaluate))
    return app


def _answering(answer: Callable[[Request, Arrays], Reply]) -> Callable[["Message", "Context"], "Message"]:
    """`answer` as Flower calls it; what is wrong at this site becomes a sentence for the server's log."""

    def reply(message: "Message", context: "Context") -> "Message":
        from flwr.app import Message

        began = time.perf_counter()
        try:
            facts, arrays = from_records(message.content)
            facts, arrays = answer(Request(Site(context.node_config), facts), arrays)
        except GgeurError as error:
            facts, arrays = {"problem": str(error)}, {}
        facts["seconds"] = time.perf_counter() - began
        return Message(to_records(facts, arrays), reply_to=message)

    return reply
