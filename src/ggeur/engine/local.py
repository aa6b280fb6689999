"""Local training, compiled: many clients of like size take their steps side by side in one program.

The clients of a call share the matrix of embeddings and the bank of noise; what differs between
them are indices. The loop runs as many steps as the busiest client needs; a client that is done keeps its parameters.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from ggeur.engine.image_augmentation import ImageAugmentation
from ggeur.engine.training import Numbers, build_optimiser, steps_per_epoch
from ggeur.methods.algorithm import Recipe
from ggeur.methods.method import check_message
from ggeur.methods.parts import Batch, ClientData, LocalWork, Parts, Released
from ggeur.stats.augmented_sets import AugmentedSet
from ggeur.stats.geometry import LowRank
from ggeur.stats.seeding import VIEWS
from ggeur.stats.storage import cache_folder
from ggeur.stats.types import Tree


class ClientBatch(NamedTuple):
    """Inputs of a group of clients, stacked on axis 0."""

    sample: Any  # (L, n) into the base
    noise: Any  # (L, n) signed row of the bank
    y: Any  # (L, n)
    n: Any  # (L,) samples that are real
    class_count: Any  # (L, C)

    @classmethod
    def of(cls, sets: Sequence[AugmentedSet], width: int, n_classes: int) -> "ClientBatch":
        """The clients' `sets`, each filled up to `width` samples; labels are below `n_classes`."""

        def stacked(columns: list[NDArray[np.int32]]) -> NDArray[np.int32]:
            full = np.zeros((len(columns), width), np.int32)
            for line, column in zip(full, columns, strict=True):
                line[: len(column)] = column
            return full

        return cls(
            stacked([s.sample for s in sets]),
            stacked([s.noise for s in sets]),
            stacked([s.y for s in sets]),
            np.array([len(s.y) for s in sets], np.int32),
            np.stack([np.bincount(s.y, minlength=n_classes) for s in sets]).astype(np.int32),
        )


def folded_key(names: Any) -> jax.Array:
    """The random key of `names`, as (seed, purpose, round, client); where nothing is drawn, it is compiled away."""
    key = jax.random.key(names[0])
    for name in names[1:]:
        key = jax.random.fold_in(key, name)
    return key


def _rows(array: jax.Array, at: jax.Array) -> jax.Array:
    return array.at[at].get(mode="promise_in_bounds")


class _Selection(NamedTuple):
    """A client's set at some positions: rows of base and bank, labels, and which are not filling."""

    sample: jax.Array
    noise: jax.Array
    y: jax.Array
    real: jax.Array

    @classmethod
    def of(cls, inputs: ClientBatch, at: jax.Array) -> "_Selection":
        """Positions `at`; a negative one is filling."""
        inside = jnp.clip(at, 0, inputs.sample.shape[0] - 1)
        sample, noise, y = (_rows(a, inside) for a in (inputs.sample, inputs.noise, inputs.y))
        return cls(sample, noise, y, (at >= 0) & (at < inputs.n))

    def form(self, base: jax.Array, bank: jax.Array | None) -> Batch:
        """Return base[sample] + sign * bank[noise], in float32 whatever they are stored in."""
        dtype = jnp.promote_types(base.dtype, jnp.float32)
        x = _rows(base, self.sample).astype(dtype)
        if bank is not None:
            x = x + jnp.sign(self.noise).astype(dtype)[:, None] * _rows(bank, jnp.abs(self.noise)).astype(dtype)
        return Batch(x, self.y, self.real.astype(dtype))

    def stand_for(self, batch: Batch, shapes: LowRank) -> Batch:
        """Return the `batch` they form, whose samples with noise stand for draws along these `shapes`."""
        return batch._replace(drawn=(self.noise != 0).astype(batch.mask.dtype), shapes=shapes)


def _client_data(base: jax.Array, bank: jax.Array | None, inputs: ClientBatch, batch: int) -> ClientData:
    def take(at: jax.Array) -> Batch:
        return _Selection.of(inputs, at).form(base, bank)

    def fold(f: Callable[[Tree, Batch], Tree], start: Tree) -> Tree:
        def body(i: jax.Array, total: Tree) -> Tree:
            return f(total, take(i * batch + jnp.arange(batch)))

        return jax.lax.fori_loop(0, steps_per_epoch(inputs.sample.shape[0], batch), body, start)

    return ClientData(inputs.n, inputs.sample.shape[0], inputs.class_count, take, fold)


