"""Class names as a prior of class means: a class that few sites hold, or none, still has a name.

    m_c <- (n_c m_c + k t'_c) / (n_c + k),    t'_c = M t_c + b

M and b are a ridge fit of class means by text, weighted by counts, towards a mere scale and shift, a t + b. Each t'_c
is fitted without class c: with it, the fit would pass near m_c and say nothing. How far these land from the means of
classes that were left out says what a text is worth: k samples, where the spread of a class is k times their squared
distance. The head is solved as usual from the means so corrected. To its logits a share of zero-shot's may be added,
and those of classes known by their text are lowered, by what does best on classes left out, of which samples are drawn
with the spread that classes have, and costs the others next to nothing there. No sample of anybody is looked at.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from ggeur.heads.head import Params
from ggeur.methods.algorithm import ClosedForm, Task
from ggeur.stats.errors import Unavailable
from ggeur.stats.geometry import shrunk
from ggeur.stats.hyperparameters import AtLeastZero
from ggeur.stats.site_statistics import FederationStatistics, largest
from ggeur.stats.types import Bool, Float, Int

_FOLDS, _TRIED = 20, 8  # parts of the classes that a map is fitted without, and that a head is solved without
_RIDGE = (0.03, 0.3, 3.0, np.inf)  # penalties on M - a I, in mean weighted squares of text
_SHARES = (0.0, 0.1, 0.25, 0.5, 1.0)  # of zero-shot's logits, in units in which they are as large as the head's
_LESS = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0)  # by which logits of classes known by their text are lowered
_DRAWS, _MOST_DRAWS, _ALLOWED = 64, 20_000, 0.0005  # samples drawn of a class, of all, and what the others may lose
_MOST = 1e4  # samples that a text can be worth


def text_prior(
    *,
    head: Literal["ncm", "lda", "ridge"] = "lda",
    prompts: str | None = None,
    samples: AtLeastZero | None = None,
    share: AtLeastZero | None = None,
) -> ClosedForm:
    """`head`: what is solved, with its defaults. `prompts`: which of the table's sets of text; by default the first.

    `samples`: k, how many samples a text counts for. `share`: how much of zero-shot's logits are added. By default both
    are found by leaving classes out.
    """
    from ggeur.methods import resolve_closed_form

    inner = resolve_closed_form(head, {})
    needs = largest([inner.needs, "pooled"])
    assert needs is not None

    def solve(total: FederationStatistics, task: Task) -> Params:
        here = total.present
        if here.sum() < 3:
            raise Unavailable(
                "text-prior needs samples of three classes or more, to estimate what a text is worth.",
                code="classes-too-few",
            )
        t = task.text_of(prompts, "text-prior").astype(np.float64)
        t = t / np.maximum(np.linalg.norm(t, axis=1, keepdims=True), 1e-12)
        sigma = total.within
        mapped = mapped_text(t, total.mean, total.count)
        k = worth(mapped - total.mean, total.count, sigma) if samples is None else samples

        def solved(count: Float) -> Params:
            """The head of these counts: those of a class that is left out are zero."""
            return inner.solve(mended(total, count, mapped, k, sigma), task)

        zero_shot = 100 * t / np.sqrt(max(_mean_square(total), 1e-12))
        chosen = best_terms(total, solved, zero_shot, sigma, k, _SHARES if share is None else (share,))
        return with_terms(solved(total.count), zero_shot, sigma, total.count < k, chosen)

    return ClosedForm(needs, solve, by_text=True)


def mapped_text(t: Float, m: Float, n: Float) -> Float:
    """(C, p): t'_c of every class, fitted to the means `m` (C, p) of other classes, which have `n` samples."""
    here = n > 0
    found = {ridge: np.empty_like(m) for ridge in _RIDGE}
    for left in _parts(here, _FOLDS):
        kept = here & ~left
        for ridge, mapped in found.items():
            mapped[left] = _fit(t[kept], m[kept], n[kept], ridge)(t[left])
    error = {ridge: float(n[here] @ ((mapped - m)[here] ** 2).sum(axis=1)) for ridge, mapped in found.items()}
    best = min(_RIDGE, key=error.__getitem__)
    found[best][~here] = _fit(t[here], m[here], n[here], best)(t[~here])
    return found[best]


def _fit(t: Float, m: Float, n: Float, ridge: float) -> Callable[[Float], Float]:
    """t -> M t + b, least in sum_c n_c |m_c - M t_c - b|^2 + ridge |M - a I|^2, where a t + b fits best."""
    w = n / n.sum()
    t_mean, m_mean = w @ t, w @ m
    dt, dm = t - t_mean, m - m_mean
    size = float(w @ (dt**2).sum(axis=1))
    a = float(w @ (dt * dm).sum(axis=1)) / max(size, 1e-12)
    rest = np.zeros((len(t), m.shape[1]))
    if np.isfinite(ridge) and size > 1e-12:  # solved between classes, which are fewer than dimensions
        rest = np.linalg.solve(dt @ dt.T + ridge * size * np.diag(1 / np.maximum(w, 1e-12)), dm - a * dt)
    return lambda new: m_mean + a * (new - t_mean) + (new - t_mean) @ dt.T @ rest


