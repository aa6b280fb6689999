"""Record what the whole program computes, so that two checkouts can be held against each other.

    python tools/record.py record OUT [--only PATTERN]    every case with the `ggeur` that Python imports
    python tools/record.py compare A B [--tolerance 0]    two recordings: equal to the bit, or how far apart

A refactoring must move nothing: record before and after it, on one machine (other processors round otherwise), and
compare. A case is one run, of a grid of trials on a small table that is made on the spot: every method with every kind
of augmentation and partition, every setting by itself, the command line, and a federation of sites within this process.
OUT/KIND NAME.npz holds its heads, losses, scores and bytes; a case that is refused is recorded by its sentence.
"""

import argparse
import contextlib
import fnmatch
import importlib
import io
import json
import pkgutil
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from record_cases import COMMANDS, Case, cases, make_inputs

import ggeur

Arrays = dict[str, np.ndarray]
Keys = dict[str, Any]  # "section.key": value, where a list spans a grid

# ---------------------------------------------------------------- running them


def perform(case: Case, out: Path) -> None:
    """Run the case into the folder `out`; what the program prints is not recorded."""
    kind, _, name = case.name.partition(" ")
    with contextlib.redirect_stdout(io.StringIO()):
        if kind == "command":
            command_line(*COMMANDS[name], "--out", str(out))
        elif kind == "deployed":
            deploy(ggeur.Experiment.of(case.tree()), out)
        else:
            ggeur.run(ggeur.Experiment.of(case.tree()), out=out)


def command_line(*words: str) -> None:
    """`ggeur` with these words; what it says on leaving with an error is raised."""
    from ggeur.cli import main

    before, sys.argv = sys.argv, ["ggeur", *words]
    try:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            main()
    except SystemExit as left:
        if left.code:
            raise ggeur.GgeurError(said.getvalue().strip()) from left
    finally:
        sys.argv = before


def find(name: str) -> Any:
    """The function of that name, in whichever module of the package it is; modules move between checkouts."""
    for module in pkgutil.walk_packages(ggeur.__path__, "ggeur."):
        if module.name.endswith("__main__"):  # which would run
            continue
        with contextlib.suppress(ImportError):  # of an extra that is not installed
            found = getattr(importlib.import_module(module.name), name, None)
            if getattr(found, "__module__", None) == module.name:
                return found
    raise LookupError(f"no module of {ggeur.__path__[0]} has a function {name}")


def deploy(experiment: Any, out: Path) -> None:
    """Run over sites within this process. The only place that knows names and signatures which are not public."""
    point, seed = experiment.points[0], experiment.seeds[0]
    table, configs = ggeur.EmbeddingTable.load(point.data.table), []
    for k, held in enumerate(find("node_tables")(table, point, seed)):
        files = {"table": f"{out}-node-{k}.npz", "store": f"{out}-store-{k}"}
        held.save(files["table"])
        configs.append({"partition-id": k, **files})
    find("run_over")(Grid(find("client_app")(), configs), find("with_nodes")(experiment, None), out, resume=False)


class Grid:
    """What of Flower's Grid is used, without a network: questions go straight to the ClientApp, site by site."""

    def __init__(self, app: Any, configs: list[dict[str, Any]]) -> None:
        from flwr.supercore.task_identity import TaskIdentity

        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1  # set by the process of a ServerApp
        self._app, self._replies = app, {}
        self._configs = {10**15 - 7 * k: config for k, config in enumerate(configs)}  # ids unlike partition indices

    def get_node_ids(self) -> list[int]:
        return list(self._configs)

    def push_messages(self, messages: Any) -> list[str]:
        from flwr.app import Context, RecordDict

        ids = []
        for message in messages:
            node = message.metadata.dst_node_id
            message.metadata.__dict__["_message_id"] = f"m{len(self._replies)}"
            context = Context(
                run_id=1, node_id=node, node_config=self._configs[node], state=RecordDict(), run_config={}
            )
            ids.append(message.metadata.message_id)
            self._replies[ids[-1]] = self._app(message, context)
        return ids

    def pull_messages(self, message_ids: Any) -> list[Any]:
        return [self._replies.pop(i) for i in message_ids if i in self._replies]


def read_run(out: Path) -> Arrays:
    """What a run folder holds, as "trial/what/name"; trials by their settings, as their order may change."""
    arrays: Arrays = {}
    metrics = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    for number, trial in enumerate(json.loads((out / "result.json").read_text(encoding="utf-8"))["trials"]):
        varied = {**trial.pop("settings"), "seed": trial.pop("seed")}
        name = ", ".join(f"{key}={value}" for key, value in sorted(varied.items()))
        del trial["seconds"]
        trial.pop("round_seconds", None)  # the machine's too
        mine = [event for event in metrics if event["trial"] == number]
        arrays[f"{name}/loss/rounds"] = np.array([event["loss"] for event in mine])
        trial["domains of rounds"] = [[event["domains"][d] for d in sorted(event["domains"])] for event in mine]
        for key, value in trial.items():
            if isinstance(value, str):
                arrays[f"{name}/text/{key}"] = np.array(value)
            else:  # a number, a list, or None, which becomes NaN
                numbers = [value[k] for k in sorted(value)] if isinstance(value, dict) else value
                what = "bytes" if "bytes" in key else "score"
                arrays[f"{name}/{what}/{key}"] = np.array(numbers, np.float64)
        with contextlib.suppress(FileNotFoundError), np.load(out / f"model/trial-{number:03d}/head.npz") as head:
            arrays |= {f"{name}/head/{key}": head[key] for key in head}
    return arrays


