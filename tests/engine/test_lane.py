"""A client alone computes what the simulation computes for it; the adapter is pinned to the engine here."""

import jax
import numpy as np
import pytest

from ggeur.core.geometry import Geometry
from ggeur.core.statistics import ClassStatistics
from ggeur.core.virtual import BankLayout, noise_bank
from ggeur.deploy.wire.factors import class_shapes, own_noise
from ggeur.deploy.wire.packing import pack_statistics
from ggeur.engine import lane
from ggeur.engine.simulate import Simulation
from ggeur.engine.training import LocalOptimiser, Training
from ggeur.heads import resolve as resolve_head
from ggeur.methods import resolve


@pytest.mark.parametrize("method", ["fedavg", "scaffold"])
def test_lanes_alone_and_the_servers_part_make_the_simulations_round(federation, method):
    run = federation(3, noise=True)
    training = Training(rounds=2, batch=4, rate=0.05, local_epochs=2, optimiser=LocalOptimiser())
    chosen = resolve(method, resolve_head("linear"), {})
    simulation = Simulation([run], chosen, training)
    start = simulation.start()
    server, states = start.servers[0], {}
    able = [k for k, s in enumerate(run.sets) if len(s.y)]
    base = np.concatenate([run.table, run.prototypes])
    for number, simulated in enumerate(simulation.rounds(start), 1):
        sent = chosen.method.broadcast(server)
        messages, losses = [], []
        for k in able:
            own = lane.Lane(run.seed, k, base, run.bank, run.sets[k], run.n_classes)
            first = jax.tree.map(lambda a: a[0], start.clients)
            done = lane.train(own, chosen, training, number, sent["params"], sent, states.get(k, first))
            states[k] = done.state
            messages.append(done.message)
            losses.append(done.loss)
        weights = run.weights[able]
        server = lane.aggregate(chosen, server, messages, able, weights, (run.seed, number))
        for ours, theirs in zip(jax.tree.leaves(server), jax.tree.leaves(simulated.state.servers[0]), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
        assert np.average(losses, weights=weights) == pytest.approx(simulated.loss[0], rel=1e-5)


@pytest.mark.parametrize("scale", ["eigenvalue", "sqrt-eigenvalue"])
@pytest.mark.parametrize("bank_bytes", [2**30, 4 * 5 * 900], ids=["a bank for all", "a bank that wraps around"])
def test_a_site_makes_its_own_rows_of_the_simulations_bank(scale, bank_bytes):
    rng = np.random.default_rng(0)
    p, draws = 5, np.array([[300, 0, 20], [10, 0, 700], [280, 5, 0]])
    s = ClassStatistics.from_embeddings(rng.normal(size=(90, p)), np.repeat([0, 1, 2], 30), 3)
    layout = BankLayout.of(draws, p, bank_bytes)
    bank = noise_bank(Geometry.from_statistics(s), layout, scale, seed=4)
    shapes = class_shapes(pack_statistics(s, "per-class"), None, scale)
    for k, counts in enumerate(draws):
        label = np.repeat(np.arange(3), counts)
        signed = layout.noise_rows(k, label, 4)
        noise, own = own_noise(label, shapes.of(counts > 0), layout.size, layout.offset[k], k, 4, p)
        assert len(own) == 1 + counts.sum(), "no row of another site"
        theirs = np.sign(signed)[:, None] * bank[np.abs(signed)]
        np.testing.assert_allclose(np.sign(noise)[:, None] * own[np.abs(noise)], theirs, rtol=1e-5, atol=1e-6)
