"""The result of a run: one record per trial, in `result.json`, and rows that average over seeds."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError

from ggeur.models.card import sentences
from ggeur.stats.custom import one_line
from ggeur.stats.errors import GgeurError, nearest_file
from ggeur.stats.storage import sealed, unsealed
from ggeur.stats.validate import check_is, check_path, check_whole

SCHEMA = 1
_MOST_GUARANTEES = 2  # that a page or a screen states in full


@dataclass
class Trial:
    """One setting with one seed. Accuracies in percent, mean over the last five rounds."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(allow_inf_nan=False)

    method: str
    augment: str
    seed: int
    settings: dict[str, Any]  # what the grid varies
    status: Literal["ok", "diverged", "unavailable"] = "ok"
    domains: dict[str, float] = field(default_factory=dict)
    avg: float | None = None
    std: float | None = None
    rounds: list[float] = field(default_factory=list)  # avg after each round
    seconds: float = 0.0  # the whole trial, with set-up, compilation and scoring
    round_seconds: float | None = None  # mean training and aggregation of a round after the first
    message: str = ""
    missing: dict[int, list[int]] = field(default_factory=dict)  # client -> rounds, on real machines
    same_data: bool = False  # all seeds share their samples: spread is of head, batches and noise
    test_deviation: float | None = None  # of avg, over bootstrap redraws of the test samples
    recall: list[float | None] = field(default_factory=list)
    macro_f1: float | None = None
    local_steps: list[int] = field(default_factory=list)  # per client and round
    bytes_up: int = 0  # per client, whole run; 0 for the bounds, which are no federations
    bytes_down: int = 0
    bytes_first: int | None = None  # the part of both before the first round; None where it is not known
    rounds_to_95: int | None = None
    start_avg: float | None = None  # of the head that training starts from, where it was solved
    taken: str = ""  # the selected solver
    expected: dict[str, float] = field(
        default_factory=dict
    )  # points behind the first in the ranking; before 0.3, percent
    privacy: dict[str, Any] = field(default_factory=dict)  # the guarantee for the samples


class Row(NamedTuple):
    """Trials that differ only by the seed; spread is the sample standard deviation over seeds."""

    settings: dict[str, Any]
    trials: list[Trial]
    domains: dict[str, float]
    avg: float | None
    spread: float | None
    std: float | None


def what_seeds_vary(trials: Sequence[Trial]) -> str:
    """Return a caveat where several seeds of `trials` share the data, else an empty string."""
    if len({trial.seed for trial in trials}) < 2 or not all(trial.same_data for trial in trials):
        return ""
    moves = [trial.test_deviation for trial in trials if trial.test_deviation is not None]
    redrawn = f"; redrawing the test samples would move AVG by ± {max(moves):.2f} (bootstrap)" if moves else ""
    return f"All seeds have the same samples, so spread and intervals cover head, batches and noise only{redrawn}."


def privacy_sentences(trials: Iterable[Trial]) -> list[str]:
    """Return the guarantees of several `trials` in sentences, each once; if there are many, that they differ."""
    each = list({repr(sorted(trial.privacy.items())): trial.privacy for trial in trials if trial.privacy}.values())
    if len(each) > _MOST_GUARANTEES:
        return ["Trials differ in their privacy guarantees; the model.json of each has its own."]
    return list(dict.fromkeys(sentence for made in each for sentence in sentences(made)))


