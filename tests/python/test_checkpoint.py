"""Checkpoints, --resume and --export of `paceline train`, asked from outside: whole jobs that are killed, interrupted, damaged, starved of disk,
and must go on to the bit.

The program is the one that the environment variable PACELINE names, else build/release/bin/paceline.
"""

import json
import os
import signal
import struct
import subprocess
import time
from pathlib import Path

import numpy
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from jobs import full

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("PACELINE", str(ROOT / "build/release/bin/paceline"))
LIMIT = 240  # seconds that nothing here comes near to, unless it hangs
ITERATIONS = 100
JOB = {"model": "lenet", "dataset": "synthetic:1x28x28,samples=2000,test=50", "mini-batch": 1, "workers": 2, "servers": 2, "iterations": ITERATIONS}
OPTIMIZERS = {
    "sgd": {"learning-rate": "step:0.05,every=20,factor=0.8"},
    "momentum": {"optimizer": "momentum", "learning-rate": 0.02, "weight-decay": 0.001, "clip-norm": 5},
    "adam": {"optimizer": "adam", "learning-rate": "cosine:0.002,total=100,warmup=20"},
}


def arguments(*flags, **changes):
    options = {**JOB, **{key.replace("_", "-"): value for key, value in changes.items()}}
    pairs = [text for key, value in options.items() if value is not None for text in (f"--{key}", str(value))]
    return [PROGRAM, "train", "--json", *pairs, *flags]


def train(*flags, code=0, **changes):
    done = subprocess.run(arguments(*flags, **changes), capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    report = json.loads(done.stdout) if done.stdout else None
    return report, done.stderr


@pytest.fixture(scope="module")
def undisturbed():
    """The parameters' hash of the job that nobody disturbs, once per set of options."""
    known = {}

    def hash_of(**changes):
        key = tuple(sorted(changes.items()))
        if key not in known:
            known[key] = train(**changes)[0]["parameters_hash"]
        return known[key]

    return hash_of


def wait_until(condition, what):
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.002)


