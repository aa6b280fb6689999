"""Datasets by name, from files written byte for byte in the layout in which their authors publish them."""

import bz2
import gzip
import io
import pickle
import struct
import subprocess
import sys

import numpy as np
import pytest
from scipy.io import savemat

from ggeur.data.datasets import DATASETS, find, load, paper_partition
from ggeur.experiments.grid import Experiment
from refusal import refused

RNG = np.random.default_rng(0)
CIFAR10 = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def png(colour=(200, 30, 30), size=(8, 8)):
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, "PNG")
    return file.getvalue()


# ---------------------------------------------------------------- CIFAR: pickles by Python 2


def python2_string(value: bytes) -> bytes:
    return b"U" + bytes([len(value)]) + value if len(value) < 256 else b"T" + struct.pack("<i", len(value)) + value


def python2_pickle(content: dict[bytes, object]) -> bytes:
    """Protocol 2 as cPickle of Python 2 wrote it: byte strings, and arrays by numpy.core.multiarray."""

    def value(v):
        if isinstance(v, bytes):
            return python2_string(v)
        if isinstance(v, int):
            return b"K" + bytes([v])
        if isinstance(v, list):
            return b"](" + b"".join(map(value, v)) + b"e"
        shape = b"".join(b"M" + struct.pack("<H", n) for n in v.shape)
        return (
            b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85" + python2_string(b"b") + b"tR"
            b"(K\x01" + shape + b"\x86cnumpy\ndtype\n(" + python2_string(b"u1") + b"K\x00K\x01tR(K\x03"
            + python2_string(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89" + python2_string(v.tobytes())
            + b"tb"
        )  # fmt: skip

    return b"\x80\x02}(" + b"".join(python2_string(k) + value(v) for k, v in content.items()) + b"u."


def write_cifar10(root, each=3):
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    names = [n.encode() for n in CIFAR10]
    (folder / "batches.meta").write_bytes(python2_pickle({b"num_cases_per_batch": 3, b"label_names": names}))
    data = {}
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        x, y = RNG.integers(0, 256, (each, 3072), np.uint8), RNG.integers(0, 10, each).tolist()
        data[name] = x, y
        batch = {b"batch_label": name.encode(), b"labels": y, b"data": x, b"filenames": [b"a.png"] * each}
        (folder / name).write_bytes(python2_pickle(batch))
    return data


def test_cifar10(tmp_path):
    data = write_cifar10(tmp_path)
    images = load("cifar10", tmp_path)
    assert images.class_names == tuple(CIFAR10) and images.domain_names == ("all",)
    assert images.test.tolist() == [False] * 15 + [True] * 3
    assert images.y.tolist() == [label for _, labels in data.values() for label in labels]
    second = images.items[4].read()
    sample = data["data_batch_2"][0][1]
    assert second.shape == (32, 32, 3)
    np.testing.assert_array_equal(second[5, 7], sample[[5 * 32 + 7, 1024 + 5 * 32 + 7, 2048 + 5 * 32 + 7]])
    assert "data_batch_2, image 1" in images.items[4].where


def test_cifar100_uses_the_fine_labels(tmp_path):
    folder = tmp_path / "cifar100" / "cifar-100-python"
    folder.mkdir(parents=True)
    names = [f"class{c:02d}" for c in range(100)]
    (folder / "meta").write_bytes(python2_pickle({b"fine_label_names": [n.encode() for n in names]}))
    for part in ("train", "test"):
        x = RNG.integers(0, 256, (2, 3072), np.uint8)
        content = {b"coarse_labels": [1, 2], b"fine_labels": [99, 7], b"data": x}
        (folder / part).write_bytes(python2_pickle(content))
    images = load("cifar100", tmp_path)
    assert images.y.tolist() == [99, 7, 99, 7] and images.class_names == tuple(names)


class Bomb:
    def __reduce__(self):
        import os

        return os.system, ("touch exploded",)


def test_a_pickle_that_asks_for_code_is_refused_and_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_cifar10(tmp_path)
    (tmp_path / "cifar-10-batches-py" / "data_batch_3").write_bytes(pickle.dumps({b"data": Bomb()}))
    with refused("dataset-file-damaged: data_batch_3...it asks for...system"):
        load("cifar10", tmp_path)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("damage", [b"", b"\x80\x02}(", python2_pickle({b"labels": [1]}), b"\x89PNG"])
def test_a_damaged_batch_is_named(tmp_path, damage):
    write_cifar10(tmp_path)
    (tmp_path / "cifar-10-batches-py" / "test_batch").write_bytes(damage)
    with refused("dataset-file-damaged: test_batch"):
        load("cifar10", tmp_path)


def test_labels_out_of_range_are_damage(tmp_path):
    write_cifar10(tmp_path)
    bad = python2_pickle({b"labels": [3, 11], b"data": np.zeros((2, 3072), np.uint8)})
    (tmp_path / "cifar-10-batches-py" / "test_batch").write_bytes(bad)
    with refused("dataset-file-damaged: test_batch"):
        load("cifar10", tmp_path)


# ---------------------------------------------------------------- Tiny-ImageNet


def test_tiny_imagenet(tmp_path):
    root = tmp_path / "tiny-imagenet-200"
    wnids = [f"n{i:08d}" for i in range(200)]
    words = {w: f"thing{i}, other name" for i, w in enumerate(wnids)} | {wnids[7]: "thing3, a namesake"}
    for w in wnids:
        (root / "train" / w / "images").mkdir(parents=True)
        (root / "train" / w / "images" / f"{w}_0.JPEG").write_bytes(png())
        (root / "train" / w / f"{w}_boxes.txt").write_text(f"{w}_0.JPEG\t0\t0\t62\t62\n")
    (root / "val" / "images").mkdir(parents=True)
    (root / "val" / "images" / "val_0.JPEG").write_bytes(png())
    (root / "val" / "val_annotations.txt").write_text(f"val_0.JPEG\t{wnids[42]}\t0\t32\t44\t62\n")
    (root / "wnids.txt").write_text("\n".join(wnids) + "\n")
    (root / "words.txt").write_text("".join(f"{w}\t{t}\n" for w, t in words.items()))
    images = load("tiny-imagenet", tmp_path)
    assert len(images) == 201 and images.test.sum() == 1 and images.y[-1] == 42
    assert images.class_names[42] == "thing42"
    assert images.class_names[3] == f"thing3 ({wnids[3]})" and images.class_names[7] == f"thing3 ({wnids[7]})"
    assert images.items[0].read() == png()


# ---------------------------------------------------------------- Digits


def idx(array):
    return struct.pack(f">{1 + array.ndim}i", 0x0800 + array.ndim, *array.shape) + array.tobytes()


def write_mnist(folder, train=20, test=4, pack=True):
    folder.mkdir(parents=True)
    made = {}
    for prefix, n in (("train", train), ("t10k", test)):
        x, y = RNG.integers(0, 256, (n, 28, 28), np.uint8), (np.arange(n) % 10).astype(np.uint8)
        made[prefix] = x, y
        for kind, array in (("images-idx3", x), ("labels-idx1", y)):
            name = folder / f"{prefix}-{kind}-ubyte"
            if pack:
                name.with_name(name.name + ".gz").write_bytes(gzip.compress(idx(array)))
            else:
                name.write_bytes(idx(array))
    return made


def write_svhn(folder, train="train_32x32.mat", test="test_32x32.mat", n=20):
    folder.mkdir(parents=True, exist_ok=True)
    for name, size in ((train, n), (test, 5)):
        x = RNG.integers(0, 256, (32, 32, 3, size), np.uint8)
        y = ((np.arange(size) % 10) + 1).astype(np.uint8)[:, None]  # 10 stands for the digit 0
        savemat(folder / name, {"X": x, "y": y})
    return x, y


def write_usps(folder, n=20):
    folder.mkdir(parents=True)
    for name, size in (("usps.bz2", n), ("usps.t.bz2", 3)):
        values = np.linspace(-1, 1, 256)
        line = " ".join(f"{i + 1}:{v:.6g}" for i, v in enumerate(values) if v != 0)
        lines = [f"{1 + i % 10} {line} \n" for i in range(size)]
        (folder / name).write_bytes(bz2.compress("".join(lines).encode()))


def write_digits(root):
    made = write_mnist(root / "Digits" / "MNIST" / "raw")
    write_usps(root / "digits_extra" / "USPS")
    (root / "digits_extra" / "USPS").rename(root / "USPS")
    svhn = write_svhn(root / "Digits" / "svhn")
    for half in ("train", "val"):
        for digit in range(10):
            folder = root / "Digits" / "SYN" / half / str(digit)
            folder.mkdir(parents=True)
            for i in range(2):
                (folder / f"{i}.png").write_bytes(png())
    return made, svhn


def test_digits_takes_a_tenth_of_each_domain_and_all_tests(tmp_path):
    made, _ = write_digits(tmp_path)
    images = load("digits", tmp_path)
    assert images.domain_names == ("mnist", "usps", "svhn", "syn")
    assert np.bincount(images.domain[~images.test]).tolist() == [2, 2, 2, 2]
    assert np.bincount(images.domain[images.test]).tolist() == [4, 3, 5, 20]
    assert images.meta == {"dataset": "digits", "share": 0.1}
    whole = load("digits", tmp_path, share=1.0)
    assert "share" not in whole.meta and len(whole) == 24 + 23 + 25 + 40
    np.testing.assert_array_equal(whole.items[3].read(), made["train"][0][3])
    assert whole.y[:20].tolist() == made["train"][1].tolist()


def test_the_digit_zero_of_svhn_has_the_label_ten(tmp_path):
    _, (x, y) = write_digits(tmp_path)
    images = load("digits", tmp_path, share=1.0)
    samples = np.flatnonzero((images.domain == 2) & images.test)
    assert images.y[samples].tolist() == (y.ravel() % 10).tolist()
    np.testing.assert_array_equal(images.items[samples[1]].read(), x[..., 1])


def test_usps_spans_black_to_white(tmp_path):
    write_digits(tmp_path)
    images = load("digits", tmp_path, share=1.0)
    sample = np.flatnonzero(images.domain == 1)[0]
    picture = images.items[sample].read()
    assert images.y[sample] == 0 and picture.shape == (16, 16)
    assert picture[0, 0] == 0 and picture[-1, -1] == 255 and picture[7, 15] in (127, 128, 126)


def test_syn_is_read_from_mat_files_too_and_mnist_unpacked(tmp_path):
    write_digits(tmp_path)
    import shutil

    shutil.rmtree(tmp_path / "Digits" / "SYN")
    shutil.rmtree(tmp_path / "Digits" / "MNIST")
    write_mnist(tmp_path / "mnist", pack=False)
    write_svhn(tmp_path / "synth_digits", "synth_train_32x32.mat", "synth_test_32x32.mat", n=30)
    images = load("digits", tmp_path)
    assert np.bincount(images.domain[~images.test]).tolist() == [2, 2, 2, 3]


@pytest.mark.parametrize("damage", [b"", idx(np.zeros((2, 28), np.uint8)), idx(np.zeros((20, 28, 28), np.uint8))[:-9]])
def test_a_damaged_idx_file_is_named(tmp_path, damage):
    write_digits(tmp_path)
    path = tmp_path / "Digits/MNIST/raw/train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(damage))
    with refused("dataset-file-damaged: train-images-idx3-ubyte.gz"):
        load("digits", tmp_path)


@pytest.mark.parametrize(
    ("name", "code"), [("USPS/usps.bz2", "file-unreadable"), ("Digits/svhn/test_32x32.mat", "dataset-file-damaged")]
)
def test_other_damaged_files_are_named(tmp_path, name, code):
    write_digits(tmp_path)
    (tmp_path / name).write_bytes(b"not what it should be")
    with refused(f"{code}: {name}"):
        load("digits", tmp_path)


# ---------------------------------------------------------------- image folders under official names


@pytest.mark.parametrize(
    "name, folder, domains",
    [
        ("office-caltech", "office_caltech_10", ("amazon", "caltech10", "dslr", "webcam")),
        ("pacs", "PACS/pacs_data", ("art_painting", "cartoon", "photo", "sketch")),
        ("office-home", "OfficeHomeDataset_10072016", ("Art", "Clipart", "Product", "Real World")),
        ("office-home-lds", "OfficeHome", ("Art", "Clipart", "Product", "Real_World")),
    ],
)
def test_image_folders_are_found_under_the_spellings_in_use(tmp_path, name, folder, domains):
    dataset = DATASETS[name]
    for domain in domains:
        for c in range(dataset.n_classes):
            (tmp_path / folder / domain / f"class{c:02d}").mkdir(parents=True)
            (tmp_path / folder / domain / f"class{c:02d}" / "1.png").write_bytes(png())
    (tmp_path / folder / "ImageInfo").mkdir()
    images = load(name, tmp_path)
    assert images.domain_names == dataset.domains and images.meta == {"dataset": name}
    assert len(images) == 4 * dataset.n_classes and images.test is None
    assert load(name, tmp_path / folder).class_names == images.class_names, "the folder itself will do"


def test_half_a_dataset_is_told(tmp_path):
    for domain in ("amazon", "caltech", "dslr", "webcam"):
        (tmp_path / domain / "bike").mkdir(parents=True)
        (tmp_path / domain / "bike" / "1.png").write_bytes(png())
    with refused("dataset-incomplete: 10 classes...but 1"):
        load("office-caltech", tmp_path)


# ---------------------------------------------------------------- where they are looked for


def test_the_environment_names_the_folder(tmp_path, monkeypatch):
    write_cifar10(tmp_path)
    monkeypatch.setenv("GGEUR_DATA", str(tmp_path))
    assert len(load("cifar10")) == 18
    assert find(DATASETS["cifar10"].sources[0], tmp_path) == tmp_path / "cifar-10-batches-py"


def test_what_is_nowhere_is_told_with_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.delenv("GGEUR_DATA", raising=False)
    with refused("dataset-not-found: neither --data nor $GGEUR_DATA...Office-Caltech-10 (Gong"):
        load("office-caltech")
    with refused(f"dataset-not-found: {tmp_path}"):
        load("office-caltech", tmp_path)
    with refused("folder-missing: nowhere"):
        load("cifar10", tmp_path / "nowhere")
    with refused("dataset-unknown: cifar10,...mini-digits"):
        load("no-such-thing")


def test_mini_digits_and_folders_are_loaded_by_the_same_word(tmp_path):
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "1.png").write_bytes(png())
    assert len(load(str(tmp_path))) == 1
    digits = load("mini-digits")
    assert len(digits) == 7197 and digits.items[0].read().shape == (32, 32, 3)


