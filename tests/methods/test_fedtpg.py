"""FedTPG against torch: its own attention, SGD and schedule, and transformers' text model with the context put in."""

import jax
import numpy as np
import pytest

from ggeur.engine.simulate import Simulation
from ggeur.engine.stack import Run
from ggeur.engine.training import Training
from ggeur.heads import resolve as resolve_head
from ggeur.methods import resolve
from ggeur.methods.algorithm import Task
from ggeur.methods.fedtpg import generate, random_generator
from ggeur.stats.augmented_sets import AugmentedSet
from ggeur.stats.seeding import batch_order

NAMES, HELD, ROUNDS, SEED = ("ant", "queen_bee", "cat"), ((0, 1), (1, 2)), 4, 3
RATE, MOMENTUM, DECAY = 0.05, 0.9, 1e-3


def test_at_the_papers_shape_it_has_as_many_numbers():
    shapes = jax.eval_shape(lambda key: random_generator(key, 512, 4), jax.random.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == 4_206_080


def torch_generator(torch, w):
    """The same layers of torch's own, with these numbers, in double precision."""
    d = w["Q"].shape[1]
    layers = torch.nn.ModuleDict(
        {
            "ln_q": torch.nn.LayerNorm(d),
            "ln_e": torch.nn.LayerNorm(d),
            "attention": torch.nn.MultiheadAttention(d, 4, batch_first=True),
            "ln_f": torch.nn.LayerNorm(d),
            "up": torch.nn.Linear(d, 8 * d),
            "down": torch.nn.Linear(4 * d, d),
        }
    ).double()
    queries = torch.nn.Parameter(torch.tensor(w["Q"], dtype=torch.float64))
    attention = layers["attention"]
    ours = {
        attention.in_proj_weight: w["qkv"]["weight"],
        attention.in_proj_bias: w["qkv"]["bias"],
        attention.out_proj.weight: w["out"]["weight"],
        attention.out_proj.bias: w["out"]["bias"],
    }
    for name in ("ln_q", "ln_e", "ln_f", "up", "down"):
        ours |= {layers[name].weight: w[name]["weight"], layers[name].bias: w[name]["bias"]}
    with torch.no_grad():
        for parameter, value in ours.items():
            parameter.copy_(torch.tensor(value))

    def context(E):
        keys = layers["ln_e"](E)[None]
        A = attention(layers["ln_q"](queries)[None], keys, keys)[0][0]
        u, g = layers["up"](layers["ln_f"](A)).chunk(2, dim=1)
        return A + layers["down"](u * torch.nn.functional.gelu(g))

    return context, [queries, *ours]


class Case:
    """Two clients of other classes, with 7 and 5 samples."""

    def __init__(self, language):
        self.language, rng = language, np.random.default_rng(SEED)
        self.d = language.tower.tokens.shape[1]
        y = np.concatenate([rng.permutation(np.resize(own, n)) for own, n in zip(HELD, (7, 5), strict=True)])
        self.x, self.y = rng.normal(size=(12, self.d)), y.astype(np.int32)
        self.samples = np.split(np.arange(12, dtype=np.int32), [7])
        sets = [AugmentedSet(r, np.zeros(len(r), np.int32), self.y[r], len(r)) for r in self.samples]
        self.first = jax.tree.map(np.asarray, random_generator(jax.random.key(1), self.d, 4))
        weights = np.array([7.0, 5.0])
        self.run = Run(SEED, self.x, np.zeros((0, self.d)), None, sets, weights, self.first, len(NAMES))

    def played(self):
        task = Task(self.d, NAMES)
        given = {"clip": self.language.folder, "learning_rate": RATE, "momentum": MOMENTUM, "weight_decay": DECAY}
        trained = resolve("fedtpg", resolve_head("linear"), given, task=task, rounds=ROUNDS)
        training = Training(rounds=ROUNDS, batch_size=4, learning_rate=9.0, local_epochs=1, clients_per_round=1)
        return Simulation([self.run], trained, training).rounds()

    def batches(self, number, k):
        samples = self.samples[k]
        order = batch_order(SEED, number, k, len(samples), -(-len(samples) // 4), 4).reshape(-1, 4)
        return [samples[at[at >= 0]] for at in order]


@pytest.fixture
def case(x64, language):
    return Case(language)


@pytest.mark.needs("hf")
def test_rounds_of_absent_and_present_clients(case):
    """Momentum survives rounds, the schedule goes on where a client takes part alone, and only its classes compete."""
    import torch
    import transformers

    model = transformers.CLIPTextModelWithProjection.from_pretrained(case.language.folder).double().eval()
    tokens, context = case.language.tokens, None

    def put_in(module, given, out):
        return out if context is None else torch.cat([out[:, :1], context.expand(len(out), -1, -1), out[:, 5:]], dim=1)

    model.text_model.embeddings.token_embedding.register_forward_hook(put_in)

    def text(prompts):
        ids = [tokens(prompt) for prompt in prompts]
        longest = max(map(len, ids))
        return model(input_ids=torch.tensor([i + [tokens.end] * (longest - len(i)) for i in ids])).text_embeds

    names = [name.replace("_", " ") for name in NAMES]
    with torch.no_grad():
        E = torch.nn.functional.normalize(text(names))
    both = [torch_generator(torch, case.first) for _ in HELD]
    sgd = [torch.optim.SGD(w, RATE, MOMENTUM, weight_decay=DECAY) for _, w in both]
    rates = [torch.optim.lr_scheduler.CosineAnnealingLR(one, ROUNDS) for one in sgd]
    x, server, seen = torch.tensor(case.x), [p.detach().clone() for p in both[0][1]], []
    for found in case.played():
        (k,) = found.participants[0].tolist()
        seen.append(k)
        make, weights = both[k]
        with torch.no_grad():
            for mine, theirs in zip(weights, server, strict=True):
                mine.copy_(theirs)
        own = list(HELD[k])
        for samples in case.batches(found.state.round, k):
            context = make(E[own])
            t = torch.nn.functional.normalize(text([f"x x x x {names[c]}." for c in own]))
            cosine = torch.nn.functional.normalize(x[samples]) @ t.T
            labels = torch.tensor([own.index(c) for c in case.y[samples]])
            sgd[k].zero_grad()
            torch.nn.functional.cross_entropy(100 * cosine, labels).backward()
            sgd[k].step()
        rates[k].step()
        server = [p.detach().clone() for p in weights]
        ours = found.state.servers[0]["params"]
        np.testing.assert_allclose(ours["Q"], server[0], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(ours["qkv"]["weight"], server[1], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(ours["down"]["weight"], server[-2], rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            context = make(E)  # at test, of all classes
            wanted = torch.nn.functional.normalize(text([f"x x x x {name}." for name in names]))
        context = None
        np.testing.assert_allclose(found.params[0]["text"], wanted, atol=1e-4)
    assert set(seen) == {0, 1} and len(seen) > len(set(seen)), "the test is too weak"


def test_the_servers_mean_counts_clients_alike(case):
    trained = resolve("fedtpg", resolve_head("linear"), {"clip": case.language.folder}, task=Task(case.d, NAMES))
    assert trained.method.adds == {"params": "equal"}


def test_names_of_others_do_not_matter_to_a_client(case):
    E = np.random.default_rng(0).normal(size=(5, case.d))
    own = np.array([True, False, True, False, True])
    every = np.ones(3, bool)
    np.testing.assert_allclose(generate(case.first, E, own), generate(case.first, E[own], every), atol=1e-6)
