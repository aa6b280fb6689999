"""Networks on images: a client-step of FedAvg in our engine and in a plain torch loop, on two cores."""

from collections.abc import Callable

import jax
import numpy as np
from benchmarks.timing import Line, in_turn

from ggeur.engine.image_augmentation import ImageAugmentation
from ggeur.engine.simulate import Simulation
from ggeur.engine.stack import Run
from ggeur.engine.training import Training
from ggeur.heads import resolve
from ggeur.methods import resolve as resolve_method
from ggeur.stats.augmented_sets import AugmentedSet
from ggeur.stats.seeding import batch_order

CLIENTS, BATCH, PIXELS, CLASSES, RATE = 2, 16, 32, 10, 0.01
STEPS = {"simplecnn": 64, "resnet10": 4, "resnet18": 2}


def federation(name: str) -> Run:
    """Clients with random pictures, as many as one epoch of `STEPS` takes."""
    rng, n = np.random.default_rng(0), BATCH * STEPS[name]
    table = rng.integers(0, 256, (CLIENTS * n, 3 * PIXELS**2), np.uint8)
    y = rng.integers(0, CLASSES, len(table)).astype(np.int32)
    rows = np.arange(len(table), dtype=np.int32).reshape(CLIENTS, n)
    sets = [AugmentedSet(own, np.zeros_like(own), y[own], n) for own in rows]
    params = jax.tree.map(np.asarray, resolve(name).init(jax.random.key(0), table.shape[1], CLASSES))
    nothing = np.zeros((0, table.shape[1]))
    kind = ImageAugmentation(PIXELS, "none")  # a plain loop varies nothing either
    return Run(0, table, nothing, None, sets, np.ones(CLIENTS), params, CLASSES, pictures=kind)


def our_round(name: str, run: Run) -> Callable[[], object]:
    """Every client's epoch, and their mean."""
    training = Training(rounds=1, batch_size=BATCH, learning_rate=RATE, local_epochs=1)
    simulation = Simulation([run], resolve_method("fedavg", resolve(name), {}), training)
    state = simulation.start()

    def one() -> None:
        jax.block_until_ready(next(iter(simulation.rounds(state))).params)

    one()  # compiles
    return one


def torch_round(name: str, run: Run, threads: int) -> Callable[[], object]:
    """The same batches through torch, a client after the other."""
    import torch
    from benchmarks.torch_images import inputs, network, put

    net = network(name, PIXELS, CLASSES)
    pictures = torch.from_numpy(run.table.reshape(-1, PIXELS, PIXELS, 3))

    def one() -> None:
        torch.set_num_threads(threads)
        for k, s in enumerate(run.sets):
            put(net, run.params)
            sgd = torch.optim.SGD(net.parameters(), RATE, momentum=0.9, weight_decay=1e-5)
            y = torch.from_numpy(s.y.astype(np.int64))
            for at in batch_order(run.seed, 1, k, len(s.y), STEPS[name], BATCH).reshape(-1, BATCH):
                sgd.zero_grad()
                torch.nn.functional.cross_entropy(net(inputs(pictures[s.sample[at]])), y[at]).backward()
                sgd.step()

    one()
    return one


def main() -> list[Line]:
    lines = []
    for name, steps in STEPS.items():
        run = federation(name)
        times = in_turn({
            "ours": our_round(name, run),
            "torch@1": torch_round(name, run, 1),
            "torch@2": torch_round(name, run, 2),
        })  # fmt: skip
        ours, torch = (t / (CLIENTS * steps) for t in (times["ours"], min(times["torch@1"], times["torch@2"])))
        work = f"a client-step; {CLIENTS} clients, batch {BATCH}, {PIXELS} pixels; torch's better of one thread and two"
        lines.append(Line(f"images: {name}, a plain torch loop", work, ours, torch))
    return lines