def record(out: Path, only: str) -> int:
    """Run every case whose name matches, one file each; 1 if a case failed otherwise than by a refusal."""
    print(f"recording {Path(ggeur.__file__).parent}", flush=True)
    warnings.simplefilter("ignore", ggeur.GgeurWarning)
    out = out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    began, heads, crashed = time.perf_counter(), 0, False
    with tempfile.TemporaryDirectory(prefix="ggeur-record-") as scratch, contextlib.chdir(scratch):
        make_inputs()
        for number, case in enumerate(cases()):
            if not fnmatch.fnmatch(case.name, only):
                continue
            start, folder = time.perf_counter(), Path(scratch) / f"run-{number:03d}"
            try:
                perform(case, folder)
                arrays = read_run(folder)
            except Exception as error:  # a refusal is a result too, and a crash must not cost the other cases
                crashed |= not isinstance(error, ggeur.GgeurError)
                arrays = {"/text/error": np.array(f"{type(error).__name__}: {error}".replace(scratch, ""))}
            np.savez(out / f"{case.name}.npz", **arrays)
            count = len({key.split("/")[0] for key in arrays if "/head/" in key})
            heads += count
            said = arrays.get("/text/error", f"{count} heads")
            print(f"{case.name:40} {time.perf_counter() - start:5.1f} s  {said}", flush=True)
    print(f"{heads} heads in {time.perf_counter() - began:.0f} s")
    return int(crashed)


# ---------------------------------------------------------------- comparing


def difference(a: np.ndarray, b: np.ndarray) -> float | None:
    """None if equal to the bit, else |a - b| max / max |a|, infinite where that has no meaning."""
    if a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes():
        return None
    if "U" in (a.dtype.kind, b.dtype.kind) or a.shape != b.shape or (np.isfinite(a) != np.isfinite(b)).any():
        return np.inf
    a, b = (np.nan_to_num(x.astype(np.float64)) for x in (a, b))
    apart, scale = np.abs(a - b).max(initial=0), np.abs(a).max(initial=0)
    return float(apart / scale) if scale else np.inf if apart else 0.0


def compare(a: Path, b: Path, tolerance: float, with_bytes: bool) -> int:
    """Print how far apart two recordings are, by kind of case and of number; 1 if it is too far."""
    files = {path.stem: [folder / path.name for folder in (a, b)] for folder in (a, b) for path in folder.glob("*.npz")}
    found: dict[tuple[str, str], list[tuple[float | None, str]]] = defaultdict(list)
    missing: list[str] = []
    fields: dict[tuple[str, str], int] = defaultdict(int)  # of results that only one of the two versions has
    for name, sides in sorted(files.items()):
        if absent := [str(side) for side in sides if not side.exists()]:
            missing.append(f"{absent[0]} is missing")
            continue
        with np.load(sides[0]) as first, np.load(sides[1]) as second:
            for key in sorted({*first, *second}):
                if key in first and key in second:
                    where = name.split()[0], key.split("/")[1]
                    found[where].append((difference(first[key], second[key]), f"{name}: {key}"))
                elif "/score/" in key:
                    fields[key.rpartition("/")[2], str(a if key in first else b)] += 1
                else:
                    missing.append(f"{name}: {key} is only in {a if key in first else b}")
    failed = bool(missing) or not found
    for (kind, what), all_of_it in sorted(found.items()):
        apart = [(largest, where) for largest, where in all_of_it if largest is not None]
        words = "equal to the bit"
        if apart:
            largest, where = max(apart)
            words = f"{len(apart)} differ, by {largest:.2g} at most: {where}"
            failed |= largest > tolerance and (what != "bytes" or with_bytes)
        print(f"{kind:12} {what:6} {len(all_of_it):6}  {words}")
    for (field, side), times in fields.items():
        print(f"{times} trials have '{field}' only in {side}")
    print(*missing[:10], *([f"and {len(missing) - 10} more"] if len(missing) > 10 else []), sep="\n")
    print("DIFFERENT" if failed else "the same")
    return int(failed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("record", help="run every case and save what it computes")
    one.add_argument("out", type=Path)
    one.add_argument("--only", default="*", metavar="PATTERN", help="of names of cases, such as 'method fed*'")
    two = commands.add_parser("compare", help="hold one recording against another")
    two.add_argument("a", type=Path)
    two.add_argument("b", type=Path)
    two.add_argument("--tolerance", type=float, default=0.0, help="of the largest relative difference")
    two.add_argument("--bytes", action="store_true", help="bytes that differ count too")
    given = parser.parse_args()
    if given.command == "record":
        return record(given.out, given.only)
    return compare(given.a, given.b, given.tolerance, given.bytes)


if __name__ == "__main__":
    sys.exit(main())
