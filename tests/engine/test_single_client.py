"""A client alone computes what the simulation computes for it; the adapter is pinned to the engine here."""

import jax
import numpy as np
import pytest

from ggeur.engine import single_client
from ggeur.engine.simulate import Simulation
from ggeur.engine.training import LocalOptimiser, Training
from ggeur.heads import resolve as resolve_head
from ggeur.methods import resolve


@pytest.mark.parametrize("method", ["fedavg", "scaffold"])
def test_clients_alone_and_the_servers_part_make_the_simulations_round(federation, method):
    run = federation(3, noise=True)
    training = Training(rounds=2, batch_size=4, learning_rate=0.05, local_epochs=2, optimiser=LocalOptimiser())
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
            own = single_client.SingleClient(run.seed, k, base, run.bank, run.sets[k], run.n_classes)
            first = jax.tree.map(lambda a: a[0], start.clients)
            done = single_client.train_client(own, chosen, training, number, sent["params"], sent, states.get(k, first))
            states[k] = done.state
            messages.append(done.message)
            losses.append(done.loss)
        weights = run.weights[able]
        server = single_client.aggregate(chosen, server, messages, able, weights, (run.seed, number))
        for ours, theirs in zip(jax.tree.leaves(server), jax.tree.leaves(simulated.state.servers[0]), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
        assert np.average(losses, weights=weights) == pytest.approx(simulated.loss[0], rel=1e-5)
