"""EmbeddingTable: what goes in comes out, and nothing damaged gets in."""

import io
import json
import os
import tracemalloc
import zipfile

import numpy as np
import pytest

from ggeur.data.table import EmbeddingTable
from ggeur.stats.errors import GgeurError
from refusal import refused

NAMES = ("backpack", "fahrrad \u00e4\u00f6\u00fc", "\u72ac", "\U0001f436 & co.")


def make(n=12, p=5, dtype=np.float32, **fields):
    rng = np.random.default_rng(0)
    known = {
        "x": rng.normal(size=(n, p)).astype(dtype),
        "y": np.arange(n) % 4,
        "domain": np.arange(n) % 2,
        "test": np.arange(n) % 3 == 0,
        "class_names": NAMES,
        "domain_names": ("art", "r\u00e9el"),
        "text": {name: rng.normal(size=(4, p)).astype(np.float32) for name in ("single", "bare")},
        "meta": {"encoder": "none", "share": 0.3, "nested": {"a": [1, 2]}},
    }
    return EmbeddingTable(**(known | fields))


def assert_same(a, b):
    assert list(a.text) == list(b.text)
    arrays = [[*(getattr(t, name) for name in ("x", "y", "domain", "test")), *t.text.values()] for t in (a, b)]
    for one, two in zip(*arrays, strict=True):
        assert one.dtype == two.dtype
        np.testing.assert_array_equal(one, two)
    assert (a.class_names, a.domain_names, a.meta) == (b.class_names, b.domain_names, b.meta)


def npy(array, allow_pickle=False):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


def header(text):
    """An .npy file that is all header: what it claims is not there."""
    line = text.encode().ljust(118 - 1) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(line).to_bytes(2, "little") + line


def archive(path, /, **members):
    """An .npz with these members, raw bytes or arrays, over a small good table."""
    good = {"x": np.zeros((3, 2), np.float32), "y": np.arange(3)}
    with zipfile.ZipFile(path, "w") as file:
        for name, content in (good | members).items():
            if content is not None:
                file.writestr(f"{name}.npy", content if isinstance(content, bytes) else npy(content))
    return path


# ---------------------------------------------------------------- what goes in comes out


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_table_comes_back_as_it_was_saved(tmp_path, dtype):
    table = make(dtype=dtype)
    table.save(tmp_path / "t.npz")
    assert_same(EmbeddingTable.load(tmp_path / "t.npz"), table)
    assert_same(EmbeddingTable.load(str(tmp_path / "t.npz")), table)
    assert os.listdir(tmp_path) == ["t.npz"]


def test_the_file_holds_plain_arrays_that_numpy_reads_without_pickles(tmp_path):
    make().save(tmp_path / "t.npz")
    with np.load(tmp_path / "t.npz", allow_pickle=False) as file:
        assert file["x"].shape == (12, 5) and file["test"].dtype == np.bool_
        assert tuple(file["class_names"]) == NAMES
        assert json.loads(str(file["meta"]))["share"] == 0.3


def test_x_and_y_are_enough_and_the_rest_has_defaults(tmp_path):
    np.savez(tmp_path / "t.npz", x=np.eye(3), y=[0, 2, 0])
    table = EmbeddingTable.load(tmp_path / "t.npz")
    assert table.x.dtype == np.float32 and table.y.dtype == np.int64
    assert table.class_names == ("0", "1", "2") and table.domain_names == ("all",)
    assert table.domains.tolist() == [0, 0, 0] and table.meta == {}
    assert table.test is None and table.text == {}
    assert (len(table), table.n_classes, table.n_domains, table.dimension) == (3, 3, 1, 3)


def test_other_arrays_are_ignored_whatever_they_are(tmp_path):
    pickled = npy(np.array([{"a": 1}], object), allow_pickle=True)
    path = archive(tmp_path / "t.npz", path=np.array(["a", "b", "c"]), other=pickled, damaged=b"no array")
    assert len(EmbeddingTable.load(path)) == 3


def test_compressed_files_and_big_endian_arrays_are_read_too(tmp_path):
    x = np.random.default_rng(0).normal(size=(300, 8)).astype(">f4")
    np.savez_compressed(tmp_path / "t.npz", x=x, y=np.zeros(300, ">i2"), domain=np.ones(300, np.uint8))
    table = EmbeddingTable.load(tmp_path / "t.npz")
    np.testing.assert_array_equal(table.x, x)
    assert table.x.dtype == np.float32 and table.domain_names == ("0", "1")


def test_a_table_without_rows_survives(tmp_path):
    make().subset([]).save(tmp_path / "t.npz")
    table = EmbeddingTable.load(tmp_path / "t.npz")
    assert len(table) == 0 and table.class_names == NAMES and table.dimension == 5


