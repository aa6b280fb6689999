"""Choosing a head over real machines: sites send sums of folds, then say how candidates do on what was left out."""

from collections.abc import Iterable

import numpy as np

from ggeur.core.site_statistics import FederationStatistics
from ggeur.core.types import Bool, Int
from ggeur.deploy.server.agreement import Client
from ggeur.deploy.server.opening import OpenedFederation
from ggeur.deploy.server.roster import Roster
from ggeur.deploy.server.round_zero import packed
from ggeur.deploy.server.secure_aggregation import SecureAggregation, Sum
from ggeur.deploy.wire.ask import Answer, Question
from ggeur.deploy.wire.blocks import rows_blocks
from ggeur.deploy.wire.check import checked_right
from ggeur.deploy.wire.packing import tree_to_arrays
from ggeur.deploy.wire.requested import ALL, RequestedPart, RequestedStatistics
from ggeur.federation.selection_rule import Fold, Heads, folds_of
from ggeur.methods.algorithm import Selection


def requested_folds(chosen: Selection, count: Int, seed: int, *, by_text: bool = False) -> RequestedStatistics:
    """What sites that hold `count` (D, C) samples are asked for: from sums of every class, groups can be dropped later.

    Where a candidate goes `by_text`, classes are left out, too.
    """
    marked = {f.number: f.groups for f in folds_of(count, chosen.folds, seed, by_text=by_text) if f.groups is not None}
    groups = np.zeros((max(marked, default=-1) + 1, *count.shape), np.bool_)
    for number, left in marked.items():
        groups[number] = left
    return RequestedStatistics(chosen.needs, True, chosen.folds, None if chosen.needs == "per-class" else groups)


class SitesFolds:
    """The sites of `roster`, which have sent what is `opened`, without some of their samples; under masks by
    `secure`.
    """

    def __init__(
        self, roster: Roster, opened: OpenedFederation, chosen: Selection, secure: SecureAggregation | None = None
    ) -> None:
        assert opened.sums is not None
        self._secure = secure
        self._roster, self._opened, self._sums, self._chosen = roster, opened, opened.sums, chosen

    def total(self, fold: Fold) -> FederationStatistics:
        """The statistics of all samples but those of `fold`."""
        return FederationStatistics.of(self._sums.by_domain(fold), self._chosen.apart)

    def right(self, each: Iterable[tuple[Fold, Heads]]) -> Int:
        """(folds, heads, D, C): how many samples of every group of each fold each head gets right, over all who
        answer.
        """
        folds, heads = zip(*each, strict=True)
        arrays, shape = tree_to_arrays([[params for _, params in of_fold] for of_fold in heads], "head")
        kinds = [candidate.solved.head for candidate in self._chosen.candidates]
        groups: list[Bool] = [fold.groups for fold in folds if fold.groups is not None]
        if groups:
            arrays["groups"] = np.stack(groups)
        facts = {"folds": self._chosen.folds, "kinds": kinds, "heads": shape}
        question = Question("query.right", facts, arrays | packed(self._opened.units))

        def read(client: Client, answer: Answer) -> Int:
            return checked_right(answer.arrays, self._rows(client, folds), len(kinds))

        agreement = self._opened.agreement
        total = np.zeros((len(folds), len(kinds), len(agreement.domains), len(agreement.classes)), np.int64)
        if self._secure is not None:
            blocks = rows_blocks(total.shape)
            found = self._secure.total(Sum("right answers", "right", blocks, lambda client: question))
            return np.asarray(np.rint(found.arrays["samples"]), np.int64)
        for _, _, right in self._roster.ask(self._roster.present, lambda client: question, read, 0):
            total += right
        return total

    def _rows(self, client: Client, folds: Iterable[Fold]) -> Int:
        """(folds, D, C): the samples that `client` has of each."""
        held, file = self._opened.agreement.groups(client), self._sums.files[client.index]

        def of(fold: Fold) -> Int:
            if fold.groups is not None:
                return np.where(fold.groups, held, 0)
            samples = np.zeros_like(held)
            for domain in file.domains:
                if domain != ALL:
                    samples[domain] = file.samples[RequestedPart(domain, fold.number)]
            return samples

        return np.stack([of(fold) for fold in folds])
