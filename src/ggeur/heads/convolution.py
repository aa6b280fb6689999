"""Convolutions as matrix products, which is how a processor is fastest at them inside a compiled loop of steps.

XLA's own convolution is an order of magnitude slower there. Any kernel can be a product of patches. Of a 3 x 3 kernel
that keeps the side, every 2 x 2 places can be had with 16 multiplications in the place of 36: F(2 x 2, 3 x 3) of Lavin
and Gray (CVPR 2016), Y = A' [(G g G') * (B' d B)] A for a tile d of 4 x 4 and a kernel g, where * is a product of
matrices over channels for each of the 16 numbers.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

Transform = Callable[[Sequence[jax.Array]], Sequence[jax.Array]]
Rest = tuple[jax.Array, jax.Array]
_PLACES = 256  # tiles, and so rows of a product, that are worked on at once: enough for one, few enough for a cache


def convolve(x: jax.Array, kernel: jax.Array, stride: int = 1) -> jax.Array:
    """Pictures `x` (n, H, W, c) under a `kernel` (k, k, c, o) of odd side: (n, H, W, o), sides divided by `stride`."""
    n, h, w, _ = x.shape
    k = len(kernel)
    if (k, stride, h % 2, w % 2) == (3, 1, 0, 0) and n * h * w >= 4 * _PLACES:
        return _in_tiles(x, kernel)
    padded = jnp.pad(x, ((0, 0), (k // 2, k // 2), (k // 2, k // 2), (0, 0)))
    return patches(padded, k, stride) @ kernel.reshape(-1, kernel.shape[3])


def patches(x: jax.Array, k: int, stride: int = 1) -> jax.Array:
    """(n, H, W, k k c): what each place of a k x k convolution sees, which is then a matrix product."""
    h, w = (stride * ((size - k) // stride) + 1 for size in x.shape[1:3])
    return jnp.concatenate([x[:, i : i + h : stride, j : j + w : stride] for i in range(k) for j in range(k)], axis=-1)


@jax.custom_vjp
def _in_tiles(x: jax.Array, kernel: jax.Array) -> jax.Array:
    return _forward(x, kernel)[0]


def _forward(x: jax.Array, kernel: jax.Array) -> tuple[jax.Array, Rest]:
    u = _kernels(kernel)
    y = jax.lax.map(lambda part: _joined(_tiles(part) @ u, part.shape), _parts(x))
    return y.reshape(*x.shape[:3], -1), (x, u)


def _backward(rest: Rest, dy: jax.Array) -> tuple[jax.Array, jax.Array]:
    """To pictures, a convolution with the kernel turned round; in tiles that exchanges places 0 and 3."""
    x, u = rest
    turned = u.reshape(4, 4, *u.shape[1:])[jnp.array([3, 1, 2, 0])][:, jnp.array([3, 1, 2, 0])]
    turned = turned.reshape(u.shape).swapaxes(1, 2)

    def part(du: jax.Array, of: Rest) -> Rest:
        own, d = of
        return du + _tiles(own).swapaxes(1, 2) @ _spread(d), _joined(_tiles(d) @ turned, own.shape)

    du, dx = jax.lax.scan(part, jnp.zeros_like(u), (_parts(x), _parts(dy)))
    (dkernel,) = jax.linear_transpose(_kernels, jnp.zeros((3, 3, *u.shape[1:]), u.dtype))(du)
    return dx.reshape(x.shape), dkernel


_in_tiles.defvjp(_forward, _backward)


def _parts(x: jax.Array) -> jax.Array:
    """Pictures in equal parts, each the least that has enough places."""
    n, tiles = len(x), x.shape[1] * x.shape[2] // 4
    size = next(size for size in range(1, n + 1) if n % size == 0 and (size * tiles >= _PLACES or size == n))
    return x.reshape(n // size, size, *x.shape[1:])


def _tiles(x: jax.Array) -> jax.Array:
    """B' d B of every tile of 4 x 4, two apart: (16, places, c)."""
    n, h, w, c = (size // part for size, part in zip(x.shape, (1, 2, 2, 1), strict=True))
    pairs = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))).reshape(n, h + 1, 2, w + 1, 2, c)
    d = [[pairs[:, i // 2 : i // 2 + h, i % 2, j // 2 : j // 2 + w, j % 2] for j in range(4)] for i in range(4)]
    return _both_ways(lambda d: (d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]), d).reshape(16, -1, c)


def _kernels(g: jax.Array) -> jax.Array:
    """G g G': (16, c, o)."""
    return _both_ways(lambda g: (g[0], (g[0] + g[1] + g[2]) / 2, (g[0] - g[1] + g[2]) / 2, g[2]), g)


def _joined(m: jax.Array, shape: Sequence[int]) -> jax.Array:
    """A' m A, the 2 x 2 places of every tile, as pictures of this `shape`."""
    n, h, w = shape[0], shape[1] // 2, shape[2] // 2
    y = _both_ways(lambda m: (m[0] + m[1] + m[2], m[1] - m[2] - m[3]), m.reshape(4, 4, n, h, w, -1))
    return y.reshape(2, 2, n, h, w, -1).transpose(2, 3, 0, 4, 1, 5).reshape(n, 2 * h, 2 * w, -1)


def _spread(dy: jax.Array) -> jax.Array:
    """A dy A', what `_joined` is transposed: (16, places, o)."""
    n, h, w, o = (size // part for size, part in zip(dy.shape, (1, 2, 2, 1), strict=True))
    y = dy.reshape(n, h, 2, w, 2, o)
    of = [[y[:, :, i, :, j] for j in range(2)] for i in range(2)]
    return _both_ways(lambda y: (y[0], y[0] + y[1], y[0] - y[1], -y[1]), of).reshape(16, -1, o)


def _both_ways(transform: Transform, grid: Any) -> jax.Array:
    """Apply the `transform` to every row of a `grid` of arrays, then to every column, one behind the other."""
    samples = [transform(sample) for sample in grid]
    columns = [transform(column) for column in zip(*samples, strict=True)]
    return jnp.stack([cell for sample in zip(*columns, strict=True) for cell in sample])