def test_a_subset_has_the_rows_and_keeps_classes_and_domains():
    table, samples = make(), [7, 2, 2]
    for part in (table.subset(samples), table.subset(np.array(samples))):
        for name in ("x", "y", "domain", "test"):
            np.testing.assert_array_equal(getattr(part, name), getattr(table, name)[samples])
        for name in ("class_names", "domain_names", "meta"):
            assert getattr(part, name) == getattr(table, name)
    mask = table.subset(table.y == 1)
    assert mask.y.tolist() == [1, 1, 1] and len(table) == 12


# ---------------------------------------------------------------- the split


def test_a_split_is_seventy_to_thirty_within_each_domain():
    domain = np.repeat([0, 1, 2], [100, 33, 1])
    table = EmbeddingTable(np.zeros((134, 2)), np.zeros(134, int), domain)
    test = table.split(0).test
    assert [int(test[domain == d].sum()) for d in range(3)] == [30, 10, 1]
    assert table.test is None, "the table itself is as it was"


def test_a_tables_own_test_mask_is_left_alone():
    table = make()
    np.testing.assert_array_equal(table.split(5).test, table.test)


def test_the_seed_decides_the_split():
    table = EmbeddingTable(np.zeros((200, 2)), np.zeros(200, int))
    np.testing.assert_array_equal(table.split(1).test, table.split(1).test)
    assert (table.split(1).test != table.split(2).test).any()


def test_a_site_with_one_domain_finds_the_split_of_the_simulation_with_all():
    rng = np.random.default_rng(0)
    x, domain = rng.normal(size=(90, 3)), rng.integers(3, size=90)
    whole = EmbeddingTable(x, np.zeros(90, int), domain, domain_names=("a", "b", "c"))
    for d, name in enumerate("abc"):
        own = domain == d
        alone = EmbeddingTable(x[own], np.zeros(own.sum(), int), domain_names=(name,))
        np.testing.assert_array_equal(alone.split(4).test, whole.split(4).test[own])
        np.testing.assert_array_equal(whole.subset(own).split(4).test, alone.split(4).test)


def test_domains_of_one_size_are_not_split_alike():
    table = EmbeddingTable(np.zeros((200, 2)), np.zeros(200, int), np.repeat([0, 1], 100))
    first, second = np.split(table.split(0).test, 2)
    assert (first != second).any()


@pytest.mark.real
def test_the_real_table_loads_splits_and_comes_back(shared, tmp_path):
    table = EmbeddingTable.load(shared / "data/embeddings/office_caltech10.tinyvit.npz")
    assert table.x.shape == (2533, 320) and table.x.dtype == np.float16 and table.n_classes == 10
    assert np.bincount(table.domains).tolist() == [958, 1123, 157, 295]
    split = table.split(0)
    assert [int(split.test[table.domains == d].sum()) for d in range(4)] == [288, 337, 48, 89]
    webcam = table.subset(table.domains == 3)
    alone = EmbeddingTable(webcam.x, webcam.y, class_names=table.class_names, domain_names=("webcam",))
    np.testing.assert_array_equal(alone.split(0).test, split.test[table.domains == 3])
    split.save(tmp_path / "t.npz")
    again = EmbeddingTable.load(tmp_path / "t.npz")
    np.testing.assert_array_equal(again.x, table.x)
    np.testing.assert_array_equal(again.test, split.test)


# ---------------------------------------------------------------- bad content


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"x": np.full((12, 5), np.nan)}, "embeddings-not-finite: sample 0"),
        ({"x": np.where(np.arange(60).reshape(12, 5) == 37, np.inf, 0)}, "embeddings-not-finite: sample 7"),
        ({"x": np.full((12, 5), 1e300)}, "embeddings-not-finite"),
        ({"x": [[1.0, 2.0], [3.0]]}, "samples-ragged"),
        ({"x": np.zeros(12)}, "embeddings-shape"),
        ({"x": np.zeros((12, 5), complex)}, "embeddings-type"),
        ({"y": np.arange(12)}, "labels-out-of-range: label 4...sample 4...y...3"),
        ({"y": -np.arange(12)}, "labels-out-of-range: label -1...sample 1"),
        ({"y": np.full(12, 10**9), "class_names": (), "text": None}, "labels-out-of-range"),
        ({"y": np.zeros(11, int)}, "labels-shape: y"),
        ({"y": np.zeros((12, 1), int)}, "labels-shape: y"),
        ({"y": np.full(12, 0.5)}, "labels-not-integers"),
        ({"y": np.full(12, np.nan), "class_names": (), "text": None}, "labels-not-integers"),
        ({"y": np.full(12, np.inf), "class_names": (), "text": None}, "labels-not-integers"),
        ({"y": ["cat"] * 12}, "labels-not-integers"),
        ({"domain": np.full(12, 2)}, "labels-out-of-range: label 2...sample 0...domain"),
        ({"domain": np.zeros(3, int)}, "labels-shape: domain"),
        ({"domain": None}, "table-domains-missing: 2 domains"),
        ({"domain_names": ("a", "a")}, "table-name-repeated: domain...a"),
        ({"class_names": ("a", "b", "c", "b")}, "table-name-repeated: class...b"),
        ({"test": np.zeros(11, bool)}, "table-test-mask-shape"),
        ({"test": np.zeros((12, 1), bool)}, "table-test-mask-shape"),
        ({"test": np.arange(12)}, "table-test-mask-shape"),
        ({"test": ["no"] * 12}, "table-test-mask-shape"),
        ({"text": np.zeros((3, 5))}, "text-embeddings-shape"),
        ({"text": np.zeros((4, 6))}, "text-embeddings-shape"),
        ({"text": np.full((4, 5), np.nan)}, "embeddings-not-finite: text"),
    ],
)
def test_bad_content_is_refused_in_one_sentence(change, says):
    with refused(says) as error:
        make(**change)
    assert "\n" not in str(error.value)


