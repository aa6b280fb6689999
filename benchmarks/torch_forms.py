"""The same training in torch, from what everyone writes to the best we could write: one epoch of all clients each."""

from collections.abc import Callable

import numpy as np
import torch
from benchmarks.federation import DECAY, MOMENTUM, RATE, Shape
from torch.utils.data import DataLoader, TensorDataset

from ggeur.engine.stack import Run

Epoch = Callable[[], object]
HALF = ", from float16"


class Sets:
    """Every client's augmented set, materialised, as torch users have it."""

    def __init__(self, shape: Shape, run: Run) -> None:
        self.shape = shape
        self.x = torch.from_numpy(np.stack([s.materialise(run.table, run.bank) for s in run.sets]))  # (K, n, p)
        self.y = torch.from_numpy(np.stack([s.y for s in run.sets]).astype(np.int64))


def _net(shape: Shape) -> tuple[torch.nn.Linear, torch.optim.SGD]:
    net = torch.nn.Linear(shape.dim, shape.classes)
    return net, torch.optim.SGD(net.parameters(), RATE, MOMENTUM, weight_decay=DECAY)


def _autograd_step(net: torch.nn.Linear, optimiser: torch.optim.SGD, x: torch.Tensor, y: torch.Tensor) -> None:
    optimiser.zero_grad()
    torch.nn.functional.cross_entropy(net(x), y).backward()
    optimiser.step()


def dataloader(sets: Sets) -> Epoch:
    """The usual loop: DataLoader, autograd, torch.optim; one client, whose time counts for all."""
    net, optimiser = _net(sets.shape)
    loader = DataLoader(TensorDataset(sets.x[0], sets.y[0]), batch_size=sets.shape.batch_size, shuffle=True)
    return lambda: [_autograd_step(net, optimiser, x, y) for x, y in loader]


def slicing(sets: Sets) -> Epoch:
    """Without the DataLoader: one permutation an epoch, batches by indexing; one client as well."""
    net, optimiser = _net(sets.shape)
    x, y = sets.x[0], sets.y[0]
    return lambda: [
        _autograd_step(net, optimiser, x[at], y[at]) for at in torch.randperm(len(y)).split(sets.shape.batch_size)
    ]


def _step(
    w: torch.Tensor, b: torch.Tensor, mw: torch.Tensor, mb: torch.Tensor, x: torch.Tensor, hot: torch.Tensor
) -> None:
    """One SGD step of several heads at once, gradient by hand, in place; x (K, B, p), hot (K, B, C)."""
    d = torch.softmax(torch.baddbmm(b[:, None], x, w.mT), -1).sub_(hot).div_(x.shape[1])
    mw.mul_(MOMENTUM).add_(w, alpha=DECAY).baddbmm_(d.mT, x)
    mb.mul_(MOMENTUM).add_(b, alpha=DECAY).add_(d.sum(1))
    w.sub_(mw, alpha=RATE)
    b.sub_(mb, alpha=RATE)


def by_hand(sets: Sets, together: int, *, compiled: bool = False, half: bool = False) -> Epoch:
    """Gradients by hand, without autograd, `together` clients in one batched product; the time of that many.

    With `half`, rows are stored in float16 and widened as they are taken.
    """
    shape, n = sets.shape, sets.shape.samples
    x = sets.x[:together].reshape(-1, shape.dim).to(torch.float16 if half else torch.float32)
    hot = torch.nn.functional.one_hot(sets.y[:together].reshape(-1), shape.classes).float()
    w, b = torch.randn(together, shape.classes, shape.dim) * 0.04, torch.zeros(together, shape.classes)
    mw, mb = torch.zeros_like(w), torch.zeros_like(b)

    def step(at: torch.Tensor) -> None:
        _step(w, b, mw, mb, x[at].float(), hot[at])

    run = torch.compile(step, dynamic=False) if compiled else step

    def epoch() -> None:
        order = torch.stack([k * n + torch.randperm(n) for k in range(together)])
        with torch.no_grad():
            for i in range(n // shape.batch_size):  # the short last batch, which we do take, is given to torch
                run(order[:, i * shape.batch_size : (i + 1) * shape.batch_size])

    epoch()  # compiles, where it does
    return epoch


def on_threads(n: int, epoch: Epoch) -> Epoch:
    def run() -> None:
        torch.set_num_threads(n)
        epoch()

    return run


def forms(sets: Sets) -> dict[str, tuple[int, Epoch]]:
    """Name -> clients that one call trains for an epoch, and the call; each with one thread and with two."""
    k = sets.shape.clients
    found: dict[str, tuple[int, Epoch]] = {
        "DataLoader": (1, dataloader(sets)),
        "slicing and autograd": (1, slicing(sets)),
        "by hand, a client at a time": (1, by_hand(sets, 1)),
        "by hand, bmm over the clients": (k, by_hand(sets, k)),
    }
    try:
        found["torch.compile of the bmm form"] = (k, by_hand(sets, k, compiled=True))
        found[f"torch.compile of the bmm form{HALF}"] = (k, by_hand(sets, k, compiled=True, half=True))
    except Exception as error:  # no compiler on this machine, or one that inductor does not like
        print(f"torch.compile is left out: {type(error).__name__}")
    return {
        f"{name}@{threads}": (clients, on_threads(threads, epoch))
        for name, (clients, epoch) in found.items()
        for threads in (1, 2)
    }
