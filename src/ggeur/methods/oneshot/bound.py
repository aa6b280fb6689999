"""The bound that `ggeur_limit` minimises: a smooth convex function of b and W, its gradient and near its Hessian."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import logsumexp, softmax

from ggeur.stats.types import Float, Int

_LEAST = 1e-6  # curvature in b
_RESIDUAL, _PRODUCTS = 0.1, 200  # of a gradient, what a step may leave; and how many products it may take


class BoundPoint(NamedTuple):
    """The bound at some b and W."""

    value: float
    gradient: Float  # (C, 1 + p)
    share: Float  # (n, C): every point's weight, as the head there divides it among the classes


class Bound(NamedTuple):
    """The bound as a function of b and W beside each other, (C, 1 + p)."""

    m: Float  # (n, p)
    y: Int
    weight: Float
    shapes: list[Float]  # every class's T_c, or one for all, which may be given by its diagonal
    decay: Float  # (p,) of each coordinate

    def __call__(self, v: Float) -> BoundPoint:
        b, w = v[:, 0], v[:, 1:]
        quadratic, moved = self._quadratic(w)
        z = self.m @ w.T + b + quadratic[self.y]
        at = np.arange(len(z)), self.y
        value = self.weight @ (logsumexp(z, axis=1) - z[at]) + (self.decay * w**2).sum() / 2
        share = self.weight[:, None] * softmax(z, axis=1)  # p_ij
        by_class = self.by_class(share)
        if len(self.shapes) == 1:
            gradient = laplacian(by_class) @ moved[0]
        else:
            gradient = np.zeros_like(w)
            for c, e in enumerate(moved):
                gradient += by_class[c][:, None] * e
                gradient[c] -= by_class[c] @ e
        wrong = share.copy()
        wrong[at] -= self.weight
        gradient += wrong.T @ self.m + self.decay * w
        return BoundPoint(float(value), np.column_stack([wrong.sum(axis=0), gradient]), share)

    def _quadratic(self, w: Float) -> tuple[Float, list[Float]]:
        """(C, C) of 1/2 (w_j - w_c)' T_c (w_j - w_c), c first, and T_c (w_j - w_c), or T w_j where T is one."""
        if len(self.shapes) > 1:
            moved = [(w - w[c]) @ t for c, t in enumerate(self.shapes)]
            return np.stack([((w - w[c]) * e).sum(axis=1) / 2 for c, e in enumerate(moved)]), moved
        shape = self.shapes[0]
        one = w * shape if shape.ndim == 1 else w @ shape
        return _apart(one @ w.T) / 2, [one]

    def by_class(self, share: Float) -> Float:
        """P_cj: the shares of points summed over those of each class."""
        total = np.zeros((share.shape[1], share.shape[1]))
        np.add.at(total, self.y, share)
        return total


class Curvature:
    """The Hessian of a bound at `v`, a `place` that it knows, with one diagonal shape for all: the mean of theirs.

    Of one shape, in coordinates along its axes, it is exact. Of several it is at hand at a C-th of the price.
    """

    def __init__(self, bound: Bound, v: Float, place: BoundPoint) -> None:
        self._bound, self._share, self._like = bound, place.share, v.shape
        self._shape = np.mean([t if t.ndim == 1 else np.diag(t) for t in bound.shapes], axis=0)
        self._moved = v[:, 1:] * self._shape  # T w_j
        self._between = laplacian(bound.by_class(place.share))
        # With the shares fixed there is nothing but this Laplacian and the decay, which both are soon inverted.
        curvature, self._axes = np.linalg.eigh(self._between)
        self._fixed = np.maximum(curvature, 0.0)[:, None] + np.append(_LEAST, bound.decay)

    def times(self, d: Float) -> Float:
        """The change of the gradient along `d`, (C, 1 + p)."""
        bound, dw = self._bound, d[:, 1:]
        dz = bound.m @ dw.T + d[:, 0] + _apart(dw @ self._moved.T)[bound.y]
        mean = (self._share * dz).sum(axis=1) / bound.weight
        share = self._share * (dz - mean[:, None])
        by_share = share.T @ bound.m + laplacian(bound.by_class(share)) @ self._moved
        return np.column_stack([share.sum(axis=0), by_share + self._between @ (dw * self._shape) + bound.decay * dw])

    def solved(self, gradient: Float) -> Float:
        """The step along which the `gradient` would vanish, all flat: by conjugate gradients, as far as it is worth."""

        def operator(f: Callable[[Float], Float]) -> LinearOperator:
            n = gradient.size
            return LinearOperator((n, n), matvec=lambda d: f(d.reshape(self._like)).ravel(), dtype=gradient.dtype)

        about = operator(lambda d: self._axes @ (self._axes.T @ d / self._fixed))
        step, _ = cg(operator(self.times), gradient, rtol=_RESIDUAL, maxiter=_PRODUCTS, M=about)
        return np.asarray(step)


def laplacian(between: Float) -> Float:
    """(C, C), of weights `between` classes, whichever of the two comes first."""
    return np.asarray(np.diag(between.sum(axis=0) + between.sum(axis=1)) - between - between.T)


def _apart(products: Float) -> Float:
    """(a_i - a_j)'(b_i - b_j) of all i and j, given the products a_i'b_j."""
    own = np.diag(products)
    return np.asarray(own[:, None] + own - products - products.T)