# ---------------------------------------------------------------- bad files


def load_refused(path, code=None):
    with pytest.raises(GgeurError) as error:
        EmbeddingTable.load(path)
    assert os.path.basename(path) in str(error.value), "the error names the file"
    assert code in (None, error.value.code)


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path):
    load_refused(tmp_path / "missing.npz", "file-missing")
    load_refused(tmp_path, "file-unreadable")


@pytest.mark.parametrize("content", [b"", b"PK", b"not a zip", b"\x00" * 1000, npy(np.eye(3))])
def test_a_file_that_is_not_a_zip_is_refused(tmp_path, content):
    (tmp_path / "t.npz").write_bytes(content)
    load_refused(tmp_path / "t.npz", "file-not-npz")


def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path):
    make().save(tmp_path / "whole.npz")
    whole = (tmp_path / "whole.npz").read_bytes()
    for end in np.linspace(0, len(whole) - 1, 60, dtype=int):
        (tmp_path / "t.npz").write_bytes(whole[:end])
        load_refused(tmp_path / "t.npz", "file-not-npz")


@pytest.mark.parametrize("name", ["x", "y"])
def test_a_zip_without_x_or_y_is_not_a_table(tmp_path, name):
    load_refused(archive(tmp_path / "t.npz", **{name: None}), "file-not-table")


