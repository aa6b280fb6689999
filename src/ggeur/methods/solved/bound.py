"""Where `limit`'s bound is least: a smooth convex function of b and W, its gradient, and the way down."""

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import OptimizeResult, minimize
from scipy.special import logsumexp, softmax
from threadpoolctl import threadpool_limits

from ggeur.core.errors import GgeurWarning
from ggeur.core.threads import THREADS
from ggeur.core.types import Float, Int

GRADIENT = 9e-7  # length of the gradient at which a minimum is one; SciPy's own rule leaves W wrong by a tenth
_FIRST, _STEPS, _TRIES = 20, 100, 40  # of L-BFGS, between looks at the curvature
_LEAST = 1e-6  # curvature in b
_NO_SHAPE = 1e-10  # variance, of rows whose own is about one, that is rounding and gives no coordinates
_LARGE = 5e7  # multiplications, beyond which a second thread helps more than it costs


def minimum(
    m: Float, y: Int, weight: Float, shapes: list[Float], decay: float, start: Float | None = None
) -> tuple[Float, Float]:
    """W (C, p) and b (C,), summing to zero, at which the bound over points `m` of classes `y` is least.

    L-BFGS from `start` (C, 1 + p), b and W beside each other, or from the minimum for one shape of all classes. It
    works in coordinates in which the mean shape is a sphere, stretched, after every few steps, by the curvature there
    is: with the classes' shares fixed, that is a Laplacian between classes plus the decay.
    """
    p, n_classes = m.shape[1], int(y.max()) + 1
    mean = np.mean(shapes, axis=0)
    if start is None and len(shapes) > 1:
        start = np.column_stack(minimum(m, y, weight, [mean], decay)[::-1])
    size, axes = np.linalg.eigh(mean if np.trace(mean) > _NO_SHAPE * p else np.eye(p))
    size = np.sqrt(np.maximum(size, 0.01 * size.mean()))
    white = axes / size
    whitened = [white.T @ t @ white for t in shapes]
    whitened = whitened if len(shapes) > 1 else [np.diag(whitened[0])]  # of one shape, white are its own axes
    bound = Bound(m @ white, y, weight, whitened, decay / size**2)
    v = np.zeros((n_classes, 1 + p)) if start is None else np.column_stack([start[:, 0], start[:, 1:] @ axes * size])
    flat = GRADIENT / max(size.max(), 1.0)  # which is as flat for W itself
    with threadpool_limits(THREADS if len(shapes) * n_classes * p * p > _LARGE else 1):
        for steps in (_FIRST, *[_STEPS] * _TRIES):
            v, length = _descent(bound, v, steps, flat)
            if length <= flat:
                break
        else:
            warnings.warn(
                f"The gradient of `limit` is still {length:.1g} long, not {flat:.1g}; a larger decay helps.",
                GgeurWarning,
                stacklevel=2,
            )
    return v[:, 1:] @ white.T, v[:, 0] - v[:, 0].mean()


def _descent(bound: "Bound", v: Float, steps: int, flat: float) -> tuple[Float, float]:
    """So many `steps` from `v`, or until the gradient is no longer than `flat`; where that led, and its length."""
    curvature, between = np.linalg.eigh(bound.laplacian(v))
    stretch = np.sqrt(np.maximum(curvature, 0.0)[:, None] + np.append(_LEAST, bound.decay))
    length = np.inf

    def stretched(u: Float) -> tuple[float, Float]:
        nonlocal length
        value, gradient = bound(between @ (u.reshape(v.shape) / stretch))
        length = float(np.linalg.norm(gradient))
        return value, (between.T @ gradient / stretch).ravel()

    def enough(intermediate_result: OptimizeResult) -> None:
        if length <= flat:
            raise StopIteration

    options: Any = {"maxiter": steps, "maxfun": 4 * steps, "maxcor": 20, "ftol": 0.0, "gtol": 0.0}
    u = (between.T @ v * stretch).ravel()
    found = minimize(stretched, u, jac=True, method="L-BFGS-B", callback=enough, options=options)
    v = between @ (found.x.reshape(v.shape) / stretch)
    return v, float(np.linalg.norm(bound(v)[1]))


class Bound(NamedTuple):
    """The bound and its gradient, as functions of b and W beside each other, (C, 1 + p)."""

    m: Float  # (n, p)
    y: Int
    weight: Float
    shapes: list[Float]  # every class's T_c, or one for all, which may be given by its diagonal
    decay: Float  # (p,) of each coordinate

    def __call__(self, v: Float) -> tuple[float, Float]:
        b, w = v[:, 0], v[:, 1:]
        quadratic, moved = self._quadratic(w)
        z = self.m @ w.T + b + quadratic[self.y]
        at = np.arange(len(z)), self.y
        value = self.weight @ (logsumexp(z, axis=1) - z[at])
        share = self.weight[:, None] * softmax(z, axis=1)  # p_ij
        by_class = self._by_class(share)
        if len(self.shapes) == 1:
            gradient = _laplacian(by_class) @ moved[0]
        else:
            gradient = np.zeros_like(w)
            for c, e in enumerate(moved):
                gradient += by_class[c][:, None] * e
                gradient[c] -= by_class[c] @ e
        share[at] -= self.weight
        gradient += share.T @ self.m + self.decay * w
        return float(value + (self.decay * w**2).sum() / 2), np.column_stack([share.sum(axis=0), gradient])

    def laplacian(self, v: Float) -> Float:
        """(C, C): the curvature between classes that one shape of all would have here."""
        z = self.m @ v[:, 1:].T + v[:, 0] + self._quadratic(v[:, 1:])[0][self.y]
        return _laplacian(self._by_class(self.weight[:, None] * softmax(z, axis=1)))

    def _quadratic(self, w: Float) -> tuple[Float, list[Float]]:
        """(C, C) of 1/2 (w_j - w_c)' T_c (w_j - w_c), c first, and T_c (w_j - w_c), or T w_j where T is one."""
        if len(self.shapes) > 1:
            moved = [(w - w[c]) @ t for c, t in enumerate(self.shapes)]
            return np.stack([((w - w[c]) * e).sum(axis=1) / 2 for c, e in enumerate(moved)]), moved
        shape = self.shapes[0]
        one = w * shape if shape.ndim == 1 else w @ shape
        gram = one @ w.T
        return (np.diag(gram)[:, None] + np.diag(gram) - 2 * gram) / 2, [one]

    def _by_class(self, share: Float) -> Float:
        """P_cj: the shares of points summed over those of each class."""
        total = np.zeros((share.shape[1], share.shape[1]))
        np.add.at(total, self.y, share)
        return total


def _laplacian(between: Float) -> Float:
    return np.asarray(np.diag(between.sum(axis=0) + between.sum(axis=1)) - between - between.T)
