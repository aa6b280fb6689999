"""Sites' statistics of features at the server: asked of those whose statistics it has, checked, kept and added up."""

from collections.abc import Collection
from pathlib import Path

import numpy as np

from ggeur.flower.server.agreement import Agreement, Client
from ggeur.flower.server.received import file_name
from ggeur.flower.server.roster import Roster
from ggeur.flower.wire.ask import Answer
from ggeur.flower.wire.feature_messages import checked_features, feature_question, pack_features
from ggeur.flower.wire.packing import MESSAGE, Arrays
from ggeur.stats.errors import GgeurError
from ggeur.stats.features import FeatureQuery
from ggeur.stats.site_statistics import FederationStatistics, SiteStatistics
from ggeur.stats.storage import read_arrays, write_atomically


class SiteGone(Exception):
    """A site that had sent its statistics did not send those of features; the others begin again without it."""


def collect_features(
    roster: Roster, agreement: Agreement, asked: FeatureQuery, folder: Path, senders: Collection[int], units: Arrays
) -> FederationStatistics:
    """Return the total of what the `senders` answer; who has answered the same before is not asked again.

    Their samples are first taken in `units`, if any. Raise SiteGone where one is missing, which is then left out.
    """
    question = feature_question(asked, units)
    known = [client for client in roster.known if client.index in senders]
    paths = {c.index: folder / f"{c.index}-features-{file_name(question, agreement, [c])}" for c in known}

    def checked(client: Client, arrays: Arrays) -> SiteStatistics:
        return checked_features(arrays, asked, agreement.groups(client))

    def read(client: Client, answer: Answer) -> SiteStatistics:
        return checked(client, answer.arrays)

    def stored(client: Client) -> SiteStatistics:
        return checked(client, read_arrays(paths[client.index], MESSAGE))

    held = set[int]()
    for client in known:
        try:
            stored(client)
        except GgeurError:  # not there, or damaged
            continue
        held.add(client.index)
    waiting = [client for client in known if client.index not in held and client.node is not None]
    for client, answer, message in roster.ask(waiting, lambda client: question, read, 0):
        with write_atomically(paths[client.index]) as file:
            np.savez(file, allow_pickle=False, **pack_features(message, asked))
        held.add(client.index)
        roster.journal("features", client=client.index, seconds=round(answer.seconds, 2))
    for client in roster.known:
        if client.index in senders and client.index not in held:
            roster.leave_out(client, 0, "it left before it sent its statistics of features")
    if held != set(senders):
        raise SiteGone
    return FederationStatistics.of((0, stored(client)) for client in known)