def below(pid):
    """The processes below `pid`."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        if int(fields[1]) == pid:
            child = int(stat.parent.name)
            found += [child, *below(child)]
    return found


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


class Running:
    """A job in the background, with what tells how far it is."""

    def __init__(self, directory, *flags, **changes):
        self.metrics = directory.parent / f"{directory.name}.metrics"
        self.metrics.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            arguments(*flags, checkpoint=directory, metrics=self.metrics, **changes), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def iteration(self):
        if not self.metrics.exists():
            return 0
        lines = self.metrics.read_text().splitlines()
        return json.loads(lines[-1])["iteration"] if lines and lines[-1].endswith("}") else 0

    def wait_for(self, condition, what):
        wait_until(lambda: condition() or self.process.poll() is not None, what)
        assert self.process.poll() is None, (what, self.process.communicate())

    def wait_for_iteration(self, iteration):
        self.wait_for(lambda: self.iteration() >= iteration, f"iteration {iteration}")

    def kill_all(self):
        everybody = [self.process.pid, *below(self.process.pid)]
        for pid in everybody:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.communicate()
        wait_until(lambda: not any(map(alive, everybody)), "the processes to be gone")

    def kill_one(self, *words):
        victims = [pid for pid in below(self.process.pid) if all(word in Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ") for word in words)]
        os.kill(victims[0], signal.SIGKILL)

    def ended(self):
        out, err = self.process.communicate(timeout=LIMIT)
        return self.process.returncode, json.loads(out) if out else None, err


def checkpoints(directory):
    return sorted(int(path.parent.name) for path in directory.glob("[0-9]*/manifest.json") if path.parent.name.isdigit())


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


# ---- saving


def test_checkpoints_are_taken_as_asked_and_the_newest_three_stay(tmp_path, undisturbed):
    report, errors = train(checkpoint=tmp_path / "c", checkpoint_every=10, iterations=47)
    assert errors == ""
    assert report["checkpoint"] == str(tmp_path / "c/00000047")
    assert checkpoints(tmp_path / "c") == [30, 40, 47]
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == ["00000030", "00000040", "00000047"]
    assert sorted(path.name for path in (tmp_path / "c/00000047").iterdir()) == [
        "manifest.json", "server-0.bin", "server-1.bin", "worker-0.bin", "worker-1.bin"]  # fmt: skip
    manifest = json.loads((tmp_path / "c/00000047/manifest.json").read_text())
    assert manifest["iteration"] == 47 and manifest["workers"] == 2 and manifest["servers"] == 2
    assert manifest["settings"]["model"] == "lenet"
    assert report["parameters_hash"] == undisturbed(iterations=47), "saving changes nothing"


def test_a_checkpoint_every_iteration_changes_nothing_and_leaves_none_out(tmp_path, undisturbed):
    report, errors = train(checkpoint=tmp_path / "c", checkpoint_every=1, iterations=47)
    assert errors == "" and checkpoints(tmp_path / "c") == [45, 46, 47]
    assert report["parameters_hash"] == undisturbed(iterations=47)


def test_without_checkpoint_every_there_is_one_at_the_end(tmp_path):
    train(checkpoint=tmp_path / "new/below", iterations=7)
    assert checkpoints(tmp_path / "new/below") == [7]


def test_more_servers_than_units_save_what_there_is(tmp_path, undisturbed):
    report, errors = train(checkpoint=tmp_path / "c", checkpoint_every=10, iterations=20, servers=11)
    assert errors == "" and checkpoints(tmp_path / "c") == [10, 20]
    assert train("--resume", checkpoint=tmp_path / "c", iterations=47)[0]["parameters_hash"] == undisturbed(iterations=47)


def test_without_a_directory_nothing_is_reported():
    assert train(iterations=3)[0]["checkpoint"] is None


# ---- going on


@pytest.mark.parametrize("optimizer, servers", [(name, s) if s == i + 1 == 2 else full(name, s) for i, name in enumerate(OPTIMIZERS) for s in (1, 2, 3)])
def test_a_job_that_was_killed_goes_on_to_the_bit(tmp_path, undisturbed, optimizer, servers):
    options = OPTIMIZERS[optimizer]
    job = Running(tmp_path / "c", checkpoint_every=20, **options)
    job.wait_for_iteration(50)
    job.kill_all()
    saved = checkpoints(tmp_path / "c")
    # The workers can be an iteration ahead of what is told, and parts may be on their way; no more than one checkpoint is lost.
    assert saved and saved[-1] >= 20
    report, _ = train("--resume", checkpoint=tmp_path / "c", checkpoint_every=20, servers=servers, **options)
    assert report["parameters_hash"] == undisturbed(**options)
    assert report["iterations"] == ITERATIONS - saved[-1]
    assert report["checkpoint"] == str(tmp_path / "c" / f"{ITERATIONS:08}")


@pytest.mark.full
def test_another_schedule_goes_on_to_the_bit(tmp_path, undisturbed):
    options = OPTIMIZERS["adam"]
    train(checkpoint=tmp_path / "c", iterations=60, schedule="layer-wise", **options)
    report, _ = train("--resume", checkpoint=tmp_path / "c", schedule="p3", servers=3, **options)
    assert report["parameters_hash"] == undisturbed(**options)


def test_buffers_of_every_worker_go_on_to_the_bit(tmp_path):
    options = {"model": "resnet-20", "dataset": "synthetic:3x32x32,samples=64,test=20", "mini_batch": 2, "optimizer": "nesterov", "learning_rate": 0.05}
    whole, _ = train(**options, iterations=12, export=tmp_path / "whole")
    train(**options, iterations=5, checkpoint=tmp_path / "c")
    resumed, _ = train("--resume", **options, iterations=12, checkpoint=tmp_path / "c", servers=1, export=tmp_path / "resumed")
    assert resumed["parameters_hash"] == whole["parameters_hash"]
    assert resumed["accuracy"] == whole["accuracy"], "evaluation uses rank 0's running statistics"
    assert (tmp_path / "resumed").read_bytes() == (tmp_path / "whole").read_bytes(), "buffers too"


MOMENTS = {
    "a part is being written": lambda d: any(d.glob("00000030/*.tmp")) or (d / "00000030").exists(),
    "a part is there": lambda d: any(d.glob("00000030/*.bin")),
    "all parts are there": lambda d: len(list(d.glob("00000030/*.bin"))) == 4,
    "the manifest is there": lambda d: (d / "00000030/manifest.json").exists(),
    "the oldest goes": lambda d: (d / "00000050").exists() and not (d / "00000010/manifest.json").exists(),
}


@pytest.mark.parametrize("moment", [moment if i % 3 == 0 else full(moment) for i, moment in enumerate(MOMENTS)])
def test_a_job_killed_while_it_saves_goes_on_to_the_bit(tmp_path, undisturbed, moment):
    directory = tmp_path / "c"
    job = Running(directory, checkpoint_every=10)
    job.wait_for(lambda: MOMENTS[moment](directory), moment)
    job.kill_all()
    assert checkpoints(directory)
    report, _ = train("--resume", checkpoint=directory)
    assert report["parameters_hash"] == undisturbed()
    assert not list(directory.glob("*/*.tmp"))


def test_killed_again_and_again_it_arrives(tmp_path, undisturbed):
    for servers, iteration in ((2, 20), (None, 45), (3, 75)):  # None: every worker is a server too
        role = "both" if servers is None else None
        job = Running(tmp_path / "c", *(["--resume"] if iteration > 20 else []), checkpoint_every=5, servers=servers, role=role)
        job.wait_for_iteration(iteration)
        job.kill_all()
    assert train("--resume", checkpoint=tmp_path / "c")[0]["parameters_hash"] == undisturbed()


@pytest.mark.parametrize("victim", [full(("--role server",)), ("paceline-trainer",), full((" coordinator ",))], ids=["server", "worker", "coordinator"])
def test_when_one_process_dies_the_error_says_how_to_go_on(tmp_path, undisturbed, victim):
    job = Running(tmp_path / "c", checkpoint_every=10, deadline="2s")
    job.wait_for(lambda: checkpoints(tmp_path / "c"), "a checkpoint")
    job.kill_one(*victim)
    code, report, errors = job.ended()
    assert code == 1 and report is None
    if "coordinator" not in victim[0]:
        assert f"--checkpoint {tmp_path / 'c'} --resume" in errors.splitlines()[-1], errors
    assert train("--resume", checkpoint=tmp_path / "c")[0]["parameters_hash"] == undisturbed()


def test_an_interrupted_job_saves_where_it_is_and_goes_on(tmp_path, undisturbed):
    job = Running(tmp_path / "c")
    job.wait_for_iteration(20)
    job.process.send_signal(signal.SIGINT)
    code, report, _ = job.ended()
    assert code == 130
    (saved,) = checkpoints(tmp_path / "c")
    assert 20 <= saved < ITERATIONS and report["checkpoint"] == str(tmp_path / "c" / f"{saved:08}") and report["iterations"] == saved
    assert train("--resume", checkpoint=tmp_path / "c")[0]["parameters_hash"] == undisturbed()


def test_a_job_interrupted_twice_leaves_only_whole_checkpoints(tmp_path, undisturbed):
    job = Running(tmp_path / "c", checkpoint_every=10)
    job.wait_for_iteration(25)
    job.process.send_signal(signal.SIGINT)
    job.process.send_signal(signal.SIGTERM)
    code, _, _ = job.ended()
    assert code == 130
    assert train("--resume", checkpoint=tmp_path / "c")[0]["parameters_hash"] == undisturbed()


# ---- what cannot go on


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A job's directory with checkpoints of iterations 10, 20 and 25; copy it before changing it."""
    directory = tmp_path_factory.mktemp("saved") / "c"
    train(checkpoint=directory, checkpoint_every=10, iterations=25)
    return directory


