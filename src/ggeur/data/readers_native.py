"""Read the datasets' own files as published: CIFAR pickles, MNIST idx, SVHN .mat, USPS .bz2, the Tiny-ImageNet tree."""

import gzip
import pickle
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.data.image_set import ImageSet, Item, Part, Picture, Split, pixels
from ggeur.data.readers import files, folders, picture_files, plain_name, printable
from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import cannot

DIGITS = tuple(map(str, range(10)))
Domain = tuple[tuple[str, ...], Split]  # class names and the pictures
_SYN_MAT = ("synth_train_32x32.mat", "synth_test_32x32.mat")
_SYN_FOLDERS = ("syn", "synth", "syndigits", "synthdigits", "syntheticdigits")


def cifar10(folder: Path) -> Domain:
    """`cifar-10-batches-py`."""
    names = _unpickle(folder / "batches.meta", "label_names")[0]
    train = [_cifar_batch(folder / f"data_batch_{i}", "labels", len(names)) for i in range(1, 6)]
    test = _cifar_batch(folder / "test_batch", "labels", len(names))
    return _texts(names), Split(_join(train), test)


def cifar100(folder: Path) -> Domain:
    """`cifar-100-python`, fine labels."""
    names = _unpickle(folder / "meta", "fine_label_names")[0]
    train, test = (_cifar_batch(folder / part, "fine_labels", len(names)) for part in ("train", "test"))
    return _texts(names), Split(train, test)


def mnist(folder: Path) -> Domain:
    """The four idx files, gzipped or not."""

    def part(prefix: str) -> Part:
        images, labels = (_mnist_file(folder, f"{prefix}-{kind}") for kind in ("images-idx3", "labels-idx1"))
        assert images is not None and labels is not None  # the folder was found by them
        return _part(_idx(images, 3), _idx(labels, 1), images, 10)

    return DIGITS, Split(part("train"), part("t10k"))


