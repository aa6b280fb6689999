"""Training: one local epoch of ten clients in our engine, in torch in five forms, and at the limit of XLA."""

import jax
import jax.numpy as jnp
import numpy as np
import torch
from benchmarks.federation import Shape, run_of
from benchmarks.timing import Line, best
from torch.utils.data import DataLoader, TensorDataset

from ggeur.engine.simulate import Simulation, Training
from ggeur.heads import resolve as resolve_head
from ggeur.methods import resolve

RATE, MOMENTUM, DECAY = 0.01, 0.9, 1e-5
EPOCHS = 2


def ours(shape: Shape) -> float:
    """Seconds per client-step of a round, everything in it: orders, gathers, steps, aggregation."""
    method = resolve("fedavg", resolve_head("linear"), {})
    simulation = Simulation(
        [run_of(shape)], method, Training(rounds=10**6, batch=shape.batch, rate=RATE, local_epochs=EPOCHS)
    )
    rounds = simulation.rounds()
    next(rounds)  # compiles
    return best(lambda: next(rounds)) / (EPOCHS * shape.steps)


def arrays(shape: Shape) -> tuple[torch.Tensor, torch.Tensor]:
    """One client's augmented set, materialised, as torch users have it."""
    run = run_of(shape._replace(clients=1))
    x = run.sets[0].materialise(run.table, run.bank)
    return torch.from_numpy(x), torch.from_numpy(run.sets[0].y.astype(np.int64))


def dataloader(shape: Shape) -> float:
    """The usual loop: DataLoader, autograd, torch.optim."""
    x, y = arrays(shape)
    net = torch.nn.Linear(shape.dim, shape.classes)
    optimiser = torch.optim.SGD(net.parameters(), RATE, MOMENTUM, weight_decay=DECAY)
    loader = DataLoader(TensorDataset(x, y), batch_size=shape.batch, shuffle=True)

    def epoch() -> None:
        for rows, labels in loader:
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(net(rows), labels).backward()
            optimiser.step()

    return best(epoch) / len(loader)


def slicing(shape: Shape) -> float:
    """The same without the DataLoader: one permutation an epoch, batches by indexing."""
    x, y = arrays(shape)
    net = torch.nn.Linear(shape.dim, shape.classes)
    optimiser = torch.optim.SGD(net.parameters(), RATE, MOMENTUM, weight_decay=DECAY)

    def epoch() -> None:
        for at in torch.randperm(len(y)).split(shape.batch):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(net(x[at]), y[at]).backward()
            optimiser.step()

    return best(epoch) / -(-len(y) // shape.batch)


def _step(
    w: torch.Tensor, b: torch.Tensor, mw: torch.Tensor, mb: torch.Tensor, x: torch.Tensor, hot: torch.Tensor
) -> None:
    """One SGD step of K heads at once, gradient by hand, in place; x (K, B, p), hot (K, B, C)."""
    d = torch.softmax(torch.baddbmm(b[:, None], x, w.mT), -1).sub_(hot).div_(x.shape[1])
    mw.mul_(MOMENTUM).add_(w, alpha=DECAY).baddbmm_(d.mT, x)
    mb.mul_(MOMENTUM).add_(b, alpha=DECAY).add_(d.sum(1))
    w.sub_(mw, alpha=RATE)
    b.sub_(mb, alpha=RATE)


def by_hand(shape: Shape, clients: int, *, compiled: bool = False) -> float:
    """Gradients by hand without autograd: one client at a time, or all in one batched product, compiled or not."""
    x, y = arrays(shape)
    hot = torch.nn.functional.one_hot(y, shape.classes).float()
    w, b = torch.randn(clients, shape.classes, shape.dim) * 0.04, torch.zeros(clients, shape.classes)
    mw, mb = torch.zeros_like(w), torch.zeros_like(b)
    steps = len(y) // shape.batch

    def step(at: torch.Tensor) -> None:
        _step(w, b, mw, mb, x[at], hot[at])

    run = torch.compile(step, dynamic=False) if compiled else step

    def epoch() -> None:
        order = torch.stack([torch.randperm(len(y)) for _ in range(clients)])
        for i in range(steps):
            run(order[:, i * shape.batch : (i + 1) * shape.batch])

    with torch.no_grad():
        epoch()
        return best(epoch) / (steps * clients)


def limit(shape: Shape, clients: int) -> float:
    """The work that cannot be left out: one gather and two products, in a scan, nothing else."""
    rng = np.random.default_rng(0)
    rows = shape.classes * shape.target
    table = jnp.asarray(rng.normal(size=(rows, shape.dim)).astype(np.float32))
    steps = rows // shape.batch
    order = jnp.asarray(rng.integers(0, rows, (steps, clients, shape.batch)), jnp.int32)

    @jax.jit
    def scan(w: jax.Array) -> jax.Array:
        def step(w: jax.Array, at: jax.Array) -> tuple[jax.Array, None]:
            x = table[at]
            z = jnp.einsum("kcp,kbp->kcb", w, x)
            return w - RATE * jnp.einsum("kcb,kbp->kcp", z, x), None

        return jax.lax.scan(step, w, order)[0]

    w = jnp.asarray(1e-3 * rng.normal(size=(clients, shape.classes, shape.dim)).astype(np.float32))
    scan(w).block_until_ready()
    return best(lambda: scan(w).block_until_ready()) / (steps * clients)


def main() -> list[Line]:
    shape = Shape()
    mine = ours(shape)
    per = f"one client-step; {shape}"
    lines = [
        Line("training: torch, DataLoader", per, mine, dataloader(shape)),
        Line("training: torch, slicing and autograd", per, mine, slicing(shape)),
        Line("training: torch, by hand", per, mine, by_hand(shape, 1)),
        Line("training: torch, by hand, bmm over clients", per, mine, by_hand(shape, shape.clients)),
    ]
    try:
        lines.append(
            Line("training: torch.compile of the bmm form", per, mine, by_hand(shape, shape.clients, compiled=True))
        )
    except Exception as error:  # no compiler on this machine, or one that inductor does not like
        print(f"torch.compile is left out: {type(error).__name__}")
    lines.append(Line("training: the limit, all clients in one call", per, mine, limit(shape, shape.clients)))
    lines.append(Line("training: the limit, one client a call", per, mine, limit(shape, 1)))
    return lines