# ---------------------------------------------------------------- the hub


def write_hub(root, hub_id, samples, features):
    import datasets

    for split, content in samples.items():
        folder = root / hub_id / "data"
        folder.mkdir(parents=True, exist_ok=True)
        table = datasets.Dataset.from_dict(content, features=datasets.Features(features(datasets)))
        table.to_parquet(folder / f"{split}-00000-of-00001.parquet")


@pytest.fixture
def hub(tmp_path, monkeypatch, needs_hf):
    """A folder in which `datasets` finds what we put under a hub id, without any network."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GGEUR_DATA", raising=False)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "hf-cache")
    return tmp_path


def test_a_dataset_with_splits_from_the_hub(hub):
    content = {"img": [{"bytes": png((i, 0, 0)), "path": None} for i in range(3)], "label": [2, 0, 9]}
    write_hub(hub, "uoft-cs/cifar10", {"train": content, "test": content},
              lambda d: {"img": d.Image(), "label": d.ClassLabel(names=CIFAR10)})  # fmt: skip
    images = load("cifar10")
    assert images.y.tolist() == [2, 0, 9] * 2 and images.test.tolist() == [False] * 3 + [True] * 3
    assert images.class_names == tuple(CIFAR10) and images.items[2].read() == png((2, 0, 0))
    assert images.items[2].where == "uoft-cs/cifar10, image 2"


def test_a_dataset_with_domains_from_the_hub(hub):
    names = ["dog", "elephant", "giraffe", "guitar", "horse", "house", "person"]
    domains = ["sketch", "photo", "cartoon", "art_painting", "photo"]
    content = {"image": [{"bytes": png(), "path": None}] * 5, "domain": domains, "label": [0, 1, 2, 3, 4]}

    def features(d):
        return {"image": d.Image(), "domain": d.Value("string"), "label": d.ClassLabel(names=names)}

    write_hub(hub, "flwrlabs/pacs", {"train": content}, features)
    images = load("pacs")
    assert images.domain_names == ("art_painting", "cartoon", "photo", "sketch")
    assert images.y.tolist() == [3, 2, 1, 4, 0] and images.test is None


def test_a_hub_out_of_reach_is_one_sentence_with_the_other_way(hub):
    with refused("dataset-not-found: cifar10...cifar-10-batches-py...uoft-cs/cifar10"):
        load("cifar10")


# ---------------------------------------------------------------- as the paper has it


@pytest.mark.parametrize(
    "name, partition",
    [
        ("cifar10", {"kind": "dirichlet", "clients": 10}),
        ("digits", {"kind": "domain", "share": 0.1}),
        ("pacs", {"kind": "domain", "share": 0.3}),
        ("office-home-lds", {"kind": "label-and-domain"}),
        ("mini-digits", {}),
    ],
)
def test_an_experiment_deals_a_dataset_out_as_the_paper_does(name, partition):
    assert paper_partition(name) == partition
    found = Experiment.of({"data": {"dataset": name}}).points[0].partition
    assert all(getattr(found, key) == value for key, value in partition.items())


def test_a_partition_of_ones_own_goes_first():
    tree = {"data": {"dataset": "pacs"}, "partition": {"share": 0.5}}
    assert Experiment.of(tree).points[0].partition.share == 0.5
    tree = {"data": {"dataset": "pacs"}, "partition": {"kind": "dirichlet"}}
    assert Experiment.of(tree).points[0].partition.share == 1.0


def test_the_list_costs_no_heavy_import():
    heavy = ("torch", "datasets", "scipy", "PIL")
    code = f"import sys, ggeur.data.datasets; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