class Tripwire:
    """Unpickling it creates a folder."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("name", ["x", "y", "class_names", "meta"])
def test_a_pickle_is_refused_and_never_run(tmp_path, name):
    sprung = str(tmp_path / "sprung")
    pickled = npy(np.array([Tripwire(sprung)] * 3, object), allow_pickle=True)
    load_refused(archive(tmp_path / "t.npz", **{name: pickled}), "file-array-unreadable")
    assert not os.path.exists(sprung)


CLAIM = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }"


@pytest.mark.parametrize(
    ("descr", "shape"),
    [
        ("<f4", "(1000000000000, 320)"),
        ("<f4", "(60000000, 10)"),
        ("<f4", "(99999999999999999999999, 3)"),
        ("<U0", "(1000000000,)"),
        ("|O", "(3, 2)"),
        ("<f4", "(-1, -5)"),
        ("<f4", "(3,"),
        ("<f4", "'many'"),
        ("<q9", "(3, 2)"),
        ("?!", "(3, 2)"),
    ],
)
@pytest.mark.parametrize("name", ["x", "class_names"])
def test_a_header_that_claims_what_is_not_there_is_refused_without_allocating(tmp_path, name, descr, shape):
    path = archive(tmp_path / "t.npz", **{name: header(CLAIM % (descr, shape))})
    tracemalloc.start()
    load_refused(path)
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()


def test_an_archive_that_lies_about_its_own_sizes_is_not_believed(tmp_path):
    path = archive(tmp_path / "t.npz", x=header(CLAIM % ("<f4", "(100000000, 10)")))
    content = bytearray(path.read_bytes())
    entry = content.index(b"PK\x01\x02")  # the directory's first entry, of x.npy: both its sizes to 4 GB
    assert content[entry + 46 : entry + 51] == b"x.npy"
    content[entry + 20 : entry + 28] = b"\xf0\xff\xff\xff" * 2
    path.write_bytes(content)
    tracemalloc.start()
    load_refused(path)
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()


def test_a_header_that_claims_less_than_is_there_does_not_pass_as_a_narrower_table(tmp_path):
    content = npy(np.zeros((3, 2), np.float32)).replace(b"(3, 2)", b"(3, 1)")
    load_refused(archive(tmp_path / "t.npz", x=content), "file-array-length")


@pytest.mark.parametrize("meta", ["not json", "[1, 2]", "[" * 100_000, "1" * 10_000, ""])
def test_a_meta_that_is_no_json_object_is_refused(tmp_path, meta):
    load_refused(archive(tmp_path / "t.npz", meta=np.array(meta)))


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"x": np.full((3, 2), np.nan, np.float32)}, "embeddings-not-finite"),
        ({"y": np.array([0, 1, 7]), "class_names": np.array(["a", "b"])}, "labels-out-of-range"),
        ({"y": np.array([0, 1, np.inf])}, "labels-not-integers"),
        ({"y": np.array(["a", "b", "c"])}, "labels-not-integers"),
        ({"test": np.zeros(2, bool)}, "table-test-mask-shape"),
    ],
)
def test_bad_content_in_a_file_is_told_with_the_files_name(tmp_path, members, says):
    load_refused(archive(tmp_path / "t.npz", **members), says)


@pytest.mark.filterwarnings("ignore::UserWarning")  # numpy and zipfile grumble on the way
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_flipped_bytes_give_an_error_or_the_very_same_embeddings(tmp_path, save):
    table = make(n=6, p=3, dtype=np.float16)
    arrays = {k: getattr(table, k) for k in ("x", "y", "domain", "test", "class_names")}
    save(tmp_path / "whole.npz", **arrays)
    whole = (tmp_path / "whole.npz").read_bytes()
    rng = np.random.default_rng(0)
    errors = 0
    for _ in range(150):
        content = bytearray(whole)
        for place in rng.integers(len(whole), size=rng.integers(1, 4)):
            content[place] ^= int(rng.integers(1, 256))
        (tmp_path / "t.npz").write_bytes(content)
        try:
            found = EmbeddingTable.load(tmp_path / "t.npz")
        except GgeurError:
            errors += 1
        else:
            np.testing.assert_array_equal(found.x, table.x)
            np.testing.assert_array_equal(found.y, table.y)
    assert errors > 50, "most damage is noticed"


def test_a_table_that_cannot_be_saved_leaves_the_old_one(tmp_path, monkeypatch):
    make().save(tmp_path / "t.npz")
    with refused("file-unwritable"):
        make().save(tmp_path / "missing" / "t.npz")

    def full(file, **arrays):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with refused("file-unwritable: No space left"):
        make(n=4).save(tmp_path / "t.npz")
    assert os.listdir(tmp_path) == ["t.npz"]
    assert_same(EmbeddingTable.load(tmp_path / "t.npz"), make())


@pytest.mark.parametrize("name", ["\x1b[2J", "a\nb", "\ud800"])
def test_names_that_would_steer_a_terminal_are_refused(name):
    with refused("table-name-invalid"):
        EmbeddingTable(x=np.zeros((2, 2)), y=[0, 1], class_names=("a", name))


# ---------------------------------------------------------------- text

TEXT = np.random.default_rng(1).normal(size=(4, 5)).astype(np.float32)


def test_text_of_a_table_from_before_it_had_names_is_single(tmp_path):
    table = make(text=TEXT)
    assert list(table.text) == ["single"]
    old = {name: getattr(table, name) for name in ("x", "y", "domain", "test", "class_names", "domain_names")}
    np.savez(tmp_path / "old.npz", **old, text=TEXT)
    loaded = EmbeddingTable.load(tmp_path / "old.npz")
    np.testing.assert_array_equal(loaded.text["single"], TEXT)
    assert loaded.fingerprint() == table.fingerprint(), "a run that was begun on it goes on"


def test_the_fingerprint_knows_what_text_is_called():
    one, other = (make(text={name: TEXT}) for name in ("single", "bare"))
    assert one.fingerprint() != other.fingerprint() != make(text={}).fingerprint()


def test_sets_of_text_of_several_types_are_the_same_table_once_saved(tmp_path):
    table = make(text={"single": TEXT, "bare": TEXT.astype(np.float16), "mine": TEXT.astype(np.float64)})
    table.save(tmp_path / "t.npz")
    assert EmbeddingTable.load(tmp_path / "t.npz").fingerprint() == table.fingerprint()
    half = make(text=TEXT.astype(np.float16))
    assert half.text["single"].dtype == np.float16, "one type alone stays what it is, and so does its fingerprint"


@pytest.mark.parametrize("text", [{"": TEXT}, {"a\nb": TEXT}])
def test_sets_of_text_have_plain_names(text):
    with refused("table-name-invalid"):
        make(text=text)


def test_names_without_their_text_are_a_damaged_file(tmp_path):
    make().save(tmp_path / "t.npz")
    with np.load(tmp_path / "t.npz") as file:
        arrays = {name: file[name] for name in file if name != "text"}
    np.savez(tmp_path / "t.npz", **arrays)
    with refused("file-damaged"):
        EmbeddingTable.load(tmp_path / "t.npz")
