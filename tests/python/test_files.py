"""Files that options name, asked from outside: what is no regular file is refused at once, nothing of the user's is replaced or removed, and
what could not be written is said. Jobs replay a small table, so nothing here loads LibTorch.
"""

import json
import os
import signal
import stat
import subprocess

import pytest

from jobs import PROGRAM, ROOT, Job, Process, train, wait_until
from test_bad_input import refused


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Two layers, a millisecond an iteration."""
    file = tmp_path_factory.mktemp("tables") / "small.json"
    layers = [{"name": f"layer {i}", "parameters": 5000, "forward_s": 0.0002, "backward_s": 0.0003} for i in range(2)]
    file.write_text(json.dumps({"layers": layers}))
    return file


@pytest.fixture
def job(table):
    """The words of a short job."""
    return ("--model", f"replay:{table}", "--iterations", 5)


def checkpoints(directory):
    return sorted(int(path.parent.name) for path in directory.glob("[0-9]*/manifest.json"))


# ---- what is not ours stays


def test_folders_of_the_users_outlive_fresh_and_resumed_jobs(tmp_path, job):
    theirs = [tmp_path / "runs" / name for name in ("20240131/raw/thesis.txt", "20240201/manifest.json", "00000009/notes", "00000001.damaged/mine", "20240202")]
    for file in theirs:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("mine")
    (tmp_path / "runs/20240203").mkdir()
    train(*job, "--checkpoint", tmp_path / "runs")
    train(*job[:-1], 8, "--checkpoint", tmp_path / "runs", "--resume")
    for file in theirs:
        assert file.read_text() == "mine"
    assert (tmp_path / "runs/20240203").is_dir()
    assert (tmp_path / "runs/00000008/manifest.json").exists()


def test_nothing_is_written_beside_what_is_the_users(tmp_path, job):
    theirs = tmp_path / "runs/00000005/worker-0.bin"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("mine")
    with Process("train", *job, "--checkpoint", tmp_path / "runs") as process:
        assert process.finish() == 1
    assert "worker-0.bin, which is no part of a checkpoint" in process.the_error() and str(theirs.parent) in process.the_error()
    assert theirs.read_text() == "mine" and [path.name for path in theirs.parent.iterdir()] == ["worker-0.bin"]


def test_an_unfinished_checkpoint_goes_and_leaves_what_the_user_put_there(tmp_path, job):
    part = tmp_path / "runs/00000003/server-0.bin"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"PACEPART and so on")
    part.with_name("worker-0.bin.77-0.tmp").write_bytes(b"PAC")
    part.with_name("notes").write_text("mine")
    train(*job, "--checkpoint", tmp_path / "runs")
    assert [path.name for path in part.parent.iterdir()] == ["notes"]


# ---- written files


KINDS = {
    "device": lambda path: os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3)),
    "pipe": os.mkfifo,
    "link to a device": lambda path: path.symlink_to("/dev/null"),
    "folder": lambda path: path.mkdir(),
}
PLAN = ("plan", "job", "--model", "lenet", "--dataset-size", 4000, "--memory", "2GiB")
WRITERS = {
    "--export": lambda path, job: ("train", "--iterations", 1, "--export", path),
    "--record": lambda path, job: ("profile", "--model", "lenet", "--record", path),
    "--output": lambda path, job: (*PLAN, "--output", path),
    "--picture": lambda path, job: (*PLAN, "--picture", path),
    "pack": lambda path, job: ("datasets", "pack", "synthetic:1x2x2", path),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_no_file_is_not_replaced(tmp_path, job, kind, writer):
    path = tmp_path / "there"
    KINDS[kind](path)
    before = path.lstat().st_mode, path.lstat().st_rdev
    refused(*WRITERS[writer](path, job), names=(path, "not a regular file but"))
    assert (path.lstat().st_mode, path.lstat().st_rdev) == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("kind", KINDS)
def test_a_timeline_replaces_nothing_else_than_a_file(tmp_path, job, kind):
    path = tmp_path / "there"
    KINDS[kind](path)
    before = path.lstat().st_mode
    refused("train", *job, "--trace", path, names=(f"--trace {path}", "not a regular file but"))
    assert path.lstat().st_mode == before and list(tmp_path.iterdir()) == [path]


def test_a_link_stays_and_its_target_is_written(tmp_path, job):
    (tmp_path / "old").write_text("old")
    (tmp_path / "link").symlink_to("old")
    (tmp_path / "dangling").symlink_to("new")
    for name in ("link", "dangling"):
        with Process("train", *job, "--trace", tmp_path / name) as process:
            assert process.finish() == 0 and "warning" not in process.err, process.err
        assert (tmp_path / name).is_symlink() and "traceEvents" in json.loads((tmp_path / name).read_text())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "link", "new", "old"]


def test_a_file_of_the_users_that_looks_like_a_temporary_one_stays(tmp_path, job):
    (tmp_path / "trace.json.tmp").write_text("mine")
    train(*job, "--trace", tmp_path / "trace.json")
    assert (tmp_path / "trace.json.tmp").read_text() == "mine" and len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("option", ["--metrics", "--pace"])
def test_lines_are_written_to_devices_and_pipes_that_somebody_reads(tmp_path, job, option):
    os.mkfifo(tmp_path / "pipe")
    job = (*job, "--sync", "asp")
    refused("train", *job, option, tmp_path / "pipe", names=(option, tmp_path / "pipe", "a pipe that nobody reads"))
    assert train(*job, option, "/dev/null")["iterations"] >= 1
    with subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE, text=True) as reader:
        # Opening waits until the reader is there, too; it ends when the job's process does.
        with open(tmp_path / "pipe", "w"):
            train(*job, option, tmp_path / "pipe")
        lines = reader.stdout.read().splitlines()
    assert lines and all(isinstance(json.loads(line), dict) for line in lines)


# ---- files that are read


@pytest.mark.parametrize("kind", ["pipe", "link to a device", "folder", "/dev/zero"])
@pytest.mark.parametrize(
    "words, named",
    [
        (("train", "--config"), "--config"),
        (("train", "--plan"), "--plan"),
        (("train", "--convolutions"), "--convolutions"),
        (("train", "--model", "replay:"), "the table cannot be read"),
        (("plan", "batches", "--input"), "--input"),
        ((*PLAN, "--measurements"), "--measurements"),
        (("datasets", "show", "records:"), "records:"),
    ],
    ids=["config", "plan", "convolutions", "replay", "input", "measurements", "records"],
)
def test_what_is_no_file_is_not_read(tmp_path, kind, words, named):
    path = kind
    if not kind.startswith("/"):
        path = tmp_path / "there"
        KINDS[kind](path)
    last = [f"{words[-1]}{path}"] if words[-1].endswith(":") else [words[-1], path]
    message = refused(*words[:-1], *last, names=("not a regular file but",))
    assert named in message or named == "records:"


@pytest.mark.parametrize("file", ["manifest.json", "server-0.bin", "worker-0.bin"])
@pytest.mark.parametrize("kind", ["pipe", "link to a device", "folder"])
def test_a_checkpoint_with_what_is_no_file_in_it_is_left_out(tmp_path, job, file, kind):
    directory = tmp_path / "runs"
    train(*job, "--checkpoint", directory, "--checkpoint-every", 2)
    assert checkpoints(directory) == [2, 4, 5]
    damaged = directory / "00000005" / file
    damaged.unlink()
    KINDS[kind](damaged)
    with Process("train", "--json", *job[:-1], 8, "--checkpoint", directory, "--resume") as process:
        assert process.finish() == 0, process.err
    assert process.report()["iterations"] == 4 and str(damaged) in process.err
    assert (directory / "00000005.damaged" / file).lstat().st_mode


def test_a_name_of_thousands_of_parts_is_refused(tmp_path):
    file = tmp_path / "deep.toml"
    for text in ("[" + ".".join(50_000 * "a") + "]\n", "seed = 1\n" + " . ".join(50_000 * "a") + " = 1\n", ".".join(50_000 * ['"a"']) + " = 1\n"):
        file.write_text(text)
        refused("train", "--config", file, names=(file, "dots"))


# ---- what was asked for and is not there


def test_a_server_that_dies_while_it_writes_the_last_checkpoint_is_no_success(tmp_path, job):
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "kills.so", ROOT / "tests/python/kills_a_writer.c", "-ldl"], check=True, timeout=60)
    with Process("train", "--json", *job, "--checkpoint", tmp_path / "runs", "--deadline", "2s", prefix=("env", f"LD_PRELOAD={tmp_path / 'kills.so'}")) as process:
        assert process.finish() == 1
    assert process.report()["checkpoint"] is None and not checkpoints(tmp_path / "runs")
    assert "no checkpoint of its last iteration 5" in process.the_error() and "server-0.bin" in process.the_error()


SMALL_FILES = ("prlimit", "--fsize=4000")  # a server's part is larger, a worker's is not


def test_a_limit_of_files_is_told_as_a_full_disk_is(tmp_path, job):
    limit = "File too large; 'ulimit -f' says how large a file may be"
    with Process("train", "--json", *job, "--checkpoint", tmp_path / "runs", prefix=SMALL_FILES) as process:
        assert process.finish() == 1
    assert process.report()["iterations"] == 5 and process.report()["checkpoint"] is None and not checkpoints(tmp_path / "runs")
    assert "last iteration 5" in process.the_error() and "server-0.bin" in process.the_error() and limit in process.err
    with Process("train", "--json", *job, "--checkpoint", tmp_path / "runs", "--checkpoint-every", 2, prefix=SMALL_FILES) as process:
        process.finish()
    assert process.report()["iterations"] == 5, "training goes on"
    with Process("datasets", "pack", "mnist-5k", tmp_path / "packed", prefix=SMALL_FILES) as process:
        assert process.finish() == 1 and process.the_code() == "PL-DISK-FULL" and limit in process.the_error()


def test_the_only_checkpoint_that_does_not_fit_on_the_disk_is_no_success(tmp_path, job):
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20k", "tmpfs", str(disk)], check=True)
    try:
        with Process("train", "--json", *job, "--checkpoint", disk / "runs") as process:
            assert process.finish() == 1
        assert process.report()["checkpoint"] is None
        assert "No space left on device" in process.the_error() and "last iteration 5" in process.the_error()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_lines_that_do_not_fit_on_the_disk_are_said_and_no_success(job):
    with Process("train", "--json", *job, "--metrics", "/dev/full") as process:
        assert process.finish() == 1
    assert process.report()["iterations"] == 5
    assert "--metrics /dev/full cannot be written: No space left on device" in process.the_error()
    assert "paceline: warning: --metrics /dev/full" in process.err


@pytest.mark.parametrize("words", [("train", "--json"), ("models",), ("datasets",), ("--version",), ("plan", "--help")], ids=lambda words: words[0])
def test_a_report_that_does_not_fit_on_the_disk_is_an_error(job, words):
    with open("/dev/full", "w") as full:
        done = subprocess.run([PROGRAM, *words, *(map(str, job) if words[0] == "train" else ())], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.startswith("paceline: error: ")


# ---- launching


def test_a_coordinator_that_is_frozen_as_soon_as_it_is_there_holds_nobody(tmp_path, job):
    with Job(tmp_path, *job[:-1], 100_000, "--deadline", "1s", "--stall-deadline", "3s") as process:
        # At whatever moment this meets it, before it has spoken or after.
        os.kill(wait_until("a coordinator", lambda: process.children().get("coordinator")), signal.SIGSTOP)
        assert process.finish(60) == 1
        assert "coordinator" in process.the_error()


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_what_a_program_leaves_behind_neither_holds_the_launcher_nor_stays(tmp_path, more):
    program = "sleep 1000 & sleep 1000 >/dev/null 2>&1 & exit 3"
    with Process("run", *more, "--workers", 1, "--servers", 1, "--deadline", "1s", "--", "sh", "-c", program) as process:
        assert process.finish(60) == 1
        assert "worker 0" in process.the_error() and "code 3" in process.the_error()


def test_two_outputs_of_one_name_are_refused(tmp_path, job):
    for one, other in (("--metrics", "--pace"), ("--metrics", "--trace")):
        refused("train", *job, one, tmp_path / "x", other, f"{tmp_path}/./x", names=(one, other, "name one file"))
    assert not list(tmp_path.iterdir())
    assert train(*job, "--metrics", "/dev/null", "--pace", "/dev/null")["iterations"] == 5


def test_a_folder_for_checkpoints_that_takes_no_file_is_refused_before_the_start(job):
    refused("train", *job, "--checkpoint", "/sys/kernel", names=("--checkpoint /sys/kernel", "give a folder that can be written"))


def test_a_job_that_goes_on_goes_on_with_its_lines(tmp_path, job):
    places = ("--checkpoint", tmp_path / "c", "--metrics", tmp_path / "lines")
    train(*job, *places)
    train(*places, "--resume", "--iterations", 8)
    assert [json.loads(line)["iteration"] for line in (tmp_path / "lines").read_text().splitlines()] == list(range(1, 9))


def test_the_reference_tells_of_each_iteration_and_evaluation_as_the_workers_do(tmp_path):
    network = ("--model", "lenet", "--dataset", "synthetic:1x28x28,samples=80,test=20", "--mini-batch", 8, "--iterations", 5)
    report = train(*network, "--workers", 2, "--reference", "--evaluate-every", 2, "--metrics", tmp_path / "lines")
    assert [json.loads(line)["iteration"] for line in (tmp_path / "lines").read_text().splitlines()] == [1, 2, 3, 4, 5]
    assert [one["iteration"] for one in report["evaluations"]] == [2, 4, 5]


def test_a_data_set_is_not_packed_where_no_file_can_be_written():
    refused("datasets", "pack", "digits", "/proc/x.records", names=("/proc/x.records", "give the name of a file that can be written"))
