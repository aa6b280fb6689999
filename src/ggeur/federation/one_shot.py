"""A one-shot classifier of a federation: statistics, the solver they select, and the head it computes from them."""

from dataclasses import replace
from typing import NamedTuple

from ggeur.federation.local_federation import LocalFederation
from ggeur.federation.protocol import Federation
from ggeur.federation.selection import Selected, select
from ggeur.federation.start import one_shot_head
from ggeur.federation.synthetic import SyntheticSamples
from ggeur.heads.head import Params
from ggeur.methods.algorithm import Candidate, ClosedForm, Selection, Task
from ggeur.stats.errors import GgeurError
from ggeur.stats.features import FeatureStatistics
from ggeur.stats.long_jobs import phase
from ggeur.stats.site_statistics import FederationStatistics, StatisticsQuery
from ggeur.stats.threads import single_threaded


class OneShot(NamedTuple):
    """A head, the solver that computed it, and the statistics that it was computed from."""

    params: Params
    solver: Candidate
    statistics: FederationStatistics
    selected: Selected | None = None  # how the solver was selected, if it was


@single_threaded
def one_shot(
    federation: Federation,
    algorithm: ClosedForm | Selection,
    name: str,
    task: Task,
    seed: int,
    selected: Selected | None = None,
) -> OneShot:
    """Return the one-shot classifier of `federation` by the `algorithm` that goes by `name`.

    A Selection is asked which of its candidates to take, unless one is `selected` already, by what is public.
    """
    if isinstance(algorithm, Selection):
        if selected is None:
            statistics = federation.statistics(algorithm.query)
            real = _real_samples(federation, statistics, seed) if algorithm.cv == "samples" else None
            selected = select(algorithm, statistics.apart, task, seed, real=real)
        solver = algorithm.candidates[selected.taken]
    else:
        solver = Candidate(name, {}, algorithm)
    phase("solve")
    statistics = federation.statistics(solver.solved.query)
    if solver.solved.features is not None:
        asked = solver.solved.features(statistics, task)
        total = federation.statistics(StatisticsQuery("pooled", features=asked))
        statistics = replace(statistics, features=FeatureStatistics(asked, total))
    return OneShot(one_shot_head(solver.solved, solver.name, statistics, task, seed), solver, statistics, selected)


def _real_samples(federation: Federation, statistics: FederationStatistics, seed: int) -> SyntheticSamples:
    if isinstance(federation, LocalFederation):
        return federation.samples_of_groups(statistics, seed)
    raise GgeurError(
        '[method.auto] cv = "samples" leaves real samples out, which only a simulation (`ggeur run`) has in one '
        'process: use cv = "statistics".',
        code="auto-samples-absent",
    )