@lru_cache(maxsize=64)
def local_training(
    recipe: Recipe,
    optimiser: str,
    batch: int,
    *,
    one_server: bool,
    one_start: bool,
    pictures: ImageAugmentation | None = None,
) -> Callable[..., tuple[Tree, Tree, Tree, jax.Array]]:
    """Return the compiled steps of a round: messages, states, ends and losses of many clients.

    Its arguments: (base, bank, shapes, frozen, inputs, order, steps, longest, start, sent, client, names, numbers).

    `recipe` builds the method, `optimiser` is the kind of [train]'s, and steps take `batch` samples. All arguments but
    base, bank, shapes, frozen and longest are stacked over clients; so are `sent` and `numbers` unless there is
    `one_server`, and `start` unless there is `one_start`. The method is built around its numbers inside the program, so
    that other numbers are other arguments, and nothing is compiled anew. Where samples are `pictures`, a call is for
    one client: a convolution of every client's own weights, batched, is slower than one client after the other.
    """

    def train_client(
        base: jax.Array,
        bank: jax.Array | None,
        shapes: LowRank | None,
        frozen: Tree,
        inputs: ClientBatch,
        order: jax.Array,  # (longest possible * batch,)
        steps: jax.Array,
        longest: jax.Array,  # steps of the busiest client here
        start: Tree,
        sent: Released,
        client: Tree,
        names: jax.Array,
        numbers: Numbers,
    ) -> tuple[Tree, Tree, Tree, jax.Array]:
        method, learning_rate = recipe(numbers.method), numbers.learning_rate
        data = _client_data(base, bank, inputs, batch)
        context = {**sent, "client": client, "data": data, "frozen": frozen}
        key = folded_key(names)
        transform = method.optimiser(learning_rate) if method.optimiser else build_optimiser(optimiser, numbers)
        gradient = jax.value_and_grad(method.loss, has_aux=True)
        picked = _Selection.of(inputs, order)  # of all steps at once: small gathers inside the loop cost a sixth of it

        def step(t: jax.Array, state: tuple[Tree, Tree, Tree, jax.Array]) -> tuple[Tree, Tree, Tree, jax.Array]:
            params, memory, carry, total = state
            now = _Selection(*(jax.lax.dynamic_slice_in_dim(a, t * batch, batch) for a in picked))
            samples = now.form(base, bank)
            samples = samples if shapes is None else now.stand_for(samples, shapes)
            step_key = jax.random.fold_in(key, t)
            if pictures is not None:
                samples = samples._replace(x=pictures.vary(samples.x, jax.random.fold_in(step_key, VIEWS)))
            (loss, new_carry), g = gradient(params, samples, context, carry, step_key)
            update, new_memory = transform.update(g, memory, params)
            # Fused into both, the update would cost a copy of params and one of memory.
            update = jax.lax.optimization_barrier(update)  # type: ignore[no-untyped-call]
            new = optax.apply_updates(params, update), new_memory, new_carry, total + loss
            if pictures is not None:  # one client, and the loop is as long as that
                return new
            kept: tuple[Tree, Tree, Tree, jax.Array] = jax.tree.map(lambda a, b: jnp.where(t < steps, a, b), new, state)
            return kept

        zero = jnp.zeros((), jnp.result_type(*jax.tree.leaves(start)))
        begin = (start, method.recall(transform.init(start), context), method.begin(context), zero)
        end, memory, carry, total = jax.lax.fori_loop(0, longest, step, begin)
        upload_key = jax.random.fold_in(key, 2**32 - 1)  # no step has this number
        work = LocalWork(start, end, data, context, carry, steps, learning_rate, upload_key, memory)
        message, new_client = method.upload(work)
        check_message(method, "upload", message)
        return message, new_client, end, total / jnp.maximum(steps, 1)

    server = None if one_server else 0
    axes = (None, None, None, None, 0, 0, 0, None, None if one_start else 0, server, 0, 0, server)

    def alone(*stacked: Tree) -> Tree:
        one = [a if axis is None else jax.tree.map(lambda b: b[0], a) for a, axis in zip(stacked, axes, strict=True)]
        return jax.tree.map(lambda a: a[None], train_client(*one))

    return jax.jit(jax.vmap(train_client, in_axes=axes) if pictures is None else alone)


@lru_cache(maxsize=64)
def preparation(recipe: Recipe, batch: int) -> Callable[..., Tree]:
    """(base, bank, inputs, names, the method's numbers) -> every client's message before round 1.

    `recipe` builds the method around its numbers; its samples come in batches of `batch`. All arguments but base and
    bank are stacked over clients.
    """

    def prepare_client(
        base: jax.Array, bank: jax.Array | None, inputs: ClientBatch, names: jax.Array, numbers: Tree
    ) -> Parts:
        method = recipe(numbers)
        message = method.prepare(_client_data(base, bank, inputs, batch), folded_key(names))
        check_message(method, "prepare", message)
        return message

    return jax.jit(jax.vmap(prepare_client, in_axes=(None, None, 0, 0, 0)))


def power_of_two(n: int) -> int:
    """Return the least power of two not below `n`; arrays are filled up to it, so that few programs are compiled.

    >>> [power_of_two(n) for n in (0, 1, 5, 8)]
    [1, 1, 8, 8]
    """
    return 1 << max(n - 1, 0).bit_length()


def keep_compiled_programs() -> None:
    """Turn on JAX's persistent compilation cache, unless the user has set one up already."""
    config: Any = jax.config
    if config.jax_compilation_cache_dir is None:
        config.update("jax_compilation_cache_dir", str(cache_folder() / "jax"))
        config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
