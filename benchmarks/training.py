"""Training: one client-step in our engine, in torch in five forms, and at the limit of XLA."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
from benchmarks.federation import RATE, Shape, our_round, run_of
from benchmarks.timing import Line, in_turn
from benchmarks.torch_forms import HALF, Sets, forms

from ggeur.engine.stack import Run

EPOCHS = 2


def limit(shape: Shape, run: Run, calls: int) -> Callable[[], object]:
    """What cannot be left out of an epoch: one gather from a bank of the same size and two products, in a scan.

    All clients in `calls` programs that run side by side.
    """
    rng = np.random.default_rng(0)
    bank = jnp.asarray(run.bank)
    each = shape.clients // calls
    orders = [
        jnp.asarray(rng.integers(0, len(bank), (shape.steps // shape.clients, each, shape.batch_size)), jnp.int32)
        for _ in range(calls)
    ]

    @jax.jit
    def scan(bank: jax.Array, w: jax.Array, order: jax.Array) -> jax.Array:
        def step(w: jax.Array, at: jax.Array) -> tuple[jax.Array, None]:
            x = bank.at[at].get(mode="promise_in_bounds")
            z = jnp.einsum("kcp,kbp->kcb", w, x)
            return w - RATE * jnp.einsum("kcb,kbp->kcp", z, x), None

        return jax.lax.scan(step, w, order)[0]

    w = jnp.asarray(1e-3 * rng.normal(size=(each, shape.classes, shape.dim)).astype(np.float32))
    pool = ThreadPoolExecutor(calls)

    def epoch() -> None:
        list(pool.map(lambda order: scan(bank, w, order).block_until_ready(), orders))

    epoch()
    return epoch


def main() -> list[Line]:
    shape = Shape()
    run = run_of(shape)
    torch_forms = forms(Sets(shape, run))
    times = in_turn(
        {
            "ours": our_round(shape, run, EPOCHS),
            "ours, float16": our_round(shape, run, EPOCHS, "float16"),
            **{name: epoch for name, (_, epoch) in torch_forms.items()},
            "limit@1": limit(shape, run, 1),
            "limit@2": limit(shape, run, 2),
        },
        repetitions=6,
    )
    steps = {name: shape.steps // shape.clients * clients for name, (clients, _) in torch_forms.items()}
    steps |= {"ours": EPOCHS * shape.steps, "ours, float16": EPOCHS * shape.steps}
    per_step = {name: t / steps.get(name, shape.steps) for name, t in times.items()}
    fastest: dict[str, float] = {}
    for name, t in per_step.items():
        plain = name.partition("@")[0]
        fastest[plain] = min(t, fastest.get(plain, np.inf))
    work = f"a client-step; {shape}; the better of one thread and two"
    mine = fastest.pop("ours")
    half, bound = fastest.pop("ours, float16"), fastest.pop("limit")
    in_half = {name: fastest.pop(name) for name in list(fastest) if name.endswith(HALF)}
    return [
        *(Line(f"training: torch, {name}", work, mine, t) for name, t in fastest.items()),
        Line("training: the fastest torch form", work, mine, min(fastest.values())),
        *(Line(f"training: torch, {name}; ours too", work, half, t) for name, t in in_half.items()),
        Line("training: the limit, one gather and two products (a ratio of 1 is at the limit)", work, mine, bound),
    ]
