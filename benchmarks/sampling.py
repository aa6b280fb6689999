"""Sampling: ours against the released recipe, which factors for every sample, and against factoring once."""

import numpy as np
from benchmarks.federation import Shape, embeddings, geometry, sample
from benchmarks.timing import Line, best

from ggeur.core.augment import augment, plan_draws
from ggeur.core.virtual import BANK_BYTES

RECIPE_CALLS = 12


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


def main() -> list[Line]:
    shape = Shape()
    g = geometry(shape)
    x, y, parts = embeddings(shape)
    sigma = (g.eigenvectors[0] * g.eigenvalues[0]) @ g.eigenvectors[0].T
    originals = len(y)
    # per original 100 draws, of which 99 are kept on average: 20 originals to 1980 new samples
    recipe = (
        best(lambda: [released_recipe(x[i], sigma, 100) for i in range(RECIPE_CALLS)], 1) / RECIPE_CALLS * originals
    )
    ours = best(lambda: sample(shape, g, BANK_BYTES))
    lines = [
        Line("sampling: released recipe", f"{shape}; {RECIPE_CALLS} of {originals} calls measured", ours, recipe),
        Line(
            "sampling: factor once, arrays",
            str(shape),
            ours,
            best(lambda: [augment(x[p], y[p], g, target=shape.target, seed=k) for k, p in enumerate(parts)], 1),
        ),
    ]
    many = Shape(clients=100)
    some = 10
    x, y, parts = embeddings(many)
    g = geometry(many)
    # the fairest materialised form: each class factored once for all clients, float32, no validation
    factors = [g.factor(c, "sqrt-eigenvalue").astype(np.float32) for c in range(many.classes)]

    def materialise() -> None:
        for k in range(some):
            rng = np.random.default_rng(k)
            own = parts[k]
            draws = plan_draws(y[own], many.classes, target=many.target)
            noise = np.concatenate(
                [
                    rng.standard_normal((n, many.dim), np.float32) @ factors[c]
                    for c, n in enumerate(np.bincount(draws.label))
                ]
            )
            np.concatenate([x[own], x[own][draws.row] + noise])

    lines.append(
        Line(
            "sampling: factor once, arrays",
            f"{many}; {some} of 100 clients measured",
            best(lambda: sample(many, g, BANK_BYTES)),
            best(materialise, 1) * many.clients / some,
        )
    )
    return lines
