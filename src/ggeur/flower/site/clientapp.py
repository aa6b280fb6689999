"""The ClientApp: answer for a site. It sends statistics and heads; samples, training sets and states stay on disk."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ggeur.flower.site.data import SiteData
from ggeur.flower.site.local_round import score_round, train_round
from ggeur.flower.site.opening import augment_site, hello, statistics, sums, text
from ggeur.flower.site.own_features import features
from ggeur.flower.site.request import Reply, Request
from ggeur.flower.site.scoring import score
from ggeur.flower.site.secure_aggregation import keys, masked, seed
from ggeur.flower.site.store import LostFile
from ggeur.flower.wire.records import VERSION, from_records, to_records
from ggeur.stats.errors import GgeurError

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp


def client_app() -> "ClientApp":
    """Return the app that a SuperNode runs."""
    from flwr.clientapp import ClientApp

    app = ClientApp()
    for answer in (hello, sums, statistics, features, text, augment_site, score, keys, masked, seed):
        app.query(answer.__name__)(_handler(answer))
    app.train()(_handler(train_round))
    app.evaluate()(_handler(score_round))
    return app


def _handler(answer: Callable[[Request], Reply]) -> Callable[["Message", "Context"], "Message"]:
    """Return `answer` as Flower calls it; an error at this site becomes a sentence for the server's log."""

    def reply(message: "Message", context: "Context") -> "Message":
        from flwr.app import Message

        began = time.perf_counter()
        try:
            facts, arrays = from_records(message.content)
            site = SiteData(context.node_config)
            if facts.get("ggeur") == VERSION:
                facts, arrays = answer(Request(site, facts, arrays))
            else:  # its settings may mean something else here: the server learns only the versions
                facts, arrays = {"partition": site.client}, {}
        except LostFile as lost:
            facts, arrays = {"lacks": str(lost).partition("-")[0]}, {}
        except GgeurError as error:
            facts, arrays = {"problem": str(error)}, {}
        facts["seconds"] = time.perf_counter() - began
        return Message(to_records(facts, arrays), reply_to=message)

    return reply