def copied(saved, tmp_path):
    subprocess.run(["cp", "-a", str(saved), str(tmp_path / "c")], check=True)
    return tmp_path / "c"


@pytest.mark.parametrize("file", ["server-0.bin", full("server-1.bin"), full("worker-0.bin"), full("worker-1.bin"), "manifest.json"])
def test_a_damaged_checkpoint_is_left_out_and_named(tmp_path, saved, undisturbed, file):
    directory = copied(saved, tmp_path)
    damaged = directory / "00000025" / file
    flip(damaged, len(damaged.read_bytes()) * 2 // 3)
    report, errors = train("--resume", checkpoint=directory, iterations=47)
    assert str(damaged) in errors and "warning" in errors
    assert report["parameters_hash"] == undisturbed(iterations=47) and report["iterations"] == 27
    assert (directory / "00000025.damaged" / file).exists(), "kept for whoever wants to know why"


def test_without_any_good_checkpoint_nothing_starts(tmp_path, saved):
    directory = copied(saved, tmp_path)
    for file in directory.glob("*/server-0.bin"):
        file.write_bytes(file.read_bytes()[:-1])
    _, errors = train("--resume", checkpoint=directory, code=1)
    assert "server-0.bin" in errors and str(directory) in errors
    _, errors = train("--resume", checkpoint=tmp_path / "nothing here", code=2)
    assert str(tmp_path / "nothing here") in errors and errors.count("\n") == 1


OTHERS = {
    "model": {"model": "mlp"},
    "dataset": {"dataset": "synthetic:1x28x28"},
    "seed": {"seed": 2},
    "optimizer": {"optimizer": "adam"},
    "learning-rate": {"learning-rate": 0.01},
    "momentum": {"momentum": 0.5},
    "weight-decay": {"weight-decay": 0.01},
    "clip-norm": {"clip-norm": 1},
    "wire": {"wire": "bfloat16"},
    "mini-batch": {"mini-batch": 5},
    "workers": {"workers": 3},
}


@pytest.mark.parametrize("name", [full(name) if i % 2 else name for i, name in enumerate(OTHERS)])
def test_another_jobs_checkpoint_is_refused_by_naming_the_difference(saved, name):
    before = sorted((path, path.stat().st_mtime_ns) for path in saved.rglob("*"))
    _, errors = train("--resume", checkpoint=saved, iterations=60, code=2, **OTHERS[name])
    assert f"--{name}" in errors and errors.startswith("paceline: error: ") and errors.count("\n") == 1
    assert sorted((path, path.stat().st_mtime_ns) for path in saved.rglob("*")) == before


def test_other_algorithms_of_convolutions_are_refused(saved, tmp_path):
    (tmp_path / "c.json").write_text(json.dumps({"convolutions": {"conv2": "gemm"}}))
    _, errors = train("--resume", checkpoint=saved, iterations=60, code=2, convolutions=tmp_path / "c.json")
    assert "--convolutions the default there against conv2=gemm here" in errors and errors.count("\n") == 1


def test_a_job_with_a_narrow_codec_goes_on_to_the_bit(tmp_path, undisturbed):
    # Servers save the float32 values, not what they send.
    first, _ = train(checkpoint=tmp_path / "c", iterations=20, wire="bfloat16", optimizer="momentum", learning_rate=0.02)
    assert first["parameters_hash"] == undisturbed(iterations=20, wire="bfloat16", optimizer="momentum", learning_rate=0.02)
    went_on, _ = train("--resume", checkpoint=tmp_path / "c", iterations=40, servers=1, wire="bfloat16", optimizer="momentum", learning_rate=0.02)
    assert went_on["parameters_hash"] == undisturbed(iterations=40, wire="bfloat16", optimizer="momentum", learning_rate=0.02)


def test_an_earlier_jobs_checkpoints_are_not_overwritten_unasked(saved):
    _, errors = train(checkpoint=saved, iterations=60, code=2)
    assert "--resume" in errors and str(saved) in errors and checkpoints(saved) == [10, 20, 25]


def test_two_jobs_never_write_into_the_same_directory(tmp_path, undisturbed):
    job = Running(tmp_path / "c", checkpoint_every=50, iterations=100_000)
    job.wait_for_iteration(3)
    for flags in ([], ["--resume"]):
        _, errors = train(*flags, checkpoint=tmp_path / "c", checkpoint_every=50, code=2)
        assert str(tmp_path / "c") in errors and errors.count("\n") == 1
    job.kill_all()


@pytest.mark.parametrize("iterations", [25, 24, 1])
def test_a_job_that_is_done_says_so(saved, iterations):
    _, errors = train("--resume", checkpoint=saved, iterations=iterations, code=2)
    assert "nothing is left to train" in errors and "25" in errors and "--iterations" in errors


@pytest.mark.parametrize("flags, named", [
    (["--resume"], "--checkpoint"),
    (["--checkpoint-every", "3"], "--checkpoint"),
    (["--checkpoint", "x", "--checkpoint-every", "-1"], "--checkpoint-every"),
    (["--checkpoint", "x", "--sync", "asp"], "--sync"),
    (["--checkpoint", "x", "--reference"], "--checkpoint"),
    (["--export", "/nowhere/at/all"], "/nowhere/at/all"),
    (["--export", "/tmp"], "/tmp"),
])  # fmt: skip
def test_options_that_do_not_fit_are_refused(flags, named):
    _, errors = train(*flags, code=2, iterations=3)
    assert named in errors and errors.count("\n") == 1


def test_a_directory_that_cannot_be_is_refused_before_training(tmp_path):
    (tmp_path / "file").write_text("")
    _, errors = train(checkpoint=tmp_path / "file/c", iterations=3, code=2)
    assert str(tmp_path / "file") in errors


# ---- a full disk


@pytest.fixture
def small_disk(tmp_path):
    """small_disk("5m") makes a file system of that size."""
    mounted = []

    def make(size):
        place = tmp_path / "disk"
        place.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], check=True)
        mounted.append(place)
        return place

    yield make
    for place in mounted:
        subprocess.run(["umount", "-l", str(place)], check=True)


