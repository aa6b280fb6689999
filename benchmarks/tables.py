"""Statistics of tables in files: their rate beside that of the same products on samples in memory, and peak memory."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from benchmarks.growth import peak
from benchmarks.timing import Fact, seconds
from threadpoolctl import threadpool_limits

DIM, SAMPLES, REPETITIONS = 512, 200_000, 3
CHUNK = 50_000
BLOCKS = {"per-class": 256, "pooled": 1024}


def chunks(samples: int, classes: int) -> Iterator[tuple[Any, Any]]:
    """Made-up samples in float16, some at a time."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(classes, DIM)).astype(np.float32)
    for at in range(0, samples, CHUNK):
        y = rng.integers(classes, size=min(CHUNK, samples - at))
        yield (rng.standard_normal((len(y), DIM), np.float32) + means[y]).astype(np.float16), y


def write(folder: Path, form: str, samples: int, classes: int, pieces: int) -> str:
    """Write the samples to so many files; the pattern that names them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    share = -(-samples // pieces)
    files: list[Any] = []

    def part(number: int) -> Any:
        if form == "parquet":
            schema = pa.schema({"x": pa.list_(pa.float16(), DIM), "y": pa.int64()})
            return pq.ParquetWriter(folder / f"part-{number}.parquet", schema, compression="none", use_dictionary=["y"])
        file = (folder / f"part-{number}.npy").open("wb")
        shape = min(share, samples - number * share), DIM
        np.lib.format.write_array_header_1_0(file, {"descr": "<f2", "fortran_order": False, "shape": shape})
        return file

    labels = (folder / "labels.csv").open("w")
    labels.write("y\n")
    at = 0
    for x, y in chunks(samples, classes):
        start = 0
        while start < len(y):
            number, inside = divmod(at, share)
            n = min(len(y) - start, share - inside)
            if number == len(files):
                files.append(part(number))
            own = slice(start, start + n)
            if form == "parquet":
                flat = pa.array(np.ascontiguousarray(x[own]).ravel())
                made = {"x": pa.FixedSizeListArray.from_arrays(flat, DIM), "y": y[own]}
                files[number].write_table(pa.table(made), row_group_size=1 << 16)
            else:
                files[number].write(np.ascontiguousarray(x[own]).tobytes())
            start, at = start + n, at + n
        labels.write("\n".join(map(str, y.tolist())) + "\n")
    for file in (*files, labels):
        file.close()
    return str(folder / f"part-*.{form}") + ("+labels.csv" if form == "npy" else "")


def statistics(given: str, kind: str, workers: int) -> dict[str, Any]:
    """Seconds of the statistics of the table, their hash, and the memory of it all."""
    from ggeur.data.tables.columns import TableColumns
    from ggeur.data.tables.files import TableFiles
    from ggeur.stats.streaming import Piece, streamed_statistics

    made: dict[str, Any] = {}

    def run() -> None:
        files = TableFiles(given, TableColumns(y="y"))
        pieces = (Piece(piece.x, piece.y, piece.domain) for piece in files.pieces())
        made["found"] = streamed_statistics(pieces, len(files.class_names), kind, workers=workers)[0]

    took = seconds(run)
    arrays = (made["found"].count, made["found"].sum, made["found"].second, made["found"].center)
    digest = hashlib.sha256(b"".join(array.data for array in arrays)).hexdigest()[:16]
    return {"seconds": took, "peak": peak(), "statistics": sum(array.nbytes for array in arrays), "hash": digest}


def products(samples: int, classes: int, kind: str, workers: int) -> float:
    """Seconds of the same products alone: blocks of samples in memory, already sorted by class."""
    size = BLOCKS[kind]
    x = next(chunks(CHUNK, classes))[0]
    blocks = [x[i : i + size] for i in range(0, len(x) - size + 1, size)]
    center, held = np.zeros(DIM), classes if kind == "per-class" else workers
    total, second = np.zeros((held, DIM)), np.zeros((held, DIM, DIM))

    def work(worker: int) -> None:
        for i in range(worker, -(-samples // size), workers):
            z = np.subtract(blocks[i % len(blocks)], center, dtype=np.float64)
            c = worker if kind == "pooled" else i % held
            total[c] += z.sum(axis=0)
            second[c] += z.T @ z

    def run() -> None:
        with threadpool_limits(1), ThreadPoolExecutor(workers) as pool:
            list(pool.map(work, range(workers)))

    return seconds(run)


def reading(given: str) -> float:
    """Seconds of reading the embeddings alone, as NumPy and pyarrow read them."""
    from pathlib import Path

    import pyarrow.parquet as pq

    def run() -> None:
        folder = Path(given.partition("+")[0]).parent
        for path in sorted(folder.glob("part-*.parquet")):
            for batch in pq.ParquetFile(path).iter_batches(1 << 14, columns=["x"]):
                batch.column(0).flatten().to_numpy(zero_copy_only=False)
        for path in sorted(folder.glob("part-*.npy")):
            with path.open("rb") as file:
                file.seek(128)
                while np.fromfile(file, np.float16, (1 << 14) * DIM).size:
                    pass

    return seconds(run)


def apart(name: str, *arguments: Any) -> Any:
    """Call a function of this module in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.tables", json.dumps([name, *arguments])]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def measured(folder: Path, form: str, samples: int, classes: int, workers: int) -> Iterator[Fact]:
    given = write(folder, form, samples, classes, 1)
    for kind in ("per-class", "pooled"):
        ours, alone, read = [], [], []
        for _ in range(REPETITIONS):  # in turn
            ours.append(apart("statistics", given, kind, workers))
            alone.append(apart("products", samples, classes, kind, workers))
            read.append(apart("reading", given))
        took, memory = min(one["seconds"] for one in ours), max(one["peak"] for one in ours)
        beside = (memory - 2 * ours[0]["statistics"]) / 2**30
        yield Fact(
            f"statistics of a table: {form}, {classes:,} classes, {kind}",
            f"{samples:,} x {DIM} float16, {workers} workers",
            f"{samples / took:,.0f} samples/s; products alone {samples / min(alone):,.0f}, reading alone "
            f"{samples / min(read):,.0f}: {max(min(alone), min(read)) / took:.2f} of the slower; peak "
            f"{memory / 2**30:.2f} GiB, {beside:.2f} beside two copies of the statistics",
        )


def main() -> Iterator[Fact]:
    for form, classes in (("parquet", 10), ("npy", 1000)):
        with TemporaryDirectory() as folder:
            yield from measured(Path(folder), form, SAMPLES, classes, 2)


if __name__ == "__main__":
    function, *given_arguments = json.loads(sys.argv[1])
    print(json.dumps(globals()[function](*given_arguments)))
