"""Tables as other programs write them are read as they were meant, or refused with one sentence."""

import csv
import json
import warnings

import numpy as np
import pytest

from damage import damaged
from ggeur.data.table import EmbeddingTable
from ggeur.data.tables.columns import TableColumns
from ggeur.data.tables.files import TableFiles
from ggeur.data.tables.pairing import table_paths
from ggeur.stats.errors import GgeurError
from refusal import refused

pytestmark = pytest.mark.filterwarnings("ignore::ggeur.stats.errors.GgeurWarning")
N, P = 60, 4
NAMES = ("ant", "bee", "cat")
RNG = np.random.default_rng(0)
X, Y, TEST = RNG.normal(size=(N, P)).astype(np.float32), RNG.integers(3, size=N), RNG.random(N) < 0.2
LABELS, DOMAIN = np.array(NAMES)[Y], np.array(["art", "photo"])[RNG.integers(2, size=N)]
tables = pytest.mark.needs("tables")


def write_csv(path, columns, separator=","):
    with path.open("w", newline="") as file:
        lines = csv.writer(file, delimiter=separator)
        lines.writerow(columns)
        lines.writerows(zip(*columns.values(), strict=True))
    return path


def write_parquet_file(path, columns, **more):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path, **more)
    return path


def numbered(x=X, start=0):
    return {f"e_{i + start}": x[:, i].tolist() for i in range(x.shape[1])}


def as_csv(folder):
    return write_csv(folder / "a.csv", {**numbered(), "label": LABELS})


def as_csv_of_lists(folder):
    return write_csv(folder / "a.csv", {"embedding": X.tolist(), "label": LABELS}, ";")


def as_npy(folder):
    np.save(folder / "a.npy", X)
    write_csv(folder / "a.csv", {"label": LABELS})
    return folder / "a.npy"


def as_npz(folder):
    np.savez(folder / "a.npz", features=X, label=LABELS)
    return folder / "a.npz"


def as_npz_of_ggeur(folder):
    EmbeddingTable(x=X, y=Y, class_names=NAMES).save(folder / "a.npz")
    return folder / "a.npz"


def as_parquet(folder):
    return write_parquet_file(folder / "a.parquet", {"embedding": X.tolist(), "label": LABELS})


def as_parquet_fixed(folder):
    import pyarrow as pa

    x = pa.FixedSizeListArray.from_arrays(pa.array(X.astype(np.float16).ravel()), P)
    return write_parquet_file(folder / "a.parquet", {"embedding": x, "label": pa.array(LABELS).dictionary_encode()})


def as_parquet_numbered(folder):
    return write_parquet_file(folder / "a.parquet", {**numbered(start=1), "label": LABELS})


def as_parquet_of_ggeur(folder):
    EmbeddingTable(x=X, y=Y, class_names=NAMES).save(folder / "a.parquet")
    return folder / "a.parquet"


def as_slides(folder):
    import h5py

    for i in range(N):
        with h5py.File(folder / f"s{i:02d}.h5", "w") as file:
            file["feats"] = np.stack([X[i] - 1, X[i] + 1])
    write_csv(folder / "labels.csv", {"slide_id": [f"s{i:02d}.svs" for i in range(N)][::-1], "label": LABELS[::-1]})
    return folder


def as_saved_dataset(folder):
    """As `Dataset.save_to_disk` writes it, which the test of real ones holds this to."""
    import pyarrow as pa

    labels = {"names": list(NAMES), "_type": "ClassLabel"}
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
    (folder / "dataset_info.json").write_text(json.dumps({"features": {"label": labels}}))
    made = pa.table({"embedding": X.tolist(), "label": Y})
    with (
        pa.OSFile(str(folder / "data-00000-of-00001.arrow"), "wb") as file,
        pa.ipc.new_stream(file, made.schema) as out,
    ):
        out.write_table(made, max_chunksize=17)
    return folder


CORE = (as_csv, as_csv_of_lists, as_npy, as_npz, as_npz_of_ggeur)
EXTRA = (
    *(as_parquet, as_parquet_fixed, as_parquet_numbered, as_parquet_of_ggeur),
    *(as_slides, as_saved_dataset),
)
FORMATS = [*CORE, *(pytest.param(one, marks=tables) for one in EXTRA)]


@pytest.mark.parametrize("write", FORMATS)
def test_every_format_holds_the_same_table(write, tmp_path):
    table = EmbeddingTable.load(write(tmp_path))
    assert table.class_names == NAMES and np.array_equal(table.y, Y) and table.test is None
    np.testing.assert_allclose(table.x, X, atol=1e-3 if write is as_parquet_fixed else 1e-6)
    assert table.x.dtype == (np.float16 if write is as_parquet_fixed else np.float32)