MOMENTUM = OPTIMIZERS["momentum"]  # 3.4 MB per checkpoint


def test_on_a_full_disk_training_goes_on_and_the_last_good_checkpoint_stays_and_is_named(small_disk, undisturbed):
    disk = small_disk("5m")
    report, errors = train(checkpoint=disk / "c", checkpoint_every=40, code=1, **MOMENTUM)
    assert report["parameters_hash"] == undisturbed(**MOMENTUM)
    assert report["checkpoint"] == str(disk / "c/00000040") and checkpoints(disk / "c") == [40]
    assert "No space left on device" in errors and str(disk / "c/00000080") in errors and f"the newest good one is {disk / 'c/00000040'} [paceline help" in errors
    assert [path.name for path in (disk / "c").iterdir()] == ["00000040"], "what was not finished gives its room back"
    subprocess.run(["mount", "-o", "remount,size=50m", str(disk)], check=True)
    resumed, _ = train("--resume", checkpoint=disk / "c", servers=1, **MOMENTUM)
    assert resumed["parameters_hash"] == report["parameters_hash"]


def test_on_a_disk_too_small_for_any_checkpoint_training_goes_on_without(small_disk, undisturbed):
    disk = small_disk("1m")
    report, errors = train(checkpoint=disk / "c", checkpoint_every=40, code=1, **MOMENTUM)
    assert report["parameters_hash"] == undisturbed(**MOMENTUM) and report["checkpoint"] is None
    assert "No space left on device" in errors and "there is none at all" in errors and not list((disk / "c").iterdir())


