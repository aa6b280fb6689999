"""Rules for every test and doctest: no network, no module whose extra is missing, and in CI no skip."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent / "src" / "ggeur"

# Where a doctest's module, or a whole folder of them, needs more than the core.
EXTRAS = {
    PACKAGE / "encode" / "huggingface.py": ["torch", "transformers"],
    PACKAGE / "encode" / "onnx.py": ["onnxruntime"],
    PACKAGE / "deploy": ["flwr"],
    PACKAGE / "runs" / "exports" / "torch_module.py": ["torch"],
    PACKAGE / "serve": ["starlette", "uvicorn"],
}

# Read by the libraries when they are imported, so set before any test is.
for name, value in {
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_TELEMETRY_ENABLED": "0",
    "HF_HUB_OFFLINE": "1",
    "JAX_PLATFORMS": "cpu",
    "MPLBACKEND": "agg",
}.items():
    os.environ.setdefault(name, value)


def in_ci() -> bool:
    return bool(os.environ.get("CI"))


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out the doctests of a missing extra. Not in CI: there, the import shall fail loudly."""
    missing = any(find_spec(module) is None for module in EXTRAS.get(collection_path, []))
    return True if missing and not in_ci() else None


def skipped(config: pytest.Config) -> list[pytest.TestReport | pytest.CollectReport]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return reporter.stats.get("skipped", []) if reporter else []  # the workers of xdist have no reporter


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if in_ci() and skipped(session.config) and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if in_ci() and (reports := skipped(config)):
        terminalreporter.section("skipped in CI, where every test must run", red=True)
        for report in reports:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            terminalreporter.line(f"{report.nodeid}: {reason}")
