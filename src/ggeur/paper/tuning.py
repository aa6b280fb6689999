"""Protocol `tuned`: each row's one or two numbers that matter, chosen on a validation split, for all alike.

Every row of a table, with GGEUR and without, tries what `tuned.toml` has for its method: 20 rounds, one seed, one
column of each part. Left out are a fifth of the samples and, where groups are unseen, a quarter of the groups
([partition] validation). The best score is taken; of equal ones the first, which is the paper's own if it is among
them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ggeur.experiments.grid import Experiment
from ggeur.experiments.partitions import group_name
from ggeur.experiments.result import Result
from ggeur.experiments.setup import Setup
from ggeur.experiments.trial_data import TrialData
from ggeur.paper.paper_tables import PartEmbeddings, Table, TablePart, TableRow
from ggeur.paper.reproduce import prepare_table
from ggeur.paper.reproduction import AbsentRow, Arm, ChosenNumbers, Reproduction
from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import packaged_toml

ROUNDS = 20
UNCHANGED = "unchanged"  # the paper's own numbers, in words
AS_SOUND = "its numbers stay the paper's, so that it is the row of protocol sound"
Numbers = Mapping[str, float]  # as `tuned.toml` has them


class Choosing(NamedTuple):
    """The experiment that is run to choose, and the candidates of each row that has a choice, as arms."""

    experiment: Experiment
    candidates: dict[str, dict[str, Numbers]]  # by the row's arm, by the candidate's
    arms: dict[str, Arm]


def prepare_choice(
    table: Table,
    sources: Mapping[str, PartEmbeddings],
    rows: Sequence[TableRow] | None,
    rounds: int | None = None,
    changes: Sequence[str] = (),
) -> Choosing | None:
    """Return what to run before the `rows` of a `table` are run on its `sources`; None where nothing has a choice.

    A table that is run for fewer than 20 `rounds` is chosen for by as many.
    """
    if table.measure != "accuracy":
        raise GgeurError(
            f"{table.name} measures {table.measure}, for which no number is tuned; use another protocol.",
            code="paper-table-untuned",
        )
    length = min(ROUNDS, rounds or ROUNDS)
    whole, reading = prepare_table(table, sources, rows=rows, seeds=1, rounds=length, protocol="tuned", changes=changes)
    known, parts = packaged_toml("paper", "tuned.toml"), {part.name: part for part in table.parts}
    arms = {arm.arm: arm for arm in reading.arms}
    tried: list[dict[str, Any]] = []
    candidates: dict[str, dict[str, Numbers]] = {}
    for tree in _arms(whole):
        options = known.get(tree["train"]["method"], ())
        if not options or tree["train"].get("head", "linear") != "linear":
            continue
        own = {f"{tree['name']}: {words(tree, n)}": n for n in options}
        candidates[tree["name"]] = own
        tried += [_candidate(tree, name, n, parts[arms[tree["name"]].part]) for name, n in own.items()]
    if not tried:
        return None
    run = {"seeds": [0], "protocol": "tuned"}
    return Choosing(Experiment.of({"method": table.method, "run": run, "arm": tried}), candidates, arms)


def _arms(experiment: Experiment) -> list[dict[str, Any]]:
    tree: Mapping[str, Any] = experiment.tree
    return list(tree["arm"])


def _candidate(tree: Mapping[str, Any], name: str, numbers: Numbers, part: TablePart) -> dict[str, Any]:
    """An arm with these numbers, on one column, trained without what is left out."""
    arm = with_numbers(tree, numbers) | {"name": name}
    arm["partition"] = {**arm["partition"], "validation": True}
    if part.vary is not None:
        section, key = part.vary.split(".")
        arm[section] = {**arm[section], key: part.values[0] if part.tuned_on is None else part.tuned_on}
    return arm


def with_numbers(tree: Mapping[str, Any], numbers: Numbers) -> dict[str, Any]:
    """Return an arm of an experiment with these numbers in place of its own."""
    train, own = dict(tree["train"]), {key: value for key, value in numbers.items() if key != "learning_rate"}
    if "learning_rate" in numbers:
        train["learning_rate"] = float(f"{train['learning_rate'] * numbers['learning_rate']:.6g}")
    return {**tree, "train": train} | ({"method": {train["method"]: own}} if own else {})


def words(tree: Mapping[str, Any], numbers: Numbers) -> str:
    """Return these numbers of an arm, as in "learning rate 0.03, mu 0.1", or "unchanged"."""
    shown = {**numbers} | (
        {"learning_rate": with_numbers(tree, numbers)["train"]["learning_rate"]} if "learning_rate" in numbers else {}
    )
    return ", ".join(f"{key.replace('_', ' ')} {value:g}" for key, value in shown.items()) or UNCHANGED


def choose_hyperparameters(choosing: Choosing, result: Result) -> tuple[dict[str, Numbers], list[ChosenNumbers]]:
    """Return from the `result` of `choosing` the numbers of every arm that had a choice, and what to say of them."""
    trials = {str(trial.settings["arm"]): trial for trial in result.trials}
    points = {str(v["arm"]): p for v, p in zip(choosing.experiment.varied, choosing.experiment.points, strict=True)}
    trial_data, taken, told = TrialData(), {}, []
    for name, options in choosing.candidates.items():
        setup = Setup.of(points[next(iter(options))])
        table, held = trial_data.samples(setup, 0)[0], trial_data.validation(setup, 0)
        scored = np.zeros(held.before.shape, np.bool_)
        scored[table.domains[held.samples], table.y[held.samples]] = True
        names = [group_name(table, d, c) for d, c in np.argwhere(scored)]
        score = np.array(
            [[trials[arm].domains.get(group, 0.0) for group in names] for arm in options]
        )  # none: diverged
        expected = (score @ held.weight(scored)[scored]).round(9)  # equal scores are equal, whatever the order of sums
        which = int(expected.argmax())
        arm, numbers = list(options.items())[which]
        taken[name] = numbers
        of = choosing.arms[name]
        said = arm.removeprefix(f"{name}: ")
        told.append(ChosenNumbers(of.row, of.part, said, float(expected[which]), float(expected[0]), len(options)))
    return taken, told


def prepare_tuned(
    table: Table,
    sources: Mapping[str, PartEmbeddings],
    taken: Mapping[str, Numbers],
    told: Sequence[ChosenNumbers],
    *,
    only_changed: bool = False,
    rows: Sequence[TableRow] | None = None,
    seeds: int = 3,
    rounds: int | None = None,
    changes: Sequence[str] = (),
) -> tuple[Experiment, Reproduction]:
    """`prepare` under protocol `tuned`, with the numbers that were `taken`; the reading keeps what is `told`.

    With `only_changed` a row that keeps the paper's numbers in all parts is not run: under `sound` it is the same.
    """
    rows = table.rows if rows is None else rows
    changed = {of.row for of in told if of.numbers != UNCHANGED} or {rows[0].name}  # a run has a row
    run = [row for row in rows if row.name in changed or row.images or not only_changed]
    asked: Any = {"rows": run, "seeds": seeds, "rounds": rounds, "changes": changes}
    plain, reading = prepare_table(table, sources, protocol="tuned", **asked)
    arms = [with_numbers(tree, taken.get(tree["name"], {})) for tree in _arms(plain)]
    reading.chosen, reading.order = list(told), [row.name for row in rows]
    if len(run) < len(rows):
        reading.notes.append("Only rows whose numbers changed were run, and the best is the best of these alone.")
    for part in table.parts:
        reading.absent += [AbsentRow(r.name, part.name, AS_SOUND, r.published or r.name) for r in rows if r not in run]
    return Experiment.of(plain.tree | {"arm": arms}), reading
