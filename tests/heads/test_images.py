"""Networks on images against torch's: the same numbers, pictures and batches give the same after local steps."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from ggeur.core.errors import GgeurError
from ggeur.core.virtual import VirtualSet
from ggeur.engine.local import batch_order
from ggeur.engine.simulate import Simulation
from ggeur.engine.stack import Run
from ggeur.engine.training import LocalOptimiser, Training
from ggeur.engine.views import Pictures
from ggeur.heads import resolve
from ggeur.methods import resolve as resolve_method

ROOT = Path(__file__).parents[2]
CLASSES, STEPS, BATCH = 4, 5, 4
OPTIMISER = LocalOptimiser(momentum=0.9, weight_decay=1e-3)


def federation(head, pixels, sizes, seed=3):
    """Clients with so many random pictures each."""
    rng = np.random.default_rng(0)
    table = rng.integers(0, 256, (sum(sizes), 3 * pixels**2), np.uint8)
    y, ends = rng.integers(0, CLASSES, sum(sizes)).astype(np.int32), np.cumsum(sizes)
    rows = [np.arange(end - n, end, dtype=np.int32) for n, end in zip(sizes, ends, strict=True)]
    return Run(
        seed,
        table,
        np.zeros((0, table.shape[1])),
        None,
        [VirtualSet(own, np.zeros_like(own), y[own], len(own)) for own in rows],
        np.array(sizes, np.float64),
        jax.tree.map(np.asarray, head.init(jax.random.key(1), table.shape[1], CLASSES)),
        CLASSES,
        pictures=Pictures(pixels, "none"),
    )


def in_torch(name, run, pixels, rate):
    """FedAvg's round in plain torch: SGD from the same numbers on the same batches, and the mean by rows."""
    torch = pytest.importorskip("torch")
    torch_images = SimpleNamespace(**runpy.run_path(str(ROOT / "benchmarks" / "torch_images.py")))
    ends = []
    for k, s in enumerate(run.sets):
        net = torch_images.network(name, pixels, CLASSES)
        torch_images.put(net, run.params)
        sgd = torch.optim.SGD(net.parameters(), rate, momentum=0.9, weight_decay=1e-3)
        for at in batch_order(run.seed, 1, k, len(s.y), STEPS, BATCH).reshape(STEPS, BATCH):
            at = at[at >= 0]
            pictures = torch.from_numpy(run.table[s.row[at]].reshape(-1, pixels, pixels, 3))
            loss = torch.nn.functional.cross_entropy(
                net(torch_images.inputs(pictures)), torch.from_numpy(s.y[at].astype(np.int64))
            )
            sgd.zero_grad()
            loss.backward()
            sgd.step()
        ends.append([p.detach().numpy() for p in net.parameters()])
    share = run.weights / run.weights.sum()
    mean = [sum(w * leaf for w, leaf in zip(share, leaves, strict=True)) for leaves in zip(*ends, strict=True)]
    return mean, lambda params: torch_images.ordered(net, jax.tree.map(np.asarray, params))


@pytest.mark.parametrize(
    "name, pixels", [("simplecnn", 32), ("resnet10", 16), pytest.param("resnet18", 16, marks=pytest.mark.slow)]
)
def test_five_local_steps_of_fedavg_are_torchs(name, pixels):
    head = resolve(name)
    run = federation(head, pixels, (7, 5) if name == "simplecnn" else (7,))  # with short last batches
    training = Training(rounds=1, batch=BATCH, rate=0.02, local_steps=STEPS, optimiser=OPTIMISER)
    (found,) = Simulation([run], resolve_method("fedavg", head, {}), training).rounds()
    expected, laid_out = in_torch(name, run, pixels, 0.02)
    moved = 0.0
    for ours, theirs, before in zip(laid_out(found.params[0]), expected, laid_out(run.params), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4)
        moved = max(moved, float(np.abs(theirs - before).max()))
    assert moved > 1e-2, "five steps must go somewhere for this to mean anything"


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
        row = jax.ShapeDtypeStruct((2, 3 * pixels**2), np.float32)
        assert jax.eval_shape(head.represent, params, row).shape == (2, 512)
        assert jax.eval_shape(head.logits, params, row).shape == (2, 10)


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


@pytest.mark.parametrize("p", [300, 3 * 15**2, 3073])
def test_rows_that_are_no_pictures_are_refused(p):
    for name in ("simplecnn", "resnet10"):
        with pytest.raises(GgeurError, match="square pictures"):
            resolve(name).init(jax.random.key(0), p, 2)
