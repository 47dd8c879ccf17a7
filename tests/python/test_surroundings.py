"""What a job has around it: signals that are ignored, terminals, outputs that are closed, full or that nobody reads, folders without a name
that is text. Jobs replay a small table, so nothing here loads LibTorch."""

import fcntl
import json
import os
import signal
import struct
import subprocess
import sys
import termios
import zlib

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


def png(grey):
    """An image of one pixel."""
    pieces = ((b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)), (b"IDAT", zlib.compress(bytes((0, grey)))), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in pieces)


@pytest.fixture
def data(tmp_path):
    """A folder with a few files of each kind of data set, which has to leave them as they are."""
    files = {"s.txt": b"a b\n", "t.txt": b"c d\n", "idx/train-images-idx3-ubyte": b"some images", "cifar/cifar-10-batches-bin/data_batch_1.bin": b"some more"}
    files |= {f"img/{name}/0.png": png(grey) for name, grey in (("a", 50), ("b", 200))}
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    yield tmp_path
    assert {name: (tmp_path / name).read_bytes() for name in files} == files


@pytest.mark.parametrize(
    ("spec", "output", "file"),
    [
        ("text:s.txt,t.txt", "--export", "t.txt"),
        ("text:s.txt,t.txt", "--pace", "./s.txt"),
        ("mnist:idx", "--export", "idx/train-images-idx3-ubyte"),
        ("cifar-10:cifar", "--metrics", "cifar/cifar-10-batches-bin/data_batch_1.bin"),
        ("images:img,size=32", "--metrics", "img/b/0.png"),
        ("images:img,size=32", "--trace", "img/b/new.jpg"),
    ],
)
def test_no_output_replaces_a_file_of_the_data_set(data, spec, output, file):
    refused("train", "--model", "lenet", "--dataset", spec, output, file, names=("--dataset", output, "name one file", f"{file} is part of the data set {spec}; give another"), folder=data)
    assert not (data / "img/b/new.jpg").exists()


@pytest.mark.parametrize(("spec", "file"), [("text:s.txt,t.txt", "s.txt"), ("images:img,size=32", "img/a/0.png"), ("images:img,size=32", "img/a/1.png")])
def test_no_data_set_is_packed_into_a_file_of_its_own(data, spec, file):
    refused("datasets", "pack", spec, file, names=(f"file {file} is part of the data set {spec}; give another name",), folder=data)


def test_a_plan_replaces_no_file_of_the_data_set(data):
    words = ("plan", "job", "--model", "lenet", "--dataset-size", 9, "--memory", "1GiB", "--dataset", "text:s.txt,t.txt")
    refused(*words, "--output", "t.txt", names=("--dataset and --output name one file", "t.txt"), folder=data)


def test_outputs_beside_the_data_are_written_every_time(data):
    for file in ("img/images.records", "img/a/images.records", "img/images.records"):
        subprocess.run([PROGRAM, "datasets", "pack", "images:img,size=32", file], cwd=data, check=True, stdout=subprocess.DEVNULL)
        assert (data / file).stat().st_size > 0
    (data / "img/a/metrics.jsonl").touch()  # as by the time before
    words = ("train", "--model", "lenet", "--dataset", "images:img,size=32", "--pace", "img/pace.png", "--metrics", "img/a/metrics.jsonl")
    refused(*words, "--trace", "/proc/x.json", names=("--trace", "/proc/x.json", "can be written"), folder=data)  # and nothing else is wrong


def test_words_that_are_no_text_are_named_and_not_a_matter_of_json(tmp_path):
    done = subprocess.run([PROGRAM, "run", "--hosts", "h", "--bind", "127.0.0.1", "--", "sh", "-c", b"echo \xff"], capture_output=True, timeout=60)
    assert done.returncode == 2 and b"no UTF-8 text" in done.stderr, done.stderr
