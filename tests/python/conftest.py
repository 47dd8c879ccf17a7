"""What runs when. `full` is breadth beside tests of the same kind: with PACELINE_FULL=1, as in .ci/run. What long_tests.txt lists took a second or
more: with PACELINE_LONG=1, as in .ci/run, `scripts/test all` and where a file is named."""

import os
from pathlib import Path

import pytest

import jobs
from sharing import shared_folder


LONG = frozenset((Path(__file__).parent / "long_tests.txt").read_text().splitlines())


def pytest_configure(config):
    config.addinivalue_line("markers", "full: only with PACELINE_FULL=1")


def left_out(item) -> bool:
    full, long = os.environ.get("PACELINE_FULL") in ("1", "all"), os.environ.get("PACELINE_LONG") == "1"
    return not full and (item.get_closest_marker("full") is not None or (not long and item.nodeid in LONG))


def pytest_collection_modifyitems(config, items):
    config.hook.pytest_deselected(items=[item for item in items if left_out(item)])
    items[:] = [item for item in items if not left_out(item)]


@pytest.fixture(scope="session", autouse=True)
def one_folder_of_references(tmp_path_factory):
    jobs.references = shared_folder(tmp_path_factory, "references")