def worth(away: Float, n: Float, sigma: Float) -> float:
    """Return k, the number of samples a text is worth `away` (C, p) from the mean of `n` samples of spread `sigma`.

    In units of the spread a mean of n samples is p / n from its class, squared; k is p over what is left of the
    distance.
    """
    here, p = n > 0, len(sigma)
    spread = shrunk(sigma, 0.1) + 1e-9 * np.eye(p) * max(np.trace(sigma) / p, 1e-12)
    square = np.einsum("cp,cp->c", away[here], np.linalg.solve(spread, away[here].T).T)
    w = n[here] / (n[here] + n[here].mean())
    left = float(w @ (square - p / n[here]) / w.sum())
    return float(min(p / max(left, p / _MOST), _MOST))


def mended(total: FederationStatistics, count: Float, mapped: Float, k: float, sigma: Float) -> FederationStatistics:
    """Return the statistics of classes with the means so corrected, and `sigma` for the spread of all of them.

    A class for which the text counts more than its samples is as large as others are on average, as nobody knows.
    """
    mean = (count[:, None] * total.mean + k * mapped) / (count + k)[:, None] if k else total.mean
    usual = float(count[count > 0].mean())
    n = np.where(count < k, np.maximum(count, usual), count)
    about = mean - total.center
    second = n.sum() * sigma + (n[:, None] * about).T @ about
    return FederationStatistics(n, n[:, None] * about, second[None], total.center)


class Terms(NamedTuple):
    """The terms that are added to a head's logits, in units of how much they vary within a class."""

    share: float  # of zero-shot's
    less: float  # for classes that are known by their text


def best_terms(
    total: FederationStatistics,
    solved: Callable[[Float], Params],
    zero_shot: Float,
    sigma: Float,
    k: float,
    shares: Sequence[float],
) -> Terms:
    """Return the terms that do best on classes left out and on the others, among those that cost the others little.

    As many are left out at once as there are that the text must speak for, a half at most.
    """
    here, rng = total.present, np.random.default_rng(0)
    size, axes = np.linalg.eigh(sigma)
    y = np.repeat(np.flatnonzero(here), max(min(_DRAWS, _MOST_DRAWS // int(here.sum())), 1))
    noise = rng.normal(size=(len(y), len(sigma))) * np.sqrt(np.maximum(size, 0.0)) @ axes.T
    x = total.mean[y] + noise * np.sqrt(1 + 1 / total.count[y])[:, None]  # of samples that a mean has not seen
    parts = int(np.clip(here.sum() // max((total.count < k).sum(), 1), 2, _TRIED))
    tried = [Terms(share, less) for less in _LESS for share in shares]
    likeness = x @ zero_shot.T
    right = np.zeros((len(tried), 2))  # of classes left out, and what the others lose
    for left in _parts(here, parts):
        count = np.where(left, 0.0, total.count)
        params, unseen = solved(count), left[y]
        logits = x @ params["W"].T.astype(np.float64) + params["b"]
        share, less = _units(params, zero_shot, sigma)
        alone = np.where(left, -np.inf, logits[~unseen]).argmax(axis=1) == y[~unseen]
        for i, terms in enumerate(tried):
            found = logits + terms.share * share * likeness - terms.less * less * (count < k)
            hit = found.argmax(axis=1) == y
            right[i] += hit[unseen].mean() / parts, (hit[~unseen].mean() - alone.mean()) / parts
    cheap = right[:, 1] >= -_ALLOWED
    return tried[int(np.where(cheap, right.sum(axis=1), right[:, 1] - 2).argmax())]


def with_terms(params: Params, zero_shot: Float, sigma: Float, few: Bool, terms: Terms) -> Params:
    """The linear head with these `terms`, the second for the classes that `few` (C,) marks."""
    share, less = _units(params, zero_shot, sigma)
    w = params["W"] + terms.share * share * zero_shot
    return {"W": w.astype(np.float32), "b": np.asarray(params["b"], np.float64) - terms.less * less * few}


def _units(params: Params, zero_shot: Float, sigma: Float) -> tuple[float, float]:
    """Return the units of share and lowering: how much logits vary in a class, the head's over zero-shot's."""
    own, other = (w - w.mean(axis=0) for w in (params["W"].astype(np.float64), zero_shot))
    ours, theirs = (float(np.sqrt(max((w @ sigma * w).sum(), 0.0) / len(w))) for w in (own, other))
    return ours / max(theirs, 1e-30), ours


def _mean_square(total: FederationStatistics) -> float:
    """Return the mean square of the samples' lengths."""
    n = total.count.sum()
    about = total.about(np.zeros(total.dimension))
    return float(np.trace(about.second.sum(axis=0)) / n)


def _parts(here: Bool, most: int) -> Iterator[Bool]:
    """Yield marks (C,) of the classes that are left out together: each once, in at `most` so many parts."""
    classes: Int = np.flatnonzero(here)
    parts = min(most, len(classes))
    for part in range(parts):
        left = np.zeros(len(here), bool)
        left[classes[part::parts]] = True
        yield left
