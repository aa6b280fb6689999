"""Contributions of the clients of a table, or of a run's trial, partitioned as the run did it."""

from dataclasses import replace

from ggeur.data.table import EmbeddingTable
from ggeur.experiments.partitions import client_names, clients_of
from ggeur.experiments.settings import Partition, Settings
from ggeur.experiments.setup import Setup
from ggeur.experiments.trial_data import TrialData, task_of
from ggeur.federation.contributions import Contributions, contributions, sites_of
from ggeur.federation.selection import select
from ggeur.methods.algorithm import ClosedForm, Selection
from ggeur.stats.errors import GgeurError


def contributions_of_table(
    table: EmbeddingTable, partition: Partition, method: ClosedForm | Selection, seed: int, name: str = ""
) -> Contributions:
    """Return those of the clients of a `table` dealt out by `partition` and `seed`; a `method` that chooses does so
    first.

    No test sample is looked at.
    """
    table = table.split(seed)
    clients, task = clients_of(table, partition, seed), replace(task_of(table), draws=(seed,))
    if isinstance(method, Selection):
        method = method.of_task(task)
        taken = method.candidates[select(method, clients.by_domain(method.sends), task, seed).taken]
        name, method = taken.label, taken.solved
    return contributions(sites_of(clients, client_names(table, clients.parts), method, task, seed), method, task, name)


def contributions_of_point(point: Settings, seed: int, name: str) -> Contributions:
    """Return those of a point of a grid, dealt out as its run did; its method must be solved from statistics."""
    setup = Setup.of(point)
    if point.privacy.secure_aggregation:
        raise GgeurError(
            "Under [privacy] secure_aggregation contributions are not computed: a total without one site shows what "
            "it added.",
            code="contributions-secure-aggregation",
        )
    table, _ = TrialData().samples(setup, seed)
    assert isinstance(setup.algorithm, ClosedForm | Selection), f"{name} is trained"
    return contributions_of_table(table, point.partition, setup.algorithm, seed, name)
