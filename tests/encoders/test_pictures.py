"""Image files of every kind that users have: read rightly, or refused with the reason."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from ggeur.encoders.pictures import Unreadable, to_rgb
from refusal import refused

RNG = np.random.default_rng(0)
PHOTO = np.clip(np.add.outer(np.arange(24) * 6, np.arange(40) * 3)[..., None] + [0, 20, 40], 0, 255).astype(np.uint8)


def file_of(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def test_an_ordinary_file_gives_its_pixels():
    np.testing.assert_array_equal(to_rgb(file_of(Image.fromarray(PHOTO), "PNG")), PHOTO)


def test_greyscale_is_spread_over_three_channels():
    grey = Image.fromarray(PHOTO[..., 0])
    for picture in (file_of(grey, "PNG"), PHOTO[..., 0]):
        np.testing.assert_array_equal(to_rgb(picture), np.repeat(PHOTO[..., :1], 3, axis=2))


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_keep_their_brightness(kind):
    deep = (PHOTO[..., 0].astype(np.uint16) << 8) + 37
    np.testing.assert_array_equal(to_rgb(file_of(Image.fromarray(deep), kind))[..., 0], PHOTO[..., 0])


def test_cmyk_is_converted():
    rgb = to_rgb(file_of(Image.fromarray(PHOTO).convert("CMYK"), "JPEG", quality=98))
    assert np.abs(rgb.astype(int) - PHOTO).mean() < 3


@pytest.mark.parametrize("orientation, turn", [(3, 2), (6, 3), (8, 1)])
def test_exif_rotation_is_undone(orientation, turn):
    exif = Image.Exif()
    exif[274] = orientation
    stored = np.rot90(PHOTO, -turn)
    upright = to_rgb(file_of(Image.fromarray(stored), "JPEG", exif=exif, quality=98, subsampling=0))
    assert upright.shape == PHOTO.shape and np.abs(upright.astype(int) - PHOTO).mean() < 3


def test_palettes_and_transparency_lie_on_white():
    clear = Image.new("RGBA", (4, 4), (255, 0, 0, 0))
    assert (to_rgb(file_of(clear, "PNG")) == 255).all()
    palette = Image.fromarray(PHOTO).quantize(16)
    np.testing.assert_array_equal(to_rgb(file_of(palette, "PNG")), np.asarray(palette.convert("RGB")))


def bomb(width=30_000, height=30_000):
    """A PNG of a few bytes that claims to be huge."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(
    "content, reason",
    [
        (b"", "image-file-empty"),
        (b"just some text", "image-format-unknown"),
        (file_of(Image.fromarray(PHOTO), "JPEG")[:-60], "image-undecodable"),
        (file_of(Image.fromarray(PHOTO), "PNG")[:60], "image-undecodable"),
        (bomb(), "image-undecodable"),
        (bomb(10_000, 10_000), "image-too-large: 10000 x 10000"),
        (file_of(Image.fromarray(PHOTO[..., 0].astype(np.int32)), "TIFF"), "image-depth-unsupported: 32 bits"),
        (file_of(Image.fromarray(PHOTO[..., 0].astype(np.float32)), "TIFF"), "image-depth-unsupported: 32 bits"),
    ],
)
def test_what_cannot_be_read_says_why(content, reason):
    with refused(reason, Unreadable):
        to_rgb(content)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_random_damage_is_refused_or_read_but_never_anything_else():
    whole = file_of(Image.fromarray(RNG.integers(0, 256, (40, 40, 3), np.uint8)), "JPEG")
    for _ in range(200):
        damaged = bytearray(whole)
        for at in RNG.integers(0, len(whole), 5):
            damaged[at] = RNG.integers(256)
        try:
            assert to_rgb(bytes(damaged)).shape[2] == 3
        except Unreadable as error:
            assert str(error)
