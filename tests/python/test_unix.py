"""Jobs whose processes talk through Unix domain sockets: the bits of the reference, no file left behind, none replaced that is not ours."""

import contextlib
import json
import os
import signal
import socket
import tempfile

import pytest

from jobs import Job, Process, reference, train
from test_bad_input import refused

LAYERS = [{"name": f"layer{i + 1}", "parameters": n, "forward_s": 0.0005, "backward_s": 0.001} for i, n in enumerate((1792, 36_928, 300_000, 60_000))]


@pytest.fixture
def folder():
    """A short path: the system allows 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="paceline-") as path:
        yield path


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    file = tmp_path_factory.mktemp("unix") / "small.json"
    file.write_text(json.dumps({"layers": LAYERS}))
    return ("--model", f"replay:{file}", "--iterations", 8, "--workers", 3)


@pytest.mark.parametrize("shape", [("--servers", 2), ("--role", "both"), ("--collective", "loop2"), ("--servers", 2, "--security", "psk")], ids=str)
def test_a_whole_job_over_files_has_the_bits_of_the_reference(folder, task, shape):
    report = train(*task, *shape, "--bind", f"unix:{folder}/job")
    assert report["parameters_hash"] == reference(*task)["parameters_hash"]
    assert os.listdir(folder) == []


def test_processes_join_through_the_coordinators_file_and_listen_beside_it(folder, task):
    where = f"unix:{folder}/job.sock"
    with contextlib.ExitStack() as stack:
        coordinator = stack.enter_context(Process("coordinator", "--workers", 3, "--servers", 2, "--bind", where, "--json"))
        members = [stack.enter_context(Process("train", "--join", where, "--role", "server", "--deadline", "60s")) for _ in range(2)]
        members += [stack.enter_context(Process("train", "--join", where, *task, "--deadline", "60s")) for _ in range(3)]
        assert coordinator.finish() == 0, coordinator.err
        for member in members:
            assert member.finish() == 0, member.err
    assert coordinator.report()["parameters_hash"] == reference(*task)["parameters_hash"]
    assert os.listdir(folder) == []


def test_a_file_that_is_not_our_own_stays_and_is_named(folder, task):
    file = f"{folder}/precious"
    with open(file, "w") as precious:
        precious.write("text")
    refused("coordinator", "--bind", f"unix:{file}", names=[f"unix:{file}", "no socket"])
    assert open(file).read() == "text"
    job = Process("train", *task, "--bind", f"unix:{file}")
    with job:
        assert job.finish() == 2 and f"unix:{file}" in job.the_error(), job.err
    assert open(file).read() == "text"


def test_where_somebody_listens_nobody_else_does_and_what_was_left_behind_is_replaced(folder, task):
    where = f"unix:{folder}/job"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(f"{folder}/job")
        other.listen()
        with Process("coordinator", "--bind", where) as late:
            assert late.finish() == 1
            assert where in late.the_error() and "another process listens there" in late.the_error()
    assert os.listdir(folder) == ["job"]
    for name in ("job.3", "job-1", "job-1.2", "job2.1", "job-old"):  # of members, of a script's second job and its members, and of others
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(f"{folder}/{name}")
    assert train(*task, "--bind", where)["parameters_hash"] == reference(*task)["parameters_hash"]
    assert sorted(os.listdir(folder)) == ["job-old", "job2.1"]


@pytest.mark.parametrize(
    "path, names",
    [
        ("/missing/folder/job", ["/missing/folder", "No such file or directory"]),
        ("/tmp/" + "x" * 120, ["125 bytes", "107"]),
    ],
    ids=["missing", "long"],
)
def test_where_there_can_be_no_file_is_refused(path, names):
    refused("coordinator", "--bind", f"unix:{path}", names=[f"unix:{path}", *names])


def test_addresses_that_make_no_sense_are_refused(folder, task):
    refused("coordinator", "--bind", f"unix:{folder}/job", "--port", 4100, names=["4100", "no port"])
    refused("train", *task, "--join", "unix:job", names=["unix:job", "unix:/PATH"])
    with Process("train", *task, "--join", f"unix:{folder}/job", "--role", "server", "--bind", "127.0.0.1") as server:
        assert server.finish() == 2 and "127.0.0.1" in server.the_error(), server.err


@pytest.mark.parametrize("culprit", ["worker 1", "server 0"])
def test_a_killed_process_is_named_without_waiting_for_its_silence(folder, task, culprit, tmp_path):
    with Job(tmp_path, *task[:2], "--workers", 3, "--iterations", 10**6, "--servers", 2, "--bind", f"unix:{folder}/job", "--deadline", "1h") as job:
        job.wait_for_iterations(3)
        os.kill(job.children()[culprit], signal.SIGKILL)
        assert job.finish() == 1 and job.the_error().startswith(f"{culprit} ("), job.err
        assert "has ended: its connection closed, and its process is there no more" in job.the_error(), job.err
    assert os.listdir(folder) == []
