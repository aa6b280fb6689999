"""Rules for every test and doctest: what it needs is declared, nothing is fetched, and CI skips nothing in silence.

A test, a parameter or a whole file declares an extra with the marker `needs`, as `pytest.mark.needs("flower")`; a
fixture by asking for the fixture `needs_flower`. What needs an extra that is not installed is skipped with the reason;
a file that declares it as `pytestmark` is not even imported, so it may import the extra at its top.
"""

import ast
import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent / "src" / "ggeur"

# The modules that an extra of pyproject.toml brings and that tests import or look for.
EXTRAS = {
    "hf": ("torch", "transformers", "datasets", "PIL"),
    "onnx": ("onnxruntime", "onnx", "PIL"),
    "serve": ("fastapi", "python_multipart", "uvicorn"),
    "sign": ("cryptography",),
    "flower": ("flwr", "cryptography"),
    "track": ("mlflow", "tensorboard", "wandb"),
    "bench": ("torch", "psutil"),
    "tables": ("pyarrow", "h5py"),
    "cluster": ("ray", "dask"),
    "docs": ("material", "markdown", "yaml", "nbclient", "nbformat", "ipykernel"),
}

# What is collected for its doctests alone, by the module or room whose import needs more than the core.
DOCTESTS = {
    PACKAGE / "encoders" / "huggingface.py": "hf",
    PACKAGE / "encoders" / "onnx.py": "onnx",
    PACKAGE / "flower": "flower",
    PACKAGE / "models" / "exports" / "torch_module.py": "hf",
    PACKAGE / "serve": "serve",
    Path(__file__).parent / "tests" / "helpers" / "door_place.py": "flower",
}

# Read by the libraries when they are imported, so set before any test is. All workers, and the commands that tests
# start, share one cache of compiled programs; two workers on two cores want one thread of BLAS each. Toy programs are
# compiled far more often than they are run: without XLA's newer emitters of fusions that takes half the time.
for name, value in {
    "JAX_COMPILATION_CACHE_DIR": str(Path(__file__).parent / ".pytest_cache" / "jax"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_use_fusion_emitters=false",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_TELEMETRY_ENABLED": "0",
    "HF_HUB_OFFLINE": "1",
    "JAX_PLATFORMS": "cpu",
    "MPLBACKEND": "agg",
}.items():
    os.environ.setdefault(name, value)


def missing(extras) -> str:
    """The sentence about what is not installed, or an empty one."""
    absent = [extra for extra in extras if any(find_spec(module) is None for module in EXTRAS[extra])]
    return f"needs the extra {', '.join(absent)}" if absent else ""


@cache
def extras_of_file(path: Path) -> list[str]:
    """The extras that a whole file needs: by DOCTESTS, or as its `pytestmark`, read without importing it."""
    if by_place := [extra for place, extra in DOCTESTS.items() if place == path or place in path.parents]:
        return by_place
    for node in ast.parse(path.read_bytes()).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["pytestmark"]:
            calls = [n for n in ast.walk(node.value) if isinstance(n, ast.Call)]
            needs = [call for call in calls if ast.unparse(call.func) == "pytest.mark.needs"]
            return [ast.literal_eval(argument) for call in needs for argument in call.args]
    return []


# ---------------------------------------------------------------- what needs an extra


class NotImported(pytest.Module):
    """A file whose extra is missing: one skip, with the reason."""

    def collect(self):
        pytest.skip(missing(extras_of_file(self.path)), allow_module_level=True)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path, parent: pytest.Collector):
    """Import nothing whose extra is missing, neither for its tests nor for its doctests."""
    collectors = yield
    if file_path.suffix == ".py" and missing(extras_of_file(file_path)):
        asked_for = "not slow" not in parent.config.getoption("markexpr") or not is_slow(file_path)
        return [NotImported.from_parent(parent, path=file_path)] if asked_for else []
    return collectors


def is_slow(path: Path) -> bool:
    """Whether a whole file is slow, by its `pytestmark`, so that it is not missed where slow tests are left out."""
    assigned = [node for node in ast.parse(path.read_bytes()).body if isinstance(node, ast.Assign)]
    return any(
        "pytestmark" in map(ast.unparse, n.targets) and "pytest.mark.slow" in ast.unparse(n.value) for n in assigned
    )


def asks_for(extra: str):
    @pytest.fixture(scope="session", name=f"needs_{extra}")
    def needed() -> None:
        """Asked for by fixtures that need the extra; whoever uses them is marked."""

    return needed


for extra in EXTRAS:
    globals()[f"needs_{extra}"] = asks_for(extra)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark who needs an extra by a fixture or as a doctest, so that `-m needs` finds all, and skip what cannot run."""
    fixtures = getattr(item, "fixturenames", ())
    by_fixture = [name.removeprefix("needs_") for name in fixtures if name.startswith("needs_")]
    if extras := by_fixture + (extras_of_file(item.path) if isinstance(item, pytest.DoctestItem) else []):
        item.add_marker(pytest.mark.needs(*extras))
    wanted = [extra for mark in item.iter_markers("needs") for extra in mark.args]
    if reason := missing(dict.fromkeys(wanted)):
        item.add_marker(pytest.mark.skip(reason=reason))


# ---------------------------------------------------------------- no skip in silence


def in_ci() -> bool:
    return bool(os.environ.get("CI"))


def skipped(config: pytest.Config) -> list[tuple[str, str]]:
    """Skips that CI does not allow: (test, reason). An extra may be missing unless `-m needs` asks for its tests."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    reports = reporter.stats.get("skipped", []) if reporter else []  # the workers of xdist have no reporter
    reasons = [(r.nodeid, r.longrepr[2] if isinstance(r.longrepr, tuple) else str(r.longrepr)) for r in reports]
    bare = "needs" not in config.option.markexpr.replace("not needs", "")
    return [(test, why) for test, why in reasons if not (bare and "needs the extra" in why)]


def pytest_report_header() -> str:
    absent = [extra for extra in EXTRAS if missing([extra])]
    return f"extras not installed: {', '.join(absent) or 'none'}"


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if in_ci() and skipped(session.config) and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if in_ci() and (tests := skipped(config)):
        terminalreporter.section("skipped in CI, where this must run", red=True)
        for test, reason in tests:
            terminalreporter.line(f"{test}: {reason}")
