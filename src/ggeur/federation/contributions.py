"""Contribution of a site: how much accuracy is lost where it is left out; and `contributions.json`, which keeps it.

Statistics add up, so the head without a site is solved exactly as if that site had never taken part. One fold of every
group is left out of all statistics, and heads are scored on these validation samples, site by site. Figures are percent
or points, with the standard error of a mean over samples: binomial of an accuracy, paired where heads are compared, and
never below one sample.
"""

import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, TypeAdapter, ValidationError

from ggeur.federation.folds import sample_folds
from ggeur.federation.local_federation import LocalFederation
from ggeur.federation.one_shot import one_shot
from ggeur.federation.stored_statistics import StoredFederation, StoredStatistics, stored_statistics
from ggeur.heads import resolve as resolve_head
from ggeur.heads.head import double_logits
from ggeur.methods.algorithm import ClosedForm, Task
from ggeur.stats.errors import GgeurError
from ggeur.stats.site_statistics import largest
from ggeur.stats.storage import sealed, unsealed, write_bytes
from ggeur.stats.types import Float, Int

FOLDS = 4  # one of them is left out
FILE = "contributions.json"
_SCHEMA = 1


class SiteSamples(NamedTuple):
    """The statistics that a site sends of all samples but some, and those."""

    sent: StoredStatistics
    x: NDArray[Any]  # (m, p) validation samples
    y: Int


class Estimate(NamedTuple):
    """Percent, or points, and their standard error."""

    value: float
    error: float


class Contribution(NamedTuple):
    """A site's accuracy and contribution; None where there is no validation sample to measure them by."""

    site: str
    samples: int  # for validation
    accuracy: Estimate | None  # at this site, of the head of all sites
    to_itself: Estimate | None  # points that it gains here by taking part
    to_others: Estimate | None  # points that the other sites gain by it, on average


class Contributions(NamedTuple):
    """The contribution of every site to the head of all sites."""

    head: str
    sites: tuple[Contribution, ...]


OnHead = Callable[[int, int], None]  # called with the heads that are solved, and how many there will be


def contributions(
    sites: Sequence[SiteSamples],
    solved: ClosedForm,
    task: Task,
    name: str = "",
    on_head: OnHead = lambda done, total: None,
) -> Contributions:
    """Solve the head of all `sites` and the head without each of them, and compare these at every site.

    `name` is what people call the solver; `on_head` is called after every head.
    """
    if not any(len(site.y) for site in sites) or not any(site.sent.samples for site in sites):
        raise GgeurError(
            "No site has enough samples to leave some out, so contributions cannot be estimated.",
            code="contributions-samples-too-few",
        )
    head, n = resolve_head(solved.head), len(sites)

    def correct(members: Sequence[int]) -> list[Float]:
        """1 for every validation sample of each site that the head of `members` gets right."""
        sent = [sites[i].sent for i in members if sites[i].sent.samples]
        if not sent:  # nobody is left: a guess among the classes
            return [np.full(len(site.y), 1 / len(task.class_names)) for site in sites]
        params = one_shot(StoredFederation(sent, task.class_names), solved, name, task, 0).params
        found = []
        for site in sites:
            logits = double_logits(head, params, site.x)
            if logits is None:
                import jax.numpy as jnp

                logits = np.asarray(head.logits(params, jnp.asarray(site.x, jnp.float32)))
            found.append((logits.argmax(axis=1) == site.y).astype(np.float64))
        return found

    whole, samples = correct(range(n)), []
    on_head(1, n + 1)
    for i, site in enumerate(sites):
        without = correct([j for j in range(n) if j != i]) if site.sent.samples else whole
        added = [_estimate(a - b) for a, b in zip(whole, without, strict=True)]
        samples.append(
            Contribution(site.sent.name, len(site.y), _estimate(whole[i]), added[i], _mean(added[:i] + added[i + 1 :]))
        )
        on_head(i + 2, n + 1)
    return Contributions(name, tuple(samples))


def sites_of(
    clients: LocalFederation, names: Sequence[str], solved: ClosedForm, task: Task, seed: int
) -> list[SiteSamples]:
    """The `clients` of a table as sites: of the samples of every class and domain at each, one fold is left out."""
    query, found = solved.query, []
    kind = largest([query.covariance, query.apart and query.apart.kind]) or query.covariance
    domain_names = [f"{d:06d}" for d in range(int(clients.domains.max()) + 1)]
    for k, (name, samples) in enumerate(zip(names, clients.parts, strict=True)):
        out = sample_folds(clients.y[samples], clients.domains[samples], FOLDS, seed, k) == 0
        kept, left = samples[~out], samples[out]
        x, y, domains = clients.x[kept], clients.y[kept], clients.domains[kept]
        sent = stored_statistics(name, x, y, task.class_names, domains, domain_names, kind)
        found.append(SiteSamples(sent, clients.x[left], clients.y[left]))
    return found


def _estimate(values: Float) -> Estimate | None:
    """The mean of `values`, one a sample, in percent. Where all agree, one more could have been different."""
    if not len(values):
        return None
    return Estimate(100 * float(values.mean()), 100 * max(float(values.std()) / len(values) ** 0.5, 1 / len(values)))


def _mean(each: Sequence[Estimate | None]) -> Estimate | None:
    """The mean of independent estimates."""
    there = [e for e in each if e is not None]
    if not there:
        return None
    return Estimate(sum(e.value for e in there) / len(there), sum(e.error**2 for e in there) ** 0.5 / len(there))


# ---------------------------------------------------------------- the file


def save_contributions(found: Contributions, folder: str | os.PathLike[str]) -> Path:
    """Write `contributions.json` with a checksum into a `folder`, whole or not at all; return its path."""
    path = Path(folder) / FILE
    write_bytes(path, sealed({"schema": _SCHEMA, **found._asdict()}))
    return path


def load_contributions(folder: str | os.PathLike[str]) -> Contributions | None:
    """Read `contributions.json` of a `folder`, every value checked; None where there is none."""
    path = Path(folder) / FILE
    try:
        tree = unsealed(path.read_bytes(), {"schema", *Contributions._fields})
        if tree.pop("schema", None) != _SCHEMA:
            raise ValueError(f"this version reads schema {_SCHEMA}")
        return _reader().validate_python(tree)
    except FileNotFoundError:
        return None
    except ValidationError as error:
        first = error.errors()[0]
        raise GgeurError(
            f"{path} is damaged: {'.'.join(map(str, first['loc']))}: {first['msg']}.", code="file-damaged"
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise GgeurError(f"{path} is damaged: {error}.", code="file-damaged") from error


@lru_cache(maxsize=1)
def _reader() -> TypeAdapter[Contributions]:
    return TypeAdapter(Contributions, config=ConfigDict(allow_inf_nan=False))
