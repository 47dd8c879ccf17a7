"""`paceline bench`, `lab` and `doctor` are programs of their own that `paceline` becomes: nobody who types them notices.

The program is the one that the environment variable PACELINE names, else build/release/bin/paceline.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("PACELINE", ROOT / "build/release/bin/paceline")).resolve()
OTHERS = ["bench", "doctor", "lab"]


def run(*arguments, program=PROGRAM):
    return subprocess.run([str(program), *map(str, arguments)], capture_output=True, text=True, timeout=120, cwd=ROOT)


@pytest.mark.parametrize("name", OTHERS)
def test_the_help_of_all_commands_says_what_the_program_says_of_itself(name):
    own = run(name, "--help")
    assert own.returncode == 0 and own.stderr == ""
    purpose = " ".join(own.stdout.split("Usage:")[0].split())
    assert f" {name} {purpose} " in " ".join(run("--help").stdout.split()), purpose
    assert run("help", name).stdout == own.stdout
    assert f"paceline {name}" in own.stdout


@pytest.mark.parametrize("name", OTHERS)
def test_the_program_may_be_called_by_its_own_name(name):
    program = PROGRAM.with_name(f"paceline-{name}")
    assert run("--version", program=program).stdout == run("--version").stdout
    assert run("--help", program=program).stdout == run(name, "--help").stdout == run(name, "--help", program=program).stdout


def test_mistakes_are_told_as_before():
    for words, says in [
        (["bench", "serve"], "bench has no command 'serve' (did you mean 'server'?); see 'paceline bench --help'"),
        (["lab", "--host", "2"], "lab has no option '--host' (did you mean '--hosts'?); see 'paceline lab --help'"),
        (["benc"], "paceline has no command 'benc' (did you mean 'bench'?); see 'paceline --help'"),
        (["trian"], "paceline has no command 'trian' (did you mean 'train'?); see 'paceline --help'"),
        (["train", "lenet"], "train takes options, and 'lenet' is none; see 'paceline train --help'"),
        (["train", "--mini-batch", "4", "--mini-batch", "5"], "--mini-batch was given more than once; give it once"),
        (["train", "--iterations"], "--iterations needs a value"),
        (["train", "--schedule", "P3"], "--schedule: 'P3' is no schedule; legal are default, layer-wise, ibatch, kvstore, slicing, tuned, p3 (did you mean 'p3'?)"),
        (["train", "--deadline", "5"], "--deadline: '5' is not a time: it has no unit; write for example 10ms or 1.5s"),
        (["run", "--workers", "2"], "program is missing: The program and its arguments, behind -- [paceline help PL-MISSING]"),
        (["run", "--optimizer", "adam", "--", "true"], "run has no option '--optimizer', which 'paceline train' has; see 'paceline run --help'"),
        (["run", "--", "no-such-program"], "there is no program 'no-such-program' in PATH"),
        (["run", "--", "/no/such/program"], "there is no file '/no/such/program'"),
        (["run", "--", "/tmp"], "'/tmp' is a folder and no program"),
        (["datasets", "pack"], "spec is missing: the data set, "),
        (["train", "--resume=banana"], "--resume takes no value, so 'banana' means nothing"),
        (["train", "--model", "le\nnet"], "there is no model 'le\\nnet'"),
        (["train", "--slice", "9223372036854775807"], "--slice 9223372036854775807 is illegal; legal: "),
        *((["train", option, "-"], f"{option} - names no file: standard output has the report; give a name, or ./-") for option in ("--metrics", "--pace", "--trace", "--export")),
        (["train", "--dataset", "mnist"], "data set 'mnist' is incomplete; write mnist:DIR"),
        (["train", "--dataset", "mnist:/no/such/folder"], "/no/such/folder: is not a folder, expected one with train-images-idx3-ubyte and its three companions"),
        (["train", "--dataset", "synthetic:3x4x4,classes=0"], "synthetic:3x4x4,classes=0: 'classes' is 0, expected 1..1048576"),
        (["plan", "slice", "--nodes", "0", "--bytes", "1MB", "--alpha", "1ms", "--bandwidth", "1gbit"], "key 'nodes' is 0; at least 1 is needed"),
        (["plan", "job", "--model", "lenet", "--dataset-size", "4000", "--memory", "1GB", "--speedup", "3", "--overhead", ""], "--overhead needs a value"),
        (["train", "--workers", "0x10"], "--workers cannot be '0x10'; legal: a whole number, 1 to 100000"),
        (["bench", "prediction", "--seed", "-1"], "--seed is -1; legal: 0 to 9000000000000000"),
        (["plan", "speedup", "--input", "vgg19", "--bandwidth", "0.1B/s", "--machines", "2"], "case 0: key 'bandwidth' lets an iteration of 2 machines take 5.747e+09 s; from "),
        (["plan", "speedup", "--input", "vgg19", "--bandwidth", "1gbit", "--start-up", "1e10s"], "case 0: key 'start_up' is 1e+10 s; at most "),
        (["plan", "speedup", "--input", "vgg19", "--bandwidth", "1gbit", "--picture", ""], "--picture: is empty; give a name"),
        (["plan", "job", "--model", "lenet", "--dataset-size", "4000", "--memory", "1GB", "--measurements", ""], "--measurements: is empty; give a name"),
        (["plan", "speedup", "--input", "vgg19", "--bandwidth", "1gbit", "--picture", "gain.txt"], "--picture gain.txt is no picture's name; legal endings: .png, .svg, .pdf"),
        (["bench", "schedules", "--slices", "50OOO"], "--slices: "),
        (["doctor", "--bind", "127.0.0.1"], "--bind is for --serve; give it, or leave --bind out"),
        (["lab", "--limit", "5s"], "--limit is for the hosts' commands; give them behind --, or leave it out"),
        (["plan", "job", "--model", "lenet", "--dataset-size", "4000", "--memory", "1GB", "--duplex", "half"], "--duplex is for the servers' link; give --bandwidth, or leave it out"),
        (["plan", "speedup", "--input", "vgg19", "--bandwidth", "1gbit", "--schedule", "p3", "--batching", "ibatch"], "case 0: --batching ibatch is for schedules that pull in batches, ibatch and tuned; p3 does not"),
        (["train", "--join", "127.0.0.1:4100", "--metrics", "m.jsonl"], "--metrics m.jsonl with --join writes nothing: the 'paceline train' that starts a whole job does; leave --metrics out"),
        (["train", "--join", "127.0.0.1:4100", "--pace", "p.jsonl"], "--pace p.jsonl with --join writes nothing"),
        (["train", "--join", "127.0.0.1:4100", "--json"], "--json with --join prints nothing: the coordinator has the report; give it to 'paceline coordinator'"),
        *((["lab", "--hosts", "2", "--rate", rates, "--", "true"], f"--rate {rates}: entry {gap} is empty; leave it out") for rates, gap in (("1gbit,,2gbit", 2), (",1gbit", 1), ("1gbit,", 2))),
        (["bench", "figures", "--only", ","], "--only knows no ''"),
        (["bench", "figures", "--paper", "P3", "--only", "ibatch-fig4"], "--only ibatch-fig4 is of no figure of --paper P3"),
        (["help", "bench", "sink"], "there is no help on 'bench sink'; legal: transport, server, "),
    ]:
        done = run(*words)
        assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1, done.stderr
        assert done.stderr.startswith(f"paceline: error: {says}"), done.stderr


def test_a_whole_number_with_zeros_in_front_is_no_octal_one():
    done = run("train", "--reference", "--model", "mlp", "--dataset", "synthetic:1x28x28,samples=64", "--mini-batch", "4", "--iterations", "1", "--workers", "010", "--json")
    assert json.loads(done.stdout)["workers"] == 10, done.stderr


def test_times_longer_than_a_clock_can_count_are_read_as_such():
    said = run("plan", "barrier", "--last-end", "1764000000000,1764000000100", "--interval", "100,300", "--lookahead", "6").stdout
    assert "1.764e+12 s" in said and "-9223372036854775808" not in said


def test_a_signal_that_means_nothing_makes_nobody_deaf():
    words = [PROGRAM, "coordinator", "--workers", "1", "--servers", "1", "--events"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as coordinator:
        assert "listening" in coordinator.stdout.readline()
        coordinator.send_signal(signal.SIGUSR2)  # as Slurm's --signal=USR2 sends it
        coordinator.send_signal(signal.SIGTERM)
        assert coordinator.wait(60) == 130, coordinator.stderr.read()


def test_the_reference_says_that_it_has_no_servers():
    done = run("train", "--reference", "--servers", "2", "--iterations", "1", "--mini-batch", "1")
    assert done.returncode == 0 and "warning: --reference has no servers: --servers 2 changes nothing" in done.stderr, done.stderr


def test_without_a_path_programs_are_found_where_the_system_looks():
    bare = {name: value for name, value in os.environ.items() if name != "PATH"}
    done = subprocess.run([PROGRAM, "run", "--workers", "1", "--", "true"], capture_output=True, text=True, env=bare, timeout=60)
    assert done.returncode == 1 and "ended without joining the job" in done.stderr, done.stderr


def test_without_a_folder_for_temporary_files_a_job_runs_all_the_same():
    environment = {**os.environ, "TMPDIR": "/no/such/folder"}
    done = subprocess.run([PROGRAM, "run", "--workers", "1", "--", "true"], capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 1 and "ended without joining the job" in done.stderr, done.stderr


@pytest.mark.parametrize("workers, given, expected", ((2, None, max(1, len(os.sched_getaffinity(0)) // 2)), (1, None, ""), (2, "7", "7")))
def test_processes_of_one_machine_share_its_processors_unless_somebody_says_otherwise(workers, given, expected):
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"} | ({"OMP_NUM_THREADS": given} if given else {})
    words = [PROGRAM, "run", "--workers", str(workers), "--", "sh", "-c", "echo threads=$OMP_NUM_THREADS"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=60)
    assert f"threads={expected}\n" in done.stdout, (done.stdout, done.stderr)


def test_a_scripts_lines_appear_when_it_prints_them(tmp_path):
    script = "import os, sys, time\nprint('first line')\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)"
    words = [PROGRAM, "run", "--workers", "1", "--", sys.executable, "-c", script, str(tmp_path / "go on")]
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=plain) as job:
        assert job.stdout.readline() == "first line\n"  # through two pipes, while the script runs
        (tmp_path / "go on").touch()
        assert job.wait(60) == 1 and "ended without joining the job" in job.stderr.read()


def test_a_server_needs_no_data():
    done = run("train", "--join", "127.0.0.1:9", "--role", "server", "--dataset", "mnist:/no/such/folder", "--deadline", "200ms")
    assert done.returncode == 1 and "could not be reached" in done.stderr, done.stderr


def test_signals_reach_the_program_itself():
    process = subprocess.Popen([PROGRAM, "doctor", "--serve", "0", "--json"], stdout=subprocess.PIPE, text=True)
    assert json.loads(process.stdout.readline())["listening"]
    assert os.readlink(f"/proc/{process.pid}/exe") == str(PROGRAM.with_name("paceline-doctor"))
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 0


def test_a_program_that_was_not_built_is_named_and_the_rest_works(tmp_path):
    alone = Path(shutil.copy(PROGRAM, tmp_path / "paceline"))
    for name, how in [("bench", "PACELINE_BENCH=ON"), ("doctor", "ninja -C build/release paceline-doctor"), ("lab", "ninja -C build/release paceline-lab")]:
        for words in [(name,), ("help", name)]:
            done = run(*words, program=alone)
            assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1, done
            assert done.stderr.startswith(f"paceline: error: {tmp_path}/paceline-{name} is missing: ") and how in done.stderr
    assert run("plan", "gpus", "--overhead", "0.1", "--speedup", "3", program=alone).returncode == 0
