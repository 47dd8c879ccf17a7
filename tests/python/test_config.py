"""`--config FILE`: the options of a command from a TOML file; and `paceline help`.

The program is the one that the environment variable PACELINE names, else build/release/bin/paceline.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("PACELINE", str(ROOT / "build/release/bin/paceline"))


def run(*arguments, environment=None):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=120, env=environment, cwd=ROOT)


def answer(*arguments):
    done = run(*arguments, "--json")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return json.loads(done.stdout)


def refused(*arguments, names=()):
    done = run(*arguments)
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == ""
    assert done.stderr.startswith("paceline: error: ") and done.stderr.count("\n") == 1, done.stderr
    for name in names:
        assert str(name) in done.stderr, (name, done.stderr)
    return done.stderr


@pytest.fixture
def write(tmp_path):
    def to_file(text, name="job.toml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return to_file


GPUS = ("plan", "gpus")


def test_a_file_says_the_same_as_the_command_line(write):
    typed = answer(*GPUS, "--overhead", "0.1", "--speedup", "3")
    assert answer(*GPUS, "--config", write("overhead = 0.1\nspeedup = 3\n")) == typed
    assert answer(*GPUS, f"--config={write('overhead = 0.1')}", "--speedup", "3") == typed


def test_the_command_line_wins(write):
    path = write("overhead = 0.1\nspeedup = 3\n")
    assert answer(*GPUS, "--config", path, "--speedup", "4") == answer(*GPUS, "--overhead", "0.1", "--speedup", "4")
    assert answer(*GPUS, "--speedup=4", "--config", path) == answer(*GPUS, "--overhead", "0.1", "--speedup", "4")


def test_dashes_and_underscores_are_the_same(write):
    typed = answer("plan", "servers", "--parameter-bytes", "244MB", "--workers", "8", "--bandwidth", "1gbit", "--compute-time", "10s", "--duplex", "half")
    rest = 'workers = 8\nbandwidth = "1gbit"\ncompute_time = "10s"\nduplex = "half"\n'
    for key in ("parameter-bytes", "parameter_bytes"):
        assert answer("plan", "servers", "--config", write(f'{key} = "244MB"\n{rest}')) == typed


def test_the_two_spellings_of_one_key_are_one_key_too_many(write):
    path = write("mini-batch = 16\nmini_batch = 8\n")
    refused("train", "--config", path, names=[path, "line 2", "mini_batch", "line 1"])


def test_flags_are_booleans(write):
    path = write("json = true\noverhead = 0.1\nspeedup = 3\n")
    assert "gpus" in json.loads(run(*GPUS, "--config", path).stdout)
    text = run(*GPUS, "--config", write("json = false\noverhead = 0.1\nspeedup = 3\n"))
    assert text.returncode == 0
    with pytest.raises(json.JSONDecodeError):
        json.loads(text.stdout)
    refused(*GPUS, "--config", write("overhead = 0.1\njson = 1\n"), names=["line 2", "json", "true, false"])
    refused(*GPUS, "--config", write("overhead = true\n"), names=["line 1", "overhead", "takes a value"])


def test_arrays_are_joined_by_commas(write):
    typed = answer("plan", "batches", "--algorithm", "ibatch", "--start-up", "1", "--transfer", "1,2,3", "--forward", "2,2,2")
    path = write('algorithm = "ibatch"\nstart-up = 1\ntransfer = [1, 2, 3.0]\nforward = [2, "2", 2]\n')
    assert answer("plan", "batches", "--config", path) == typed


def test_values_that_look_like_options_are_values(write):
    path = write('model = "--json"\n')
    refused("train", "--config", path, names=["--json"])
    path = write('model = ""\n')
    refused("train", "--config", path)


def test_an_unknown_key_names_file_line_and_the_nearest_key(write):
    path = write('# what\nmodel = "lenet"\n\nmini_btch = 16\n')
    refused("train", "--config", path, names=[path, "line 4", "'mini_btch'", "paceline train", "'mini-batch'"])
    # Another command's option is none of this one.
    refused(*GPUS, "--config", write("mini-batch = 16\n"), names=["line 1", "mini-batch", "paceline plan gpus"])
    for key in ("help", "version", "config", "zzz"):
        refused("train", "--config", write(f'{key} = "x"\n'), names=["line 1", key])


def test_an_unknown_key_counts_although_the_command_line_wins(write):
    refused(*GPUS, "--overhead", "0.1", "--speedup", "3", "--config", write("speedups = 3\n"), names=["speedups", "'speedup'"])


@pytest.mark.parametrize("value", ["{ a = 1 }", "1979-05-27", "[[1], [2]]", "[true]"])
def test_a_value_that_cannot_be_typed_is_refused(write, value):
    refused("train", "--config", write(f'model = "lenet"\nseed = {value}\n'), names=["line 2", "seed"])


def test_a_table_is_no_option(write):
    refused("train", "--config", write("[train]\nseed = 1\n"), names=["line 1", "'train' is a section"])


def test_a_malformed_file_names_line_and_column(write):
    path = write('model = "lenet"\nseed = = 2\n')
    refused("train", "--config", path, names=[path, "line 2", "column 8"])
    refused("train", "--config", write("seed = 1\nseed = 2\n"), names=["line 2"])


def test_a_file_that_is_not_there_is_named(tmp_path):
    refused("train", "--config", tmp_path / "none.toml", names=[tmp_path / "none.toml", "No such file"])
    refused("train", "--config", tmp_path, names=[tmp_path, "directory"])
    refused("train", "--config", names=["--config"])
    refused("train", "--config", "a", "--config", "b", names=["--config", "twice"])


def test_a_wrong_value_is_traced_to_its_line(write):
    path = write('model = "lenet"\niterations = "many"\n')
    refused("train", "--config", path, names=["--iterations", "many", f"{path}:2"])


def test_one_way_to_say_how_long_wins_over_the_other(write):
    path = write("epochs = 3\nmini_batch = 0\n")
    # The error is about the mini-batch and not about iterations and epochs excluding each other.
    refused("train", "--iterations", "1", "--config", path, names=["--mini-batch"])


def test_an_empty_file_changes_nothing(write):
    assert answer("models", "lenet", "--config", write("")) == answer("models", "lenet")


def test_every_command_takes_it():
    names = [name for name in json_commands() if name != "help"]
    assert {"train", "coordinator", "models", "datasets"} <= set(names)
    for name in names:
        assert "--config" in run(name, "--help").stdout, name


def json_commands():
    """From the lists below the options."""
    lines = run("--help").stdout.splitlines()
    after = lines[lines.index("Start here:") + 1 : lines.index("Examples:")]
    return [line.split()[0] for line in after if line.startswith("  ") and not line.startswith("   ") and line.split()[0] != "paceline"]


def test_help_is_the_help():
    assert run("help").stdout == run("--help").stdout
    assert run("help", "train").stdout == run("train", "--help").stdout
    assert run("help", "plan", "slice").stdout == run("plan", "slice", "--help").stdout
    refused("help", "trian", names=["trian", "train", "environment"])
    refused("help", "plan", "slize", names=["plan slize", "'slice'"])


def test_every_variable_that_is_read_is_listed():
    listed = run("help", "environment").stdout
    variables = json.loads(run("help", "environment", "--json").stdout)
    names = {variable["name"] for variable in variables}
    assert {"PACELINE_DATA", "PACELINE_COORDINATOR", "RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"} <= names
    assert all(name in listed for name in names)
    # getenv stands in one file, which reads only what is listed.
    for source in (ROOT / "apps/paceline").rglob("*.cc"):
        assert "getenv" not in source.read_text() or source.name == "environment.cc", source
    told = json.loads(run("help", "environment", "--json", environment={**os.environ, "PACELINE_DATA": "/here"}).stdout)
    assert {"PACELINE_DATA": "/here"}.items() <= {variable["name"]: variable["value"] for variable in told}.items()
