"""FedTPG's step at the shape of CLIP ViT-B/16: with the prefix shared, trimmed alone, and the plain 77 tokens.

Each form in a process of its own; the weights are random, which costs the same. Memory is what the compiled step
allocates beside its arguments, as the compiler says; a form for which too little is free is compiled, and not run.
"""

import json
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
from benchmarks.timing import Fact, Line, best

FORMS, CLASSES = ("shared", "trimmed", "plain"), (100, 200)
D, LAYERS, HEADS, CONTEXT, PREFIX, ROWS = 512, 12, 8, 77, 5, 500
SPARE = 3 * 2**30  # bytes that are left to others
LENGTHS = (3, 3, 3, 3, 3, 3, 3, 3, 4, 4)  # tokens of name, "." and EOT: 3.2 on average, as in CIFAR-100


def step(form: str, classes: int) -> dict[str, float]:
    """Seconds of a step, its loss, and the bytes that it allocates."""
    import jax
    import jax.numpy as jnp
    import psutil

    from ggeur.encoders.text_tower import Shape, Texts, TextTower, lay_out, run_tower
    from ggeur.heads.cosine import cosines
    from ggeur.methods.fedtpg import generate, random_generator
    from ggeur.methods.method import cross_entropy

    rng = np.random.default_rng(0)

    def linear(rows: int, columns: int) -> dict[str, np.ndarray]:
        weight = rng.standard_normal((LAYERS, rows, columns), np.float32) / np.float32(columns**0.5)
        return {"weight": weight, "bias": np.zeros((LAYERS, rows), np.float32)}

    normal = {"weight": np.ones((LAYERS, D), np.float32), "bias": np.zeros((LAYERS, D), np.float32)}
    blocks = {name: linear(D, D) for name in ("q", "k", "v", "out")}
    blocks |= {"ln_1": normal, "ln_2": normal, "up": linear(4 * D, D), "down": linear(D, 4 * D)}
    final = {"weight": np.ones(D, np.float32), "bias": np.zeros(D, np.float32)}
    positions = rng.standard_normal((CONTEXT, D), np.float32)
    tower = jax.tree.map(jnp.asarray, TextTower((), positions, blocks, final, np.eye(D, dtype=np.float32)))
    lengths = [PREFIX + LENGTHS[i % len(LENGTHS)] for i in range(classes)]
    texts = lay_out([[0] * n for n in lengths], PREFIX if form == "shared" else 0)
    rows = jnp.asarray(rng.standard_normal((classes, CONTEXT, D), np.float32))  # of every token, after the prefix
    if form == "plain":
        ends = np.arange(classes) * CONTEXT + np.array(lengths) - 1
        texts = Texts(np.zeros(0), np.tile(np.arange(CONTEXT), classes), ((classes, CONTEXT),), ends)
    order = np.argsort(lengths, kind="stable")
    x, y = rng.standard_normal((ROWS, D), np.float32), rng.integers(classes, size=ROWS)
    E = jnp.asarray(rng.standard_normal((classes, D), np.float32))
    w = random_generator(jax.random.key(0), D, PREFIX - 1)

    def loss(w: dict, tower: TextTower, rows: jax.Array, E: jax.Array) -> jax.Array:
        shared = jnp.concatenate([jnp.ones((1, D)), generate(w, E, jnp.ones(classes, bool))])
        if form == "plain":
            own = jnp.concatenate([jnp.broadcast_to(shared, (classes, PREFIX, D)), rows[:, PREFIX:]], axis=1)
            t = run_tower(Shape(HEADS), tower, own.reshape(-1, D), texts)
        elif form == "trimmed":
            whole = jnp.concatenate([jnp.broadcast_to(shared, (classes, PREFIX, D)), rows[:, PREFIX:]], axis=1)
            t = run_tower(Shape(HEADS), tower, jnp.concatenate([whole[i, : lengths[i]] for i in order]), texts)
        else:
            t = run_tower(
                Shape(HEADS), tower, jnp.concatenate([rows[i, PREFIX : lengths[i]] for i in order]), texts, shared
            )
        return cross_entropy(cosines(x, t), y, jnp.ones(ROWS))

    compiled = jax.jit(jax.value_and_grad(loss)).lower(w, tower, rows, E).compile()
    peak = compiled.memory_analysis().temp_size_in_bytes
    if psutil.virtual_memory().available < peak + SPARE:
        return {"seconds": np.nan, "loss": np.nan, "bytes": peak}
    found = jax.block_until_ready(compiled(w, tower, rows, E))[0]
    taken = best(lambda: jax.block_until_ready(compiled(w, tower, rows, E)), 1 if form == "plain" else 3)
    return {"seconds": taken, "loss": float(found), "bytes": peak}


def main() -> Iterator[Line | Fact]:
    for classes in CLASSES:
        found = {}
        for form in FORMS:
            command = [sys.executable, "-m", "benchmarks.text", form, str(classes)]
            found[form] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            assert not abs(found[form]["loss"] - found["shared"]["loss"]) > 1e-3, "the forms are one function"
        work = f"a step; {classes} classes, ViT-B/16's text tower, {ROWS} rows"
        for form, name in (("plain", "77 tokens"), ("trimmed", "trimmed at EOT")):
            yield Line(f"FedTPG: {name}", work, found["shared"]["seconds"], found[form]["seconds"])
        peaks = ", ".join(f"{form} {found[form]['bytes'] / 2**20:,.0f} MiB" for form in FORMS)
        yield Fact("FedTPG: memory of a step, beside the weights", work, peaks)


if __name__ == "__main__":
    print(json.dumps(step(sys.argv[1], int(sys.argv[2]))))
