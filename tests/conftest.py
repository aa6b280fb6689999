"""What the tests share: the real data beside the checkout, if it is there, and Hypothesis without a clock."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

SHARED = Path(__file__).resolve().parents[2] / "shared"
ABSENT = "../shared is not there"

# The first example of a test may wait for a compiler. Where CI is set, Hypothesis has a profile of its own.
settings.register_profile("ggeur", deadline=None)
if not os.environ.get("CI"):
    settings.load_profile("ggeur")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not SHARED.is_dir():
        for item in items:
            if item.get_closest_marker("real"):
                item.add_marker(pytest.mark.skip(reason=ABSENT))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data and weights; a test that asks for it is marked `real`."""
    if not SHARED.is_dir():
        pytest.skip(ABSENT)
    return SHARED
