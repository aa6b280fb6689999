"""The paper's datasets: domains, sizes, the names of their files, and how its experiments deal them out to clients."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ggeur.data import readers_native as native
from ggeur.data.readers import Read, Split, domain_folders, folders
from ggeur.data.readers_hub import Hub


class Source(NamedTuple):
    """One origin of pictures: native files, found by their names below a root, or the hub."""

    domains: tuple[str, ...]
    places: tuple[str, ...]  # folders to look in, as `plain` spells them
    complete: Callable[[Path], bool]  # are the native files in this folder?
    read: Callable[[Path], Read]
    get: str  # what to get, for a user who does not have it
    hub: Hub | None = None


@dataclass(frozen=True)
class Dataset:
    """A dataset of the paper; `partition` is how its experiments deal it out, `share` what is taken in advance."""

    name: str
    n_classes: int
    images: str
    sources: tuple[Source, ...]
    partition: Mapping[str, Any] = field(default_factory=dict)
    share: float | None = None

    @property
    def domains(self) -> tuple[str, ...]:
        return tuple(domain for source in self.sources for domain in source.domains)


def plain(name: str) -> str:
    """A name without case, blanks and punctuation: spellings of one folder differ in these."""
    return "".join(ch for ch in name.lower() if ch.isalnum())


def _holds(*names: str) -> Callable[[Path], bool]:
    return lambda folder: all((folder / name).is_file() for name in names)


def _domain(name: str, read: Callable[[Path], tuple[tuple[str, ...], Split]]) -> Callable[[Path], Read]:
    """A reader of one domain as a reader of several."""

    def whole(folder: Path) -> Read:
        class_names, split = read(folder)
        return class_names, {name: split}

    return whole


def _tree(domains: Mapping[str, tuple[str, ...]], places: tuple[str, ...], get: str, hub: Hub | None = None) -> Source:
    """A source whose native form is `<domain>/<class>/*`; each domain with other spellings of its folder."""
    spelt = {plain(spelling): name for name, others in domains.items() for spelling in (name, *others)}

    def complete(folder: Path) -> bool:
        return {spelt.get(plain(child.name)) for child in folders(folder)}.issuperset(domains)

    def read(folder: Path) -> Read:
        return domain_folders(folder, lambda name: spelt.get(plain(name)))

    return Source(tuple(domains), places, complete, read, get, hub)


def _has_mnist(folder: Path) -> bool:
    stems = [f"{part}-{kind}" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
    return all(native.mnist_file(folder, stem) for stem in stems)


_SYN_MAT = ("synth_train_32x32.mat", "synth_test_32x32.mat")


def _has_syn(folder: Path) -> bool:
    as_folders = plain(folder.name) in _SYN_PLACES and all(native.syn_halves(folder))
    return _holds(*_SYN_MAT)(folder) or as_folders


def _read_syn(folder: Path) -> tuple[tuple[str, ...], Split]:
    return native.syn_mat(folder) if _holds(*_SYN_MAT)(folder) else native.syn_folders(folder)


_SYN_PLACES = ("syn", "synth", "syndigits", "synthdigits", "syntheticdigits")
_ONE_DOMAIN = ("all",)
_CIFAR = "https://www.cs.toronto.edu/~kriz/cifar.html"
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass.html"

_DIGITS = (
    Source(
        ("mnist",), ("digits", "mnist"), _has_mnist, _domain("mnist", native.mnist),
        "its four idx files (train-images-idx3-ubyte.gz and so on) from https://ossci-datasets.s3.amazonaws.com/mnist",
        Hub("ylecun/mnist", test="test"),
    ),
    Source(
        ("usps",), ("digits", "usps"), _holds("usps.bz2", "usps.t.bz2"), _domain("usps", native.usps),
        f"usps.bz2 and usps.t.bz2 from {_LIBSVM}",
        Hub("flwrlabs/usps", test="test"),
    ),
    Source(
        ("svhn",), ("digits", "svhn"), _holds("train_32x32.mat", "test_32x32.mat"), _domain("svhn", native.svhn),
        "train_32x32.mat and test_32x32.mat from http://ufldl.stanford.edu/housenumbers",
        Hub("ufldl-stanford/svhn", test="test", config="cropped_digits"),
    ),
    Source(
        ("syn",), ("digits", *_SYN_PLACES), _has_syn, _domain("syn", _read_syn),
        "Synthetic Digits (Ganin and Lempitsky, 2015), either synth_train_32x32.mat and synth_test_32x32.mat or images "
        "in syn/train/<digit>/ and syn/val/<digit>/; it is not on the hub",
    ),
)  # fmt: skip

_OFFICE_CALTECH = _tree(
    {"amazon": (), "caltech": ("caltech10",), "dslr": (), "webcam": ()},
    ("officecaltech", "officecaltech10", "office10"),
    "Office-Caltech-10 (Gong and others, 2012) as office_caltech_10/<domain>/<class>/*; it is not on the hub",
)
_PACS = _tree(
    {"art_painting": ("art",), "cartoon": (), "photo": (), "sketch": ()},
    ("pacs", "pacsdata", "kfold"),
    "PACS (Li and others, 2017) as PACS/<domain>/<class>/*",
    Hub("flwrlabs/pacs", domain="domain"),
)
_OFFICE_HOME = _tree(
    {"Art": (), "Clipart": (), "Product": (), "Real World": ()},
    ("officehome", "officehomedataset", "officehomedataset10072016"),
    "Office-Home from https://www.hemanthdv.org/officeHomeDataset.html as OfficeHome/<domain>/<class>/*",
    Hub("flwrlabs/office-home", domain="domain"),
)
_CIFAR10 = Source(
    _ONE_DOMAIN, ("cifar10", "cifar10python", "cifar10batchespy"),
    _holds("batches.meta", "test_batch", *(f"data_batch_{i}" for i in range(1, 6))), _domain("all", native.cifar10),
    f"the Python version of CIFAR-10 from {_CIFAR} and unpack it (cifar-10-batches-py)",
    Hub("uoft-cs/cifar10", image="img", test="test"),
)  # fmt: skip
_CIFAR100 = Source(
    _ONE_DOMAIN, ("cifar100", "cifar100python"), _holds("meta", "train", "test"), _domain("all", native.cifar100),
    f"the Python version of CIFAR-100 from {_CIFAR} and unpack it (cifar-100-python)",
    Hub("uoft-cs/cifar100", image="img", label="fine_label", test="test"),
)  # fmt: skip
_TINY = Source(
    _ONE_DOMAIN, ("tinyimagenet", "tinyimagenet200"), _holds("wnids.txt", "words.txt", "val/val_annotations.txt"),
    _domain("all", native.tiny_imagenet),
    "http://cs231n.stanford.edu/tiny-imagenet-200.zip and unpack it",
    Hub("zh-plus/tiny-imagenet", test="valid"),
)  # fmt: skip

_LABEL_SKEW = {"kind": "dirichlet", "clients": 10}
DATASETS: dict[str, Dataset] = {
    d.name: d
    for d in (
        Dataset("cifar10", 10, "50,000 + 10,000", (_CIFAR10,), _LABEL_SKEW),
        Dataset("cifar100", 100, "50,000 + 10,000", (_CIFAR100,), _LABEL_SKEW),
        Dataset("tiny-imagenet", 200, "100,000 + 10,000", (_TINY,), _LABEL_SKEW),
        Dataset("digits", 10, "10 % of each + its test set", _DIGITS, {"kind": "domain", "share": 0.1}, share=0.1),
        Dataset("office-caltech", 10, "2,533", (_OFFICE_CALTECH,), {"kind": "domain", "share": 0.3}),
        Dataset("pacs", 7, "9,991", (_PACS,), {"kind": "domain", "share": 0.3}),
        Dataset("office-home", 65, "15,588", (_OFFICE_HOME,), {"kind": "domain", "share": 0.3}),
        Dataset("office-home-lds", 65, "15,588", (_OFFICE_HOME,), {"kind": "label-and-domain"}),
    )
}
