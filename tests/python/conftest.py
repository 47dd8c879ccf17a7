"""Marks: `full` is breadth beside tests of the same kind that always run; PACELINE_FULL=1 (as .ci/run does) runs it too."""

import os

import pytest

import jobs
from sharing import shared_folder


def pytest_configure(config):
    config.addinivalue_line("markers", "full: only with PACELINE_FULL=1")


def pytest_collection_modifyitems(config, items):
    if os.environ.get("PACELINE_FULL") not in ("1", "all"):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("full")])
        items[:] = [item for item in items if not item.get_closest_marker("full")]


@pytest.fixture(scope="session", autouse=True)
def one_folder_of_references(tmp_path_factory):
    jobs.references = shared_folder(tmp_path_factory, "references")