def has_mnist(folder: Path) -> bool:
    """Return whether all four idx files are in this folder."""
    stems = [f"{part}-{kind}" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
    return all(_mnist_file(folder, stem) for stem in stems)


def _mnist_file(folder: Path, stem: str) -> Path | None:
    """An idx file under the names in use: a dash or a full stop before idx, gzipped or not."""
    names = [f"{s}-ubyte{end}" for s in (stem, stem.replace("-idx", ".idx")) for end in ("", ".gz")]
    return next((folder / name for name in names if (folder / name).is_file()), None)


def svhn(folder: Path) -> Domain:
    """`train_32x32.mat` and `test_32x32.mat`."""
    return DIGITS, Split(_mat(folder / "train_32x32.mat"), _mat(folder / "test_32x32.mat"))


def syn(folder: Path) -> Domain:
    """Synthetic Digits as published by their authors, in the layout of SVHN, or as images.

    Images lie in `train/<digit>/*` and `val/<digit>/*` or under another of the names in use.
    """
    if _has_syn_mat(folder):
        train, test = (_mat(folder / name) for name in _SYN_MAT)
        return DIGITS, Split(train, test)
    halves = _syn_halves(folder)
    train, test = (_class_tree(half, DIGITS) for half in halves if half is not None)
    return DIGITS, Split(train, test)


def has_syn(folder: Path) -> bool:
    """Return whether Synthetic Digits are in this folder; where they are images only its name says so."""
    return _has_syn_mat(folder) or (plain_name(folder.name) in _SYN_FOLDERS and all(_syn_halves(folder)))


def _has_syn_mat(folder: Path) -> bool:
    return all((folder / name).is_file() for name in _SYN_MAT)


def _syn_halves(folder: Path) -> tuple[Path | None, Path | None]:
    def named(*names: str) -> Path | None:
        return next((folder / name for name in names if (folder / name).is_dir()), None)

    return named("train", "imgs_train"), named("val", "valid", "imgs_valid", "test")


def usps(folder: Path) -> Domain:
    """`usps.bz2` and `usps.t.bz2`, LIBSVM's text: label 1..10, then 256 values between -1 and 1."""
    return DIGITS, Split(_usps_file(folder / "usps.bz2"), _usps_file(folder / "usps.t.bz2"))


def tiny_imagenet(folder: Path) -> Domain:
    """`tiny-imagenet-200`: train by folder; val, by its annotations, serves as the test set."""
    wnids = (folder / "wnids.txt").read_text(encoding="utf-8").split()
    words = dict(line.split("\t", 1) for line in _lines(folder / "words.txt") if "\t" in line)
    code = {wnid: c for c, wnid in enumerate(wnids)}
    train = _class_tree(folder / "train", wnids, inside="images")
    test = []
    annotations = folder / "val" / "val_annotations.txt"
    for line in _lines(annotations):
        name, wnid = line.split("\t")[:2]
        if wnid not in code:
            raise GgeurError(
                f"{printable(annotations)} names a class {wnid} that wnids.txt lacks.", code="dataset-class-unknown"
            )
        test.append((folder / "val" / "images" / name, code[wnid]))
    firsts = [words.get(wnid, wnid).split(",")[0] for wnid in wnids]
    names = tuple(f"{n} ({w})" if firsts.count(n) > 1 else n for n, w in zip(firsts, wnids, strict=True))
    return names, Split(train, picture_files(test))


def _class_tree(folder: Path, classes: Sequence[str], inside: str = "") -> Part:
    """Pictures of `folder/<class>/[inside/]*`; a folder that is no class is refused."""
    code = {name: c for c, name in enumerate(classes)}
    found = folders(folder)
    for child in found:
        if child.name not in code:
            raise GgeurError(
                f"{printable(child)} is not one of the {len(classes)} classes; move it away.",
                code="dataset-folder-unexpected",
            )
    return picture_files((path, code[child.name]) for child in found for path in files(child / inside))


# ---------------------------------------------------------------- single files


class _NumbersOnly(pickle.Unpickler):
    """Unpickles arrays, numbers, text and their containers; a file that asks for anything else is refused."""

    _ALLOWED = frozenset({
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("_codecs", "encode"),
    })  # fmt: skip

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no picture needs")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def _unpickle(path: Path, *keys: str) -> list[Any]:
    """The values under `keys` of a pickled dict whose strings are Python 2's."""
    with _readable(path), path.open("rb") as file:
        content = _NumbersOnly(file, encoding="bytes").load()
        return [content[key.encode()] if key.encode() in content else content[key] for key in keys]


def _cifar_batch(path: Path, labels: str, n_classes: int) -> Part:
    data, y = _unpickle(path, "data", labels)
    with _readable(path):
        images = np.asarray(data, np.uint8).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        return _part(images, np.asarray(y, np.int64), path, n_classes)


def _idx(path: Path, rank: int) -> NDArray[np.uint8]:
    """An idx file of bytes: a magic number, the sizes, the values, all big-endian."""
    with _readable(path), gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        head = file.read(4 + 4 * rank)
        magic, *shape = struct.unpack(f">{1 + rank}i", head)
        if magic != 0x0800 + rank:
            raise ValueError(f"the magic number is {magic} and not {0x0800 + rank}")
        return np.frombuffer(file.read(), np.uint8).reshape(shape)


def _mat(path: Path) -> Part:
    """A MATLAB file with X (32, 32, 3, N) and y (N, 1), where the digit 0 has the label 10."""
    from scipy.io import loadmat

    with _readable(path):
        content = loadmat(path, variable_names=("X", "y"))
        images = np.ascontiguousarray(content["X"].transpose(3, 0, 1, 2))
        return _part(images, content["y"].ravel().astype(np.int64) % 10, path, 10)


def _usps_file(path: Path) -> Part:
    from sklearn.datasets import load_svmlight_file

    with _readable(path):
        values, labels = load_svmlight_file(path, n_features=256, zero_based=False)
        grey = ((np.clip(values.toarray(), -1, 1) + 1) / 2 * 255).astype(np.uint8)
        return _part(grey.reshape(-1, 16, 16), labels.astype(np.int64) - 1, path, 10)


def _part(images: NDArray[np.uint8], labels: NDArray[Any], path: Path, n_classes: int) -> Part:
    part = pixels(images, labels, printable(path))
    if len(part.items) != len(part.y) or not ((part.y >= 0) & (part.y < n_classes)).all():
        raise GgeurError(
            f"{printable(path)} is damaged: images and labels do not fit; download it again.",
            code="dataset-file-damaged",
        )
    return part


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Failures within the block become one sentence that names the file: damaged ones raise a dozen types."""
    try:
        with cannot(f"read {printable(path)}"):
            yield
    except GgeurError:
        raise
    except Exception as error:
        raise GgeurError(
            f"{printable(path)} is damaged or in another format ({error}); download it again.",
            code="dataset-file-damaged",
        ) from error


def _lines(path: Path) -> list[str]:
    with _readable(path):
        return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _texts(names: Sequence[Any]) -> tuple[str, ...]:
    return tuple(n.decode() if isinstance(n, bytes) else str(n) for n in names)


def _join(parts: Sequence[Part]) -> Part:
    return Part([item for p in parts for item in p.items], np.concatenate([p.y for p in parts]))


_SIDE = 32


def garbled(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a picture (32, 32, 3) as the benchmark standardises it."""
    from PIL import Image

    read = np.ascontiguousarray(picture.transpose(2, 0, 1)).ravel()[: 3 * _SIDE * 3].reshape(3, _SIDE, 3)
    return np.asarray(Image.fromarray(read).resize((_SIDE, _SIDE), Image.Resampling.BILINEAR))


def as_benchmark(images: ImageSet) -> ImageSet:
    """Return the same pictures, those of the domain svhn garbled."""
    if "svhn" not in images.domain_names:
        raise GgeurError(
            '[data] svhn = "as-benchmark" is for a dataset with the domain svhn, such as digits.',
            code="settings-svhn-domain",
        )
    theirs = images.domain == images.domain_names.index("svhn")
    items = [
        Item(item.where, partial(_read, item.read)) if one else item
        for item, one in zip(images.items, theirs, strict=True)
    ]
    return replace(images, items=items, meta={**images.meta, "svhn": "as-benchmark"})


def _read(read: Callable[[], Picture]) -> NDArray[np.uint8]:
    picture = read()
    if isinstance(picture, bytes) or picture.shape != (_SIDE, _SIDE, 3):
        raise GgeurError(
            "SVHN as the benchmark reads it needs pixels of 32 x 32 from its own files, not image files.",
            code="dataset-svhn-pixels",
        )
    return garbled(picture)