@pytest.mark.needs("hf", "tables")
def test_files_of_pandas_and_of_datasets(tmp_path):
    import pandas as pd
    from datasets import ClassLabel, Dataset, DatasetDict

    frame = pd.DataFrame({"id": range(N), "embedding": list(X), "label": LABELS})
    frame.to_parquet(tmp_path / "a.parquet")
    pd.DataFrame({**numbered(), "label": LABELS}).to_csv(tmp_path / "a.csv")  # with the numbers of lines
    hub = Dataset.from_dict({"embedding": X.tolist(), "label": Y.tolist()}).cast_column(
        "label", ClassLabel(names=NAMES)
    )
    hub.save_to_disk(tmp_path / "saved")
    hub.to_parquet(tmp_path / "hub.parquet")
    DatasetDict({"train": hub.select(range(40)), "test": hub.select(range(40, N))}).save_to_disk(tmp_path / "splits")
    for name in ("a.parquet", "a.csv", "saved", "hub.parquet", "splits"):
        table = EmbeddingTable.load(tmp_path / name)
        assert np.allclose(table.x, X) and table.class_names == NAMES and np.array_equal(table.y, Y), name
    assert np.array_equal(table.test, np.arange(N) >= 40)


@tables
def test_what_ggeur_writes_as_parquet_comes_back(tmp_path, build_table):
    rng = np.random.default_rng(1)
    given = build_table(test=rng.random(120) < 0.3, path=tuple(f"{i}.jpg" for i in range(120)))
    given = EmbeddingTable(**{**vars(given), "text": {"single": rng.normal(size=(4, 5)).astype(np.float32)}})
    given.save(tmp_path / "t.parquet")
    back = EmbeddingTable.load(tmp_path / "t.parquet")
    assert back.fingerprint() == given.fingerprint() and back.meta == given.meta and back.path == given.path


