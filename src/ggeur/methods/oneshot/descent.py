"""The way down to where `ggeur_limit`'s bound is least: Newton's steps, with a memory of where they fell short."""

import warnings
from collections import deque
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from ggeur.methods.oneshot.bound import Bound, Curvature
from ggeur.stats.errors import GgeurWarning
from ggeur.stats.types import THREADS, Float, Int

GRADIENT = 1e-7  # length of the gradient at which a minimum is one; at ten times that, b may be wrong by 0.003
ROUGH = 1e-4  # the same for folds of a cross-validation, which only rank
_STEPS, _PAIRS = 1000, 40  # at most; and how many of them are remembered
_ARMIJO, _ROUNDING = 1e-4, 1e-14  # the part of a promised descent that must come, and of a value that is noise
_NO_SHAPE = 1e-10  # variance, of samples whose own is about one, that is rounding and gives no coordinates
_LARGE = 5e7  # multiplications, beyond which a second thread helps more than it costs

Pairs = deque[tuple[Float, Float]]  # moves, and what each changed the gradient by


class Coordinates(NamedTuple):
    """Coordinates in which the mean of several shapes is a sphere, and the shapes in these."""

    size: Float  # (p,)
    axes: Float  # (p, p)
    shapes: list[Float]  # or one, by its diagonal

    @classmethod
    def of(cls, shapes: list[Float]) -> "Coordinates":
        """From every class's shape, or the one of all classes."""
        mean, p = np.mean(shapes, axis=0), len(shapes[0])
        size, axes = np.linalg.eigh(mean if np.trace(mean) > _NO_SHAPE * p else np.eye(p))
        size = np.sqrt(np.maximum(size, 0.01 * size.mean()))
        white = axes / size
        whitened = [white.T @ t @ white for t in shapes]
        return cls(size, axes, whitened if len(shapes) > 1 else [np.diag(whitened[0])])  # its own axes


def minimum(
    m: Float,
    y: Int,
    weight: Float,
    shapes: list[Float],
    decay: float,
    start: Float | None = None,
    length: float = GRADIENT,
    known: Coordinates | None = None,
    scale: float = 1.0,
) -> tuple[Float, Float]:
    """W (C, p) and b (C,), summing to zero, at which the bound over points `m` of classes `y` is least.

    From `start` (C, 1 + p), b and W beside each other, or from the minimum for one shape of all classes, in coordinates
    in which the mean shape is a sphere. It is left where the gradient is no longer than `length`.
    Where the coordinates of these shapes are `known`, they are not found anew; the shapes are times `scale`.
    """
    p, n_classes = m.shape[1], int(y.max()) + 1
    if start is None and len(shapes) > 1:
        mean = np.mean(shapes, axis=0)
        start = np.column_stack(minimum(m, y, weight, [mean], decay, length=length, scale=scale)[::-1])
    size, axes, whitened = Coordinates.of(shapes) if known is None else known
    white = axes / size
    bound = Bound(m @ white, y, weight, [scale * t for t in whitened], decay / size**2)
    v = np.zeros((n_classes, 1 + p)) if start is None else np.column_stack([start[:, 0], start[:, 1:] @ axes * size])
    flat = length / max(size.max(), 1.0)  # which is as flat for W itself
    with threadpool_limits(THREADS if len(shapes) * n_classes * p * p > _LARGE else 1):
        v, rest = _descent(bound, v, flat)
    if rest > flat:
        warnings.warn(
            f"The gradient of `ggeur-limit` is still {rest:.1g} long, not {flat:.1g}; a larger decay helps.",
            GgeurWarning,
            stacklevel=2,
        )
    return v[:, 1:] @ white.T, v[:, 0] - v[:, 0].mean()


def _descent(bound: Bound, v: Float, flat: float) -> tuple[Float, float]:
    """From `v` until the gradient is no longer than `flat`: where that led, and its length.

    Where the curvature is not exact, L-BFGS learns from the steps what it lacks. Where it is, what was learnt further
    up would only lead astray.
    """
    pairs: Pairs = deque(maxlen=_PAIRS if len(bound.shapes) > 1 else 0)
    here = bound(v)
    for _ in range(_STEPS):
        if np.linalg.norm(here.gradient) <= flat:
            break
        down = _down(Curvature(bound, v, here), here.gradient.ravel(), pairs).reshape(v.shape)
        slope, size = float((here.gradient * down).sum()), 1.0
        noise = _ROUNDING * abs(here.value)
        while (there := bound(v + size * down)).value > here.value + _ARMIJO * size * slope + noise:
            size /= 2
        move, change = (size * down).ravel(), (there.gradient - here.gradient).ravel()
        if move @ change > 0:  # as it is but for rounding
            pairs.append((move, change))
        v, here = v + size * down, there
    return v, float(np.linalg.norm(here.gradient))


def _down(curvature: Curvature, gradient: Float, pairs: Pairs) -> Float:
    """L-BFGS's step down a `gradient`, whose Hessian is about the `curvature`, corrected by the `pairs`."""
    left, along = gradient.copy(), []
    for move, change in reversed(pairs):
        along.append(move @ left / (move @ change))
        left -= along[-1] * change
    step = curvature.solved(left)
    for (move, change), a in zip(pairs, reversed(along), strict=True):
        step += (a - change @ step / (move @ change)) * move
    return -step
