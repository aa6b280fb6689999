"""Sampling: ours against the released recipe, which factors for every sample, and against factoring once."""

import numpy as np
from benchmarks.federation import Data, Shape, data_of, sample
from benchmarks.timing import Line, best, in_turn

from ggeur.stats.augment import augment
from ggeur.stats.augmented_sets import DrawRule, plan_draws

RECIPE_CALLS = 12
SOME = 10  # clients of 100 that are materialised; their time counts tenfold


def released_recipe(mean: np.ndarray, sigma: np.ndarray, draws: int) -> np.ndarray:
    """What the released scripts do for every original: clip, jitter until Cholesky succeeds, and draw."""
    values, vectors = np.linalg.eigh(sigma)
    fixed = (vectors * np.clip(values, 0, None)) @ vectors.T
    jitter = 1e-6
    while True:
        try:
            root = np.linalg.cholesky(fixed + jitter * np.eye(len(mean)))
            break
        except np.linalg.LinAlgError:
            jitter *= 10
    return np.random.default_rng(0).multivariate_normal(mean, root @ root.T, draws)


def materialise(shape: Shape, data: Data, clients: int) -> None:
    """The fairest form that makes arrays: each class factored once for all clients, float32, nothing checked."""
    x, y, parts, geometry = data
    factors = [geometry.factor(c, "sqrt-eigenvalue").astype(np.float32) for c in range(shape.classes)]
    for k, own in enumerate(parts[:clients]):
        rng = np.random.default_rng(k)
        draws = plan_draws(y[own], shape.classes, DrawRule(shape.target))
        noise = np.concatenate(
            [
                rng.standard_normal((n, shape.dim), np.float32) @ factors[c]
                for c, n in enumerate(np.bincount(draws.label))
            ]
        )
        np.concatenate([x[own], x[own][draws.sample] + noise])


def main() -> list[Line]:
    shape, many = Shape(), Shape(clients=100)
    data, more = data_of(shape), data_of(many)
    g = data.geometry
    sigma = (g.eigenvectors[0] * g.eigenvalues[0]) @ g.eigenvectors[0].T
    times = in_turn(
        {
            "ours": lambda: sample(shape, data),
            "augment": lambda: [
                augment(data.x[p], data.y[p], g, target=shape.target, seed=k) for k, p in enumerate(data.parts)
            ],
            "arrays": lambda: materialise(shape, data, shape.clients),
            "ours, 100": lambda: sample(many, more),
            "arrays, 100": lambda: materialise(many, more, SOME),
        },
        repetitions=2,
    )
    # 20 originals of a class to 1980 new samples: 99 each, which the scripts draw as 100
    recipe = best(lambda: [released_recipe(data.x[i], sigma, 100) for i in range(RECIPE_CALLS)], 2)
    originals = len(data.y)
    return [
        Line(
            "sampling: the released recipe",
            f"{shape}; {RECIPE_CALLS} of {originals} calls measured",
            times["ours"],
            recipe / RECIPE_CALLS * originals,
        ),
        Line("sampling: our own `augment`, which makes arrays", str(shape), times["ours"], times["augment"]),
        Line("sampling: factor once, arrays", str(shape), times["ours"], times["arrays"]),
        Line(
            "sampling: factor once, arrays",
            f"{many}; {SOME} of 100 clients measured",
            times["ours, 100"],
            times["arrays, 100"] * many.clients / SOME,
        ),
    ]