def test_roles_of_columns_and_pieces(tmp_path):
    every = {
        "emb0": X[:, 0],
        "emb1": X[:, 1],
        "what": LABELS,
        "where": DOMAIN,
        "split": np.where(TEST, "test", "train"),
    }
    path = write_csv(tmp_path / "a.csv", every | {"patient": [i // 3 for i in range(N)], "file": range(N)})
    columns = TableColumns(y="what", domain="where", id="file", encoder_id="dino@abc")
    files = TableFiles(path, columns)
    assert (files.samples, files.dimension, files.class_names, files.domain_names) == (N, 2, NAMES, ("art", "photo"))
    assert files.meta == {"encoder": "dino", "weights": "abc"} and files.marked
    for d, c, t in np.ndindex(2, 3, 2):
        own = (np.array(["art", "photo"])[d] == DOMAIN) & (c == Y) & (t == TEST)
        assert files.counts[d, c, t] == own.sum()
    (piece,) = files.pieces()
    assert piece.group[4] == "1" and piece.id[4] == "4" and np.array_equal(piece.test, TEST)


def test_many_files_are_one_table_in_the_order_of_their_numbers(tmp_path):
    for i in range(12):
        part = slice(i * 5, i * 5 + 5)
        np.save(tmp_path / f"part-{i}.npy", X[part])
    write_csv(tmp_path / "labels.csv", {"label": LABELS})
    assert [p.name for p in table_paths(tmp_path / "part-*.npy")][-1] == "part-11.npy"
    table = EmbeddingTable.load(tmp_path / "part-*.npy+labels.csv")
    assert np.array_equal(table.x, X) and np.array_equal(table.y, Y)
    by_name = sorted(map(str, tmp_path.glob("part-*.npy")))  # part-10 before part-2
    with refused("table-order-unclear"):
        TableFiles([*by_name, tmp_path / "labels.csv"])
    write_csv(tmp_path / "labels.csv", {"label": LABELS[:-1]})
    with refused("table-lengths-differ"):
        EmbeddingTable.load(tmp_path / "part-*.npy+labels.csv")


def test_codes_of_several_files_are_those_of_names(tmp_path):
    EmbeddingTable(x=X, y=Y, class_names=NAMES).save(tmp_path / "a.npz")
    EmbeddingTable(x=X, y=Y, class_names=("dog", "cat", "ant")).save(tmp_path / "b.npz")
    table = TableFiles([tmp_path / "a.npz", tmp_path / "b.npz"]).read()
    assert table.class_names == ("ant", "bee", "cat", "dog")
    assert [table.class_names[c] for c in table.y[N:]] == [("dog", "cat", "ant")[c] for c in Y]


def test_what_is_guessed_is_said_and_what_could_be_two_is_asked(tmp_path):
    path = write_csv(tmp_path / "a.csv", {**numbered(), "kind": LABELS})
    with pytest.warns(match="y is 'kind'"):
        TableFiles(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TableFiles(path, TableColumns(x="e", y="kind"))
    write_csv(path, {**numbered(), "kind": LABELS, "colour": LABELS})
    with refused("table-column-ambiguous: 'kind', 'colour'"):
        TableFiles(path)
    write_csv(path, {**numbered(), **{f"f{i}": X[:, i] for i in range(P)}, "label": LABELS})
    with refused("table-column-ambiguous: 'e', 'f'"):
        TableFiles(path)
    with refused("table-column-missing: 'lable'...'label'"):
        TableFiles(path, TableColumns(x="e", y="lable"))
    assert TableFiles(path, TableColumns(x="f")).dimension == P


BAD = {
    "embeddings-not-finite": {"e_0": ["nan", *X[1:, 0]]},
    "embeddings-type": {"e_0": ["much", *X[1:, 0]]},
    "table-nulls": {"label": ["", *LABELS[1:]]},
    "table-column-floats": {"label": [0.5, *Y[1:]]},
    "table-classes-too-many": {"label": None},
    "table-test-values": {"split": ["val", *["train"] * (N - 1)]},
}


@pytest.mark.parametrize("code", BAD)
def test_bad_values_are_one_sentence(code, tmp_path):
    given = {**numbered(), "label": LABELS, **BAD[code]}
    if given["label"] is None:
        given = {"e_0": range(5000), "e_1": range(5000), "label": [f"photo {i}" for i in range(5000)]}
    with refused(code):
        EmbeddingTable.load(write_csv(tmp_path / "a.csv", given))


@tables
def test_bad_values_of_parquet_are_one_sentence(tmp_path):
    good = {"embedding": X.tolist(), "label": LABELS.tolist()}
    bad = {
        "samples-ragged": {"embedding": [*X[1:].tolist(), [1.0]]},
        "table-nulls: 'embedding'": {"embedding": [*X[1:].tolist(), None]},
        "table-nulls: 'label'": {"label": [*LABELS[1:].tolist(), None]},
        "table-column-floats": {"label": Y / 2},
        "embeddings-not-finite": {"embedding": [*X[1:].tolist(), [np.inf] * P]},
        "table-classes-too-many": {"embedding": [[0.0]] * 5000, "label": list(range(5000))},
    }
    for says, change in bad.items():
        path = write_parquet_file(tmp_path / "a.parquet", good | change)
        with refused(says):
            EmbeddingTable.load(path)
    import pyarrow as pa

    write_parquet_file(path, {"embedding": pa.array([], pa.list_(pa.float32())), "label": pa.array([], pa.string())})
    with refused("table-empty"):
        EmbeddingTable.load(path)


def test_files_that_are_none(tmp_path):
    (tmp_path / "a.csv").write_text("")
    with refused("table-empty"):
        TableFiles(tmp_path / "a.csv")
    as_csv(tmp_path)
    whole = (tmp_path / "a.csv").read_text()
    (tmp_path / "a.csv").write_text(whole[:-3])
    with refused("table-cut-short"):
        TableFiles(tmp_path / "a.csv")
    with refused("file-missing"):
        TableFiles(tmp_path / "b.csv")
    with refused("file-missing"):
        TableFiles(tmp_path / "*.parquet")
    with refused("table-suffix-unknown"):
        TableFiles(__file__)
    np.save(tmp_path / "o.npy", np.array([[None, 1]], object))
    with refused("file-array-unreadable"):
        TableFiles(tmp_path / "o.npy", labelled=False)


CHECKED = (as_npz, as_npz_of_ggeur, as_parquet_of_ggeur)  # whose bytes have checksums


def survives(write, folder, seeds):
    """No damage leads to a traceback; a file cut short is refused, and one with checksums is itself or refused."""
    given = write(folder)
    path = given if given.is_file() else sorted(folder.iterdir())[0]
    content = path.read_bytes()
    want, refusals = EmbeddingTable.load(given), 0
    for seed in seeds:
        how, changed = damaged(content, seed)
        path.write_bytes(changed)
        try:
            found = EmbeddingTable.load(given)
        except GgeurError as error:
            assert error.code != "unspecified" and str(error).count("\n") == 0
            refusals += 1
            continue
        if changed == content:
            continue
        # A text that ends where a line does may be whole: nothing in it says how many there are.
        assert how != "cut" or (path.suffix == ".csv" and changed[-1:] in b"\r\n"), seed
        assert np.isfinite(found.x).all() and len(found.x) == len(found.y)
        if write in CHECKED:
            assert found.fingerprint() == want.fingerprint() and found.class_names == want.class_names, seed
    assert refusals


@pytest.mark.parametrize("write", FORMATS)
def test_a_damaged_file_is_refused_or_whole(write, tmp_path):
    survives(write, tmp_path, range(100, 200))


@pytest.mark.slow
@pytest.mark.parametrize("write", FORMATS)
def test_damaged_files_at_length(write, tmp_path):
    survives(write, tmp_path, range(200, 3200))
