"""Image augmentation: a step changes pictures a little at random, as the benchmark does in training.

crop: four black pixels on every side, and a part of the old size; flip: half of them mirrored. photo: a part of 70 to
100 % of the area stretched to the old size, mirrored or not, colours changed, one in ten grey. All of it acts on bytes'
values, 0 to 255, before the network normalises them.
"""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

Views = Literal["none", "crop", "crop-flip", "photo"]
_PAD = 4
_AREA, _RATIO = (0.7, 1.0), (3 / 4, 4 / 3)  # of a part of a photograph
_JITTER, _GREY = 0.4, 0.1
_LUMA = (0.299, 0.587, 0.114)


class ImageAugmentation(NamedTuple):
    """The kind of pictures that clients hold."""

    side: int
    views: Views

    def vary(self, x: jax.Array, key: jax.Array) -> jax.Array:
        """Samples `x` (B, 3 S S) as a step sees them; every picture draws by itself."""
        if self.views == "none":
            return x
        pictures = x.reshape(-1, self.side, self.side, 3)
        return jax.vmap(_VARY[self.views])(pictures, jax.random.split(key, len(x))).reshape(x.shape)


def views_of(pixels: int, dataset: Any) -> Views:
    """The benchmark's, by a picture's size and the name of its dataset: digits are never mirrored."""
    if dataset in ("cifar10", "cifar100", "tiny-imagenet"):
        return "crop-flip"
    return "photo" if pixels > 32 else "crop"


def _crop(picture: jax.Array, key: jax.Array) -> jax.Array:
    padded = jnp.pad(picture, ((_PAD, _PAD), (_PAD, _PAD), (0, 0)))
    top, left = jax.random.randint(key, (2,), 0, 2 * _PAD + 1)
    return jax.lax.dynamic_slice(padded, (top, left, 0), picture.shape)


def _crop_flip(picture: jax.Array, key: jax.Array) -> jax.Array:
    part, mirror = jax.random.split(key)
    return _mirrored(_crop(picture, part), mirror)


def _photo(picture: jax.Array, key: jax.Array) -> jax.Array:
    part, mirror, colours, grey = jax.random.split(key, 4)
    return _greyed(_coloured(_mirrored(_stretched_part(picture, part), mirror), colours), grey)


def _mirrored(picture: jax.Array, key: jax.Array) -> jax.Array:
    """Left for right, or not."""
    return jnp.where(jax.random.bernoulli(key), picture[:, ::-1], picture)


def _stretched_part(picture: jax.Array, key: jax.Array) -> jax.Array:
    """A part of random area, form and place; bilinear."""
    area, ratio, *at = jax.random.uniform(key, (4,))
    share = _AREA[0] + area * (_AREA[1] - _AREA[0])
    form = jnp.exp(jnp.log(_RATIO[0]) + ratio * jnp.log(_RATIO[1] / _RATIO[0]))
    sides = jnp.minimum(jnp.sqrt(share * jnp.stack([1 / form, form])), 1.0)  # of the height, and of the width
    first = jnp.stack(at) * (1 - sides) * picture.shape[0]
    found: jax.Array = jax.image.scale_and_translate(
        picture, picture.shape, (0, 1), 1 / sides, -first / sides, method="linear", antialias=True
    )
    return found


def _coloured(picture: jax.Array, key: jax.Array) -> jax.Array:
    """Brightness, contrast, saturation and hue, in this order, each by a random share."""
    bright, contrast, colour, hue = jax.random.uniform(key, (4,), minval=-_JITTER, maxval=_JITTER)
    x = jnp.clip(picture * (1 + bright), 0, 255)
    x = jnp.clip(_blend(x, _luma(x).mean(), 1 + contrast), 0, 255)
    x = jnp.clip(_blend(x, _luma(x), 1 + colour), 0, 255)
    return _turned(x, hue)


def _greyed(picture: jax.Array, key: jax.Array) -> jax.Array:
    return jnp.where(jax.random.bernoulli(key, _GREY), jnp.broadcast_to(_luma(picture), picture.shape), picture)


def _luma(x: jax.Array) -> jax.Array:
    return (x @ jnp.array(_LUMA))[..., None]


def _blend(x: jax.Array, other: jax.Array, share: jax.Array) -> jax.Array:
    return share * x + (1 - share) * other


def _turned(x: jax.Array, turn: jax.Array) -> jax.Array:
    """The hue by a share of the circle; value and chroma stay (Smith, SIGGRAPH 1978)."""
    value, least = x.max(axis=-1), x.min(axis=-1)
    chroma = value - least
    r, g, b = jnp.moveaxis(x, -1, 0)
    safe = jnp.where(chroma > 0, chroma, 1)
    sector = jnp.where(value == r, (g - b) / safe, jnp.where(value == g, 2 + (b - r) / safe, 4 + (r - g) / safe))
    at = (jnp.array([5.0, 3.0, 1.0]) + (sector + 6 * turn)[..., None]) % 6
    return value[..., None] - chroma[..., None] * jnp.clip(jnp.minimum(at, 4 - at), 0, 1)


_VARY = {"crop": _crop, "crop-flip": _crop_flip, "photo": _photo}
