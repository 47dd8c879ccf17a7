"""What a job has around it: signals that are ignored, terminals, outputs that are closed, full or that nobody reads, folders without a name
that is text. Jobs replay a small table, so nothing here loads LibTorch."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios

import pytest
from jobs import PROGRAM, Coordinator, Job, Process, train, wait_until
from test_bad_input import refused
from test_files import job, table  # noqa: F401 (fixtures)

RUN = ("run", "--workers", 1, "--servers", 1, "--")


def test_a_signal_that_is_ignored_where_the_job_was_started_does_not_end_it(tmp_path, job):
    with Job(tmp_path, *job[:-1], 100_000, prefix=("env", "--ignore-signal=HUP")) as process:
        process.wait_for_iterations(1)
        process.signal(signal.SIGHUP)
        process.wait_for_iterations(process.iterations() + 100)
        process.signal(signal.SIGTERM)
        assert process.finish() == 130


def test_what_cannot_be_said_on_the_way_does_not_end_a_job(job):
    with open("/dev/full", "w") as full:
        done = subprocess.run([PROGRAM, "train", "--json", *map(str, job), "--metrics", "/dev/full"], stdout=subprocess.PIPE, stderr=full, text=True, timeout=60)
    assert done.returncode == 1 and json.loads(done.stdout)["iterations"] == 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("program", [("sleep", "1000"), ("yes",)])
def test_one_signal_ends_a_program_that_has_not_joined_whatever_it_prints(program, number):
    with subprocess.Popen([PROGRAM, *map(str, RUN), *program], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        wait_until("the program runs", lambda: f"({program[0]})" in children_of(process.pid))
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted" in said


def children_of(pid):
    """ "(NAME)" of each."""
    numbers = open(f"/proc/{pid}/task/{pid}/children").read().split()
    names = []
    for number in numbers:
        try:
            names.append(open(f"/proc/{number}/stat").read().split()[1])
        except FileNotFoundError:
            pass
    return names


def test_a_line_of_many_megabytes_is_passed_on_whole():
    script = "import sys; sys.stdout.write('x' * 40_000_000); sys.exit(3)"
    with Process(*RUN, sys.executable, "-c", script) as process:
        assert process.finish() == 1
        assert process.out == "x" * 40_000_000 + "\n"


def test_closed_outputs_are_not_taken_for_files_of_the_job():
    with Coordinator("--workers", 1, "--servers", 1, prefix=("sh", "-c", 'exec "$@" 2>&- <&-', "sh")) as process:
        assert [os.readlink(f"/proc/{process.pid}/fd/{number}") for number in (0, 2)] == ["/dev/null"] * 2


class Pipe:
    """A pipe with a reader that reads nothing until it is told to."""

    def __init__(self, path):
        os.mkfifo(path)
        self.reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        fcntl.fcntl(self.reader, fcntl.F_SETPIPE_SZ, 4096)

    def is_full(self):
        return int.from_bytes(fcntl.ioctl(self.reader, termios.FIONREAD, bytes(4)), "little") > 3500

    def read_until_closed(self):
        os.set_blocking(self.reader, True)
        with open(self.reader) as file:
            return file.read()


def test_who_does_not_read_the_metrics_holds_nobody_up(tmp_path, job):
    pipe = Pipe(tmp_path / "pipe")
    with Process("train", *job[:-1], 100_000, "--pace", tmp_path / "pipe") as process:
        wait_until("the pipe is full", pipe.is_full)
        process.signal(signal.SIGTERM)
        assert process.finish() == 130
    os.close(pipe.reader)


def test_who_reads_the_metrics_late_gets_them_all(tmp_path, job):
    pipe = Pipe(tmp_path / "pipe")
    with Process("train", "--json", *job[:-1], 2000, "--metrics", tmp_path / "pipe") as process:
        wait_until("the pipe is full", pipe.is_full)
        lines = pipe.read_until_closed().splitlines()
        assert process.finish() == 0, process.err
    assert [json.loads(line)["iteration"] for line in lines] == list(range(1, 2001))


def test_a_program_reads_nothing_from_a_terminal():
    ours, theirs = os.openpty()
    script = 'read line; echo "got <$line>"; exit 3'
    with subprocess.Popen(
        [PROGRAM, *map(str, RUN), "sh", "-c", script], stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as process:  # fmt: skip
        out, said = process.communicate(timeout=60)
    os.close(ours), os.close(theirs)
    assert out == "got <>\n" and "exited with code 3" in said


@pytest.mark.parametrize(
    ("given", "output"),
    [("--job-key-file", "--metrics"), ("--job-key-file", "--export"), ("--checkpoint-key", "--trace"), ("--plan", "--pace"), ("--convolutions", "--export"), ("--config", "--metrics")],
)
def test_no_output_replaces_what_the_job_reads(tmp_path, job, output, given):
    key = tmp_path / "key"
    subprocess.run([PROGRAM, "key", "new", key], check=True, stdout=subprocess.DEVNULL)
    if given == "--plan":
        key.write_text('{"feasible": true, "train": {}}')
    if given == "--convolutions":
        key.write_text('{"convolutions": {}}')
    if given == "--config":
        key.write_text("seed = 7\n")
    before = key.read_bytes()
    words = ("--model", "lenet") if output == "--export" else job
    refused("train", *words, *(("--checkpoint", tmp_path / "c") if "check" in given else ()), given, key, output, f"{tmp_path}/./key", names=(given, output, "name one file"))
    assert key.read_bytes() == before


def test_no_output_of_a_program_s_job_replaces_its_configuration(tmp_path):
    config = tmp_path / "job.toml"
    config.write_text("workers = 1\n")
    refused("run", "--config", config, "--pace", config, "--", "true", names=("--config", "--pace", "name one file"))
    assert config.read_text() == "workers = 1\n"


def test_no_output_replaces_the_table_or_the_data_set(tmp_path, job, table):
    refused("train", *job, "--trace", table, names=("--model", "--trace", "name one file"))
    assert train(*job, "--trace", tmp_path / "trace.json")["iterations"] == 5
    records = tmp_path / "some.records"
    subprocess.run([PROGRAM, "datasets", "pack", "synthetic:1x4x4,samples=10,test=2", records], check=True, stdout=subprocess.DEVNULL)
    refused("train", "--model", "lenet", "--dataset", f"records:{records}", "--metrics", records, names=("--dataset", "--metrics", "name one file"))


def test_words_that_are_no_text_are_named_and_not_a_matter_of_json(tmp_path):
    done = subprocess.run([PROGRAM, "run", "--hosts", "h", "--bind", "127.0.0.1", "--", "sh", "-c", b"echo \xff"], capture_output=True, timeout=60)
    assert done.returncode == 2 and b"no UTF-8 text" in done.stderr, done.stderr
