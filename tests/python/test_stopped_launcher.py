"""A launcher that stands still, as behind Ctrl-Z: nobody reads what the coordinator tells of the job."""

import signal

from jobs import DEADLINE, Job, wait_until
from test_outsiders import task  # noqa: F401 (a fixture)


def test_a_stopped_launcher_holds_up_nobody_and_misses_nothing(task, tmp_path):
    # Each iteration of a worker is a line of some 250 bytes, and a pipe takes 64 KiB.
    iterations = 600
    with Job(tmp_path, *task, "--iterations", iterations, "--workers", 2, "--servers", 1, "--deadline", f"{DEADLINE:g}s") as job:
        job.wait_for_iterations(1)
        job.signal(signal.SIGSTOP)
        wait_until("all members have done their part", lambda: not set(job.children()) - {"coordinator"})
        job.signal(signal.SIGCONT)
        assert job.finish() == 0, job.err
        assert job.report()["iterations"] == iterations
        assert job.iterations() == iterations