@dataclass
class Result:
    """The trials of a run, in the order of points and seeds.

    Parameters
    ----------
    trials : every trial, in the order of settings and seeds.
    schema : version of the file.

    Attributes
    ----------
    caveat : a sentence about what the intervals do not cover, or nothing.

    >>> trials = [Trial("fedavg", "none", seed, {"train.learning_rate": 0.1}, avg=90.0 + seed) for seed in (0, 1)]
    >>> (row,) = Result(trials).rows()
    >>> row.avg, round(row.spread, 2)
    (90.5, 0.71)
    """

    trials: list[Trial]
    schema: int = SCHEMA

    @property
    def caveat(self) -> str:
        """Return a caveat where the seeds do not vary the data."""
        return what_seeds_vary(self.trials)

    def rows(self) -> list[Row]:
        """Return one row per point of the grid, over its seeds; means leave out unfinished trials."""
        points: dict[str, list[Trial]] = {}
        for trial in self.trials:
            points.setdefault(json.dumps(trial.settings, sort_keys=True), []).append(trial)
        return [_row(trials) for trials in points.values()]

    def to_json(self) -> str:
        """Return the result as JSON that `load` reads back."""
        return sealed({"schema": self.schema, "trials": [asdict(c) for c in self.trials]}).decode()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read `path`: a result.json, or a run folder that holds one."""
        path = check_path("path", path)
        path = path / "result.json" if path.is_dir() else path
        try:
            data = unsealed(path.read_bytes(), {"schema", "trials"})
            if data["schema"] != SCHEMA:
                raise GgeurError(
                    f"{path} has schema {data['schema']}; this version reads {SCHEMA}.", code="result-schema-unknown"
                )
            return cls([read_trial(trial) for trial in data["trials"]])
        except FileNotFoundError as error:
            raise GgeurError(
                f"There is no result at {path}; run the experiment first.{nearest_file(path)}", code="result-missing"
            ) from error
        except UnicodeDecodeError as error:
            raise GgeurError(f"{path} is not a run of ggeur: it is not UTF-8 text.", code="file-not-text") from error
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise GgeurError(f"{path} is not a result of ggeur: {one_line(error)}.", code="file-not-result") from error


@lru_cache(maxsize=1)
def _trial_reader() -> TypeAdapter[Trial]:
    return TypeAdapter(Trial)


def read_trial(data: Any) -> Trial:
    """Return a trial from JSON; raise ValueError where a value is not valid."""
    if not isinstance(data, dict) or not data.keys() <= {f.name for f in fields(Trial)}:
        raise ValueError("a trial must hold the keys of a trial and no others")
    try:
        return _trial_reader().validate_python(data)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def _row(trials: Sequence[Trial]) -> Row:
    done = [c for c in trials if c.status == "ok" and c.avg is not None]
    if not done:
        return Row(trials[0].settings, list(trials), {}, None, None, None)
    avgs = np.array([c.avg for c in done], np.float64)
    stds = [c.std for c in done if c.std is not None]
    return Row(
        trials[0].settings,
        list(trials),
        {name: float(np.mean([c.domains[name] for c in done])) for name in done[0].domains},
        float(avgs.mean()),
        float(avgs.std(ddof=1)) if len(avgs) > 1 else None,
        float(np.mean(stds)) if stds else None,
    )


class Difference(NamedTuple):
    """The mean of a - b over common seeds, its 95 % t-interval, and the number of seeds in which a was above b."""

    mean: float
    low: float
    high: float
    wins: int
    seeds: int

    def __str__(self) -> str:
        return f"{self.mean:+.2f} [{self.low:+.2f}, {self.high:+.2f}], above in {self.wins} of {self.seeds}"


def paired_difference(a: Row, b: Row, *, comparisons: int = 1) -> Difference:
    """Return the difference of AVG between rows `a` and `b`, paired by seed; at least two must be finished in both.

    With several `comparisons`, all intervals hold at once in 95 % of cases (Bonferroni).

    Parameters
    ----------
    a : a row of a `Result`.
    b : the row that is subtracted.
    comparisons : number of intervals that shall hold at once in 95 % of cases (Bonferroni).

    Returns
    -------
    A `Difference`: mean, low and high of the 95 % interval, and in how many seeds `a` is above.

    >>> from ggeur.experiments.result import Trial, Result
    >>> found = [("a", 0, 91), ("a", 1, 93), ("b", 0, 90), ("b", 1, 91)]
    >>> trials = [Trial(method, "none", seed, {"method": method}, avg=avg) for method, seed, avg in found]
    >>> print(paired_difference(*Result(trials).rows()))
    +1.50 [-4.85, +7.85], above in 2 of 2
    """
    from scipy import stats

    for name, row in (("a", a), ("b", b)):
        check_is(name, row, Row, "a row of a result, one of Result.rows()")
    check_whole("comparisons", comparisons)
    of_a, of_b = ({c.seed: c.avg for c in row.trials if c.avg is not None} for row in (a, b))
    seeds = sorted(of_a.keys() & of_b.keys())
    if len(seeds) < 2:
        raise GgeurError(
            "A paired interval needs at least two seeds that finished in both rows.", code="interval-seeds-too-few"
        )
    d = np.array([of_a[s] - of_b[s] for s in seeds])
    half = float(stats.t.ppf(1 - 0.025 / comparisons, len(d) - 1) * d.std(ddof=1) / np.sqrt(len(d)))
    mean = float(d.mean())
    return Difference(mean, mean - half, mean + half, int((d > 0).sum()), len(d))
