"""Networks on images against torch's: the same numbers, pictures and batches give the same after local steps."""

import runpy
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from ggeur.engine.image_augmentation import ImageAugmentation
from ggeur.engine.simulate import Simulation
from ggeur.engine.stack import Run
from ggeur.engine.training import LocalOptimiser, Training
from ggeur.heads import resolve
from ggeur.methods import resolve as resolve_method
from ggeur.stats.augmented_sets import AugmentedSet
from ggeur.stats.seeding import batch_order
from refusal import refused

ROOT = Path(__file__).parents[2]
CLASSES, STEPS, BATCH = 4, 5, 4
OPTIMISER = LocalOptimiser(momentum=0.9, weight_decay=1e-3)


def federation(head, pixels, sizes, seed=3):
    """Clients with so many random pictures each."""
    rng = np.random.default_rng(0)
    table = rng.integers(0, 256, (sum(sizes), 3 * pixels**2), np.uint8)
    y, ends = rng.integers(0, CLASSES, sum(sizes)).astype(np.int32), np.cumsum(sizes)
    samples = [np.arange(end - n, end, dtype=np.int32) for n, end in zip(sizes, ends, strict=True)]
    return Run(
        seed,
        table,
        np.zeros((0, table.shape[1])),
        None,
        [AugmentedSet(own, np.zeros_like(own), y[own], len(own)) for own in samples],
        np.array(sizes, np.float64),
        jax.tree.map(np.asarray, head.init(jax.random.key(1), table.shape[1], CLASSES)),
        CLASSES,
        pictures=ImageAugmentation(pixels, "none"),
    )


class InTorch:
    """The same networks, batches and pictures in plain torch, a client after the other."""

    def __init__(self, name, run, pixels):
        import torch

        self.torch = torch
        self.parts = SimpleNamespace(**runpy.run_path(str(ROOT / "benchmarks" / "torch_images.py")))
        self.net, self.run, self.pixels = self.parts.network(name, pixels, CLASSES), run, pixels
        self.start = self.laid_out(run.params)

    def laid_out(self, params):
        """Our arrays in the order and layout of the network's."""
        return [np.array(a) for a in self.parts.ordered(self.net, jax.tree.map(np.asarray, params))]

    def trained(self, start, k, number, steps, learning_rate, *, momentum=0.9, decay=1e-3, added=None):
        """Where SGD of client `k` ends in round `number`; `added(w)` is added to its gradients at w."""
        torch, own = self.torch, list(self.net.parameters())
        with torch.no_grad():
            for theirs, value in zip(own, start, strict=True):
                theirs.copy_(torch.from_numpy(value))
        sgd = torch.optim.SGD(own, learning_rate, momentum=momentum, weight_decay=decay)
        s = self.run.sets[k]
        for at in batch_order(self.run.seed, number, k, len(s.y), steps, BATCH).reshape(steps, BATCH):
            at = at[at >= 0]
            pictures = torch.from_numpy(self.run.table[s.sample[at]].reshape(-1, self.pixels, self.pixels, 3))
            found = self.net(self.parts.inputs(pictures))
            sgd.zero_grad()
            torch.nn.functional.cross_entropy(found, torch.from_numpy(s.y[at].astype(np.int64))).backward()
            for w, term in zip(own, added([p.detach().numpy() for p in own]) if added else (), strict=bool(added)):
                w.grad += torch.from_numpy(term)
            sgd.step()
        return [p.detach().numpy().copy() for p in own]


def each(f, *lists):
    return [f(*arrays) for arrays in zip(*lists, strict=True)]


def scaffold_in_torch(other, rounds, steps, learning_rate, server_learning_rate=0.25):
    """Karimireddy et al., Algorithm 1 with option II: plain steps, each corrected by c - c_i."""
    x, zero = other.start, each(np.zeros_like, other.start)
    c, own = zero, [zero for _ in steps]
    for number in range(1, rounds + 1):
        ends, new = [], []
        for k, K in enumerate(steps):
            turn = each(np.subtract, c, own[k])
            added = partial(lambda turn, w: turn, turn)
            ends.append(other.trained(x, k, number, K, learning_rate, momentum=0.0, decay=0.0, added=added))
            new.append(each(lambda t, x, y, scale: (x - y) / scale - t, turn, x, ends[k], [K * learning_rate] * len(x)))
        x = each(lambda x, *y: x + server_learning_rate * (sum(y) / len(y) - x), x, *ends)
        c, own = each(lambda *c_i: sum(c_i) / len(c_i), *new), new
    return x


def feddyn_in_torch(other, rounds, steps, learning_rate, alpha=0.5):
    """Acar et al., Algorithm 1, all clients: the regulariser's gradient is alpha (w - w_t) - g_k."""

    def pull(x, g, w):
        return each(lambda x, g, w: alpha * (w - x) - g, x, g, w)

    x, zero = other.start, each(np.zeros_like, other.start)
    g = [zero for _ in steps]
    for number in range(1, rounds + 1):
        ends = [
            other.trained(x, k, number, K, learning_rate, added=partial(pull, x, g[k])) for k, K in enumerate(steps)
        ]
        g = [each(lambda x, g, w: g - alpha * (w - x), x, g_k, end) for g_k, end in zip(g, ends, strict=True)]
        own = [each(lambda w, g: w - g / alpha, end, g_k) for end, g_k in zip(ends, g, strict=True)]
        x = each(lambda *a: sum(a) / len(a), *own)  # h is the mean of the g_k
    return x


