"""The selections of `auto` in a run: a line for every seed, beside its accuracy on test samples."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ggeur.report.entries import ReportEntry

_OTHERS = 3  # candidates that are named beside the selected one


class SeedSelection(NamedTuple):
    """The candidate that one seed selected; accuracies in percent."""

    name: str  # of the method and its setting
    seed: int
    taken: str
    expected: float  # by cross-validation
    test: float | None
    others: Mapping[str, float]  # what the best of the other candidates were expected to reach


def selected(entries: Sequence[ReportEntry]) -> list[SeedSelection]:
    """Return what every seed of `entries` selected by cross-validation; empty where nothing was selected so."""
    return [
        SeedSelection(
            entry.full_name,
            trial.seed,
            trial.taken,
            trial.expected[trial.taken],
            trial.avg,
            dict(
                sorted(((k, v) for k, v in trial.expected.items() if k != trial.taken), key=lambda o: -o[1])[:_OTHERS]
            ),
        )
        for entry in entries
        for trial in entry.row.trials
        if trial.expected
    ]
