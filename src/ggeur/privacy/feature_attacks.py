"""Reconstruction of samples from the statistics of their features: what `kernel` adds to what a server sees.

A group's scatter says in which directions its samples differ, but not how they are turned among these: n samples are
    x_i = mean + R u_i,    U = (u_i) = H Q,    R R' = scatter,  H (n, n - 1) fixed with H' 1 = 0,  Q orthogonal.
The sum of the features of the group, one number for each landmark, tells Q: Gauss-Newton over rotations finds it.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import expm

from ggeur.privacy.attacks import Group
from ggeur.stats.features import FeatureMap, kernel_values
from ggeur.stats.types import Float

_STARTS, _STEPS, _DAMPINGS = 8, 60, 8
_FITS = 1e-12  # squared remainder, over the squared sums, at which a configuration is the samples'
_MOST, _ENOUGH = 20, 1000  # samples of a group that is attacked, and landmarks that are looked at
_ENDS = 1e-9  # share of the remainder that a step must take off


class _Place(NamedTuple):
    """A configuration of samples, in units, their kernel values, and what is left of the sums."""

    u: Float  # (n, r)
    z: Float  # (n, p)
    k: Float  # (n, D)
    rest: Float  # (D,)

    @property
    def error(self) -> float:
        return float(self.rest @ self.rest)


def unturned_rows(group: Group, sums: Float, by: FeatureMap, seed: int = 0) -> Float | None:
    """Return the samples (n, p) of a `group` with per-class scatter, in some order; None where none are found.

    `sums` (p + D,) are those of its features, about zero.
    """
    n, p = group.n, len(group.mean)
    if group.spread is None or group.freedom != n - 1 or len(group.spread.values) != n - 1 or not 2 < n <= _MOST:
        return None
    rng, landmarks = np.random.default_rng(seed), by.landmarks[:_ENOUGH].astype(np.float64)
    told = sums[p : p + _ENOUGH]
    middle = (group.mean - by.units.shift) / by.units.scale
    root = group.spread.vectors * np.sqrt(group.spread.values) / by.units.scale
    flat = np.linalg.qr(np.column_stack([np.ones(n), rng.normal(size=(n, n - 1))]))[0][:, 1:]

    def place(u: Float) -> _Place:
        z = middle + u @ root.T
        k = np.asarray(kernel_values(z, landmarks))
        return _Place(u, z, k, k.sum(axis=0) - told)

    for _ in range(_STARTS):
        here = place(flat @ np.linalg.qr(rng.normal(size=(n - 1, n - 1)))[0])
        damping = 1e-3
        for _ in range(_STEPS):
            jacobian = _jacobian(here, root, landmarks)
            slope, curvature = jacobian.T @ here.rest, jacobian.T @ jacobian
            for _ in range(_DAMPINGS):
                lift = damping * np.diag(np.diag(curvature) + 1e-12)
                angles = np.asarray(-np.linalg.solve(curvature + lift, slope), np.float64)
                there = place(np.asarray(here.u @ _rotation(angles, n - 1)))
                damping = damping / 5 if there.error < here.error else damping * 5
                if there.error < here.error:
                    break
            gained = here.error - there.error
            if gained > 0:
                here = there
            if gained < _ENDS * here.error:
                break
        if here.error < _FITS * float(told @ told):
            return np.asarray(here.z * by.units.scale + by.units.shift)
    return None


def _jacobian(here: _Place, root: Float, landmarks: Float) -> Float:
    """(D, r (r - 1) / 2): how the sums change with each rotation in a plane."""
    p, (a, b) = landmarks.shape[1], np.triu_indices(here.u.shape[1], 1)
    along, of_landmarks = here.z @ root, landmarks @ root
    m = np.einsum("nd,na,nb->dab", here.k, here.u, along, optimize=True)
    m -= (here.k.T @ here.u)[:, :, None] * of_landmarks[:, None, :]
    return np.asarray((m[:, a, b] - m[:, b, a]) * (-2 / p))


def _rotation(angles: Float, r: int) -> Float:
    """(r, r): the rotation by these `angles` in all planes."""
    skew = np.zeros((r, r))
    skew[np.triu_indices(r, 1)] = angles
    return np.asarray(expm(skew - skew.T))