@pytest.mark.needs("bench")
@pytest.mark.parametrize(
    "name, pixels", [("simplecnn", 32), ("resnet10", 16), pytest.param("resnet18", 16, marks=pytest.mark.slow)]
)
def test_five_local_steps_of_fedavg_are_torchs(name, pixels):
    head = resolve(name)
    run = federation(head, pixels, (7, 5) if name == "simplecnn" else (7,))  # with short last batches
    training = Training(rounds=1, batch_size=BATCH, learning_rate=0.02, local_steps=STEPS, optimiser=OPTIMISER)
    (found,) = Simulation([run], resolve_method("fedavg", head, {}), training).rounds()
    other = InTorch(name, run, pixels)
    ends = [other.trained(other.start, k, 1, STEPS, 0.02) for k in range(len(run.sets))]
    share = run.weights / run.weights.sum()
    check_same(other, found.params[0], each(lambda *a: sum(w * v for w, v in zip(share, a, strict=True)), *ends))


def check_same(other, params, expected):
    moved = 0.0
    for ours, theirs, before in zip(other.laid_out(params), expected, other.start, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4)
        moved = max(moved, float(np.abs(theirs - before).max()))
    assert moved > 1e-2, "the steps must go somewhere for this to mean anything"


@pytest.mark.needs("bench")
@pytest.mark.parametrize("method, in_torch", [("scaffold", scaffold_in_torch), ("feddyn", feddyn_in_torch)])
def test_rounds_with_states_of_clients_are_torchs_where_clients_take_different_steps(method, in_torch):
    head, learning_rate = resolve("simplecnn"), 0.05
    run = federation(head, 16, (15, 9))  # 8 and 6 steps: one program
    training = Training(rounds=3, batch_size=BATCH, learning_rate=learning_rate, local_epochs=2, optimiser=OPTIMISER)
    *_, found = Simulation([run], resolve_method(method, head, {}), training).rounds()
    other = InTorch("simplecnn", run, 16)
    check_same(other, found.params[0], in_torch(other, 3, [8, 6], learning_rate))


def test_the_small_cnn_has_the_benchmarks_parameters_and_features():
    head = resolve("simplecnn")
    params = head.init(jax.random.key(0), 3072, 10)
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == 92_626
    assert head.represent(params, np.zeros((2, 3072), np.float32)).shape == (2, 256)
    assert head.shape(params) == (10, 3072)


@pytest.mark.parametrize("name, millions", [("resnet10", 4.90), ("resnet18", 11.17), ("resnet34", 21.28)])
def test_resnets_have_512_features_and_take_any_size(name, millions):
    head = resolve(name)
    params = jax.eval_shape(lambda key: head.init(key, 3072, 10), jax.random.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) / 1e6 == pytest.approx(millions, abs=0.01)
    for pixels in (32, 48):
        sample = jax.ShapeDtypeStruct((2, 3 * pixels**2), np.float32)
        assert jax.eval_shape(head.represent, params, sample).shape == (2, 512)
        assert jax.eval_shape(head.logits, params, sample).shape == (2, 10)


def test_features_come_before_the_last_layer_and_colours_are_normalised_as_named():
    x = np.random.default_rng(0).integers(0, 256, (3, 3 * 16**2)).astype(np.float32)
    head = resolve("simplecnn")
    params = jax.tree.map(np.asarray, head.init(jax.random.key(0), x.shape[1], CLASSES))
    logits = head.represent(params, x) @ params["out"]["W"].T + params["out"]["b"]
    np.testing.assert_allclose(head.logits(params, x), logits, atol=1e-6)
    mean, deviation = (np.tile(v, 16**2) for v in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
    theirs, others = (np.tile(v, 16**2) for v in ([0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2615]))
    same = 255 * (((x / 255 - theirs) / others) * deviation + mean)  # what ImageNet's colours make the same numbers
    cifar = resolve("simplecnn", normalise="cifar10")
    np.testing.assert_allclose(cifar.represent(params, x), head.represent(params, same), atol=1e-4)


@pytest.mark.parametrize("name", ["simplecnn", "resnet10"])
def test_no_pictures_have_no_answers(name):
    head = resolve(name)
    params = jax.eval_shape(lambda key: head.init(key, 3 * 16**2, CLASSES), jax.random.key(0))
    assert jax.eval_shape(head.logits, params, np.zeros((0, 3 * 16**2), np.float32)).shape == (0, CLASSES)


@pytest.mark.parametrize("p", [300, 3 * 15**2, 3073])
def test_rows_that_are_no_pictures_are_refused(p):
    for name in ("simplecnn", "resnet10"):
        with refused("table-not-images"):
            resolve(name).init(jax.random.key(0), p, 2)
