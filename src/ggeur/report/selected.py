"""The selections of `auto` in a run: a line for every seed, beside its accuracy on test samples."""

from collections.abc import Sequence
from typing import NamedTuple

from ggeur.report.entries import ReportEntry

_OTHERS = 3  # candidates that are named beside the selected one


class SeedSelection(NamedTuple):
    """The candidate that one seed selected; its accuracy in percent."""

    name: str  # of the method and its setting
    seed: int
    taken: str
    test: float | None
    others: tuple[str, ...]  # the best of the other candidates, by their ranking


def selected(entries: Sequence[ReportEntry]) -> list[SeedSelection]:
    """Return what every seed of `entries` selected from statistics; empty where nothing was selected so."""
    return [
        SeedSelection(
            entry.full_name,
            trial.seed,
            trial.taken,
            trial.avg,
            tuple(sorted((k for k in trial.expected if k != trial.taken), key=lambda k: -trial.expected[k])[:_OTHERS]),
        )
        for entry in entries
        for trial in entry.row.trials
        if trial.expected
    ]