def test_an_export_that_fails_is_an_error_but_costs_no_checkpoint(small_disk, tmp_path):
    disk = small_disk("1m")
    done = subprocess.run(arguments(iterations=5, checkpoint=tmp_path / "c", export=disk / "model"), capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 1 and str(disk / "model") in done.stderr and "No space left" in done.stderr
    assert checkpoints(tmp_path / "c") == [5] and not list(disk.iterdir())


# ---- export


def test_an_export_is_read_by_safetensors_and_equals_the_references(tmp_path):
    options = {"model": "resnet-20", "dataset": "synthetic:3x32x32,samples=32,test=20", "mini_batch": 2, "iterations": 3}
    train(**options, export=tmp_path / "job.safetensors")
    train("--reference", **options, export=tmp_path / "reference.safetensors", servers=None)
    job, reference = load_file(tmp_path / "job.safetensors"), load_file(tmp_path / "reference.safetensors")
    assert job.keys() == reference.keys()
    for name in job:
        assert job[name].dtype == reference[name].dtype and job[name].shape == reference[name].shape
        assert job[name].tobytes() == reference[name].tobytes(), name
    parameters = sum(values.size for name, values in job.items() if not name.endswith(("running_mean", "running_var", "num_batches_tracked")))
    assert parameters == 269_722
    counters = [values for name, values in job.items() if name.endswith("num_batches_tracked")]
    assert counters and all(values.dtype == numpy.int64 and values.shape == () and values == 3 for values in counters)
    with safe_open(tmp_path / "job.safetensors", "numpy") as file:
        assert [file.metadata()[name] for name in ("model", "classes")] == ["resnet-20", "10"] and file.metadata()["input"].startswith("3 x 32 x 32 float32")
    (length,) = struct.unpack("<Q", (tmp_path / "job.safetensors").read_bytes()[:8])
    assert length % 8 == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job.safetensors", "reference.safetensors"]


def test_an_export_replaces_an_older_one_only_when_it_is_whole(tmp_path):
    file = tmp_path / "model"
    file.write_text("old")
    train(export=file, iterations=3)
    assert load_file(file)["conv1.weight" if "conv1.weight" in load_file(file) else next(iter(load_file(file)))].size > 0
