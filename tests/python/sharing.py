"""What the processes that run tests side by side share."""

import contextlib
import fcntl
import os


def shared_folder(tmp_path_factory, name):
    """(path) A folder of this run of tests, the same for all processes that run tests side by side; pytest removes it with the run's others."""
    place = tmp_path_factory.getbasetemp()
    return (place.parent if "PYTEST_XDIST_WORKER" in os.environ else place) / name


@contextlib.contextmanager
def turn(path):
    """Whoever comes first makes what stands at `path`; the others wait and find it."""
    with open(f"{path}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
