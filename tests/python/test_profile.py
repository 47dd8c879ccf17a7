"""`paceline profile` without a flag, `--record` and `--link`: what is measured, who reads it, and what is refused."""

import json
import math
import os
import signal
import socket
import subprocess

import pytest

from jobs import PROGRAM, environment, reference, train

LINK = ("--bandwidth", "1gbit", "--start-up", "200us")
SMALL = ("--model", "lenet", "--mini-batch", 4, "--rounds", 3)


def run(*arguments, text=""):
    return subprocess.run([PROGRAM, *map(str, arguments)], input=text, capture_output=True, text=True, timeout=120, env=environment("profile"))


def answer(*arguments, text=""):
    done = run(*arguments, text=text)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A profile and what it recorded."""
    file = tmp_path_factory.mktemp("profile") / "lenet.json"
    done = run("profile", *SMALL, *LINK, "--record", file, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "no bar where there is no terminal"
    return json.loads(done.stdout), file


def test_every_layer_of_the_network_is_measured_with_its_spread(recorded):
    profile, _ = recorded
    (lenet,) = [model for model in answer("models", "--json") if model["name"] == "lenet"]
    wanted = [(layer["name"], layer["parameters"]) for layer in lenet["layers"]]
    assert [(layer["name"], layer["parameters"]) for layer in profile["layers"]] == wanted
    assert profile["bytes"] == [4 * parameters for _, parameters in wanted]
    assert profile["parameters"] == lenet["parameters"] and profile["model"] == "lenet"
    assert (profile["mini_batch"], profile["rounds"], profile["warm_up"]) == (4, 3, 2)
    for side in ("forward", "backward"):
        assert profile[side] == [layer[f"{side}_s"] for layer in profile["layers"]]
        for median, spread in zip(profile[side], profile["spread"][side], strict=True):
            assert 0 < spread["min"] <= spread["median"] <= spread["max"] and spread["median"] == median
    assert profile["compute_s"] == pytest.approx(sum(profile["forward"]) + sum(profile["backward"]))
    least = sum(spread["min"] for side in ("forward", "backward") for spread in profile["spread"][side])
    assert least <= profile["step_s"]["max"], "layers take no longer than the step that they make up"


def test_a_link_that_is_given_is_not_measured(recorded):
    profile, _ = recorded
    assert (profile["bandwidth"], profile["residual"]) == (125e6, 0)
    assert profile["start_up"] == pytest.approx(0.0002, abs=1.1e-9), "times are whole nanoseconds"
    assert profile["link"]["server"] == "given" and profile["link"]["transfers"] == []
    assert profile["transfer"] == [pytest.approx(size / 125e6) for size in profile["bytes"]]


def test_plan_batches_and_plan_iteration_read_the_same_profile(recorded):
    profile, _ = recorded
    text = json.dumps(profile)
    for side, compute in (("pull", "forward"), ("push", "backward")):
        case = {"start_up": profile["start_up"], "transfer": profile["transfer"], compute: profile[compute]}
        planned = answer("plan", "batches", "--algorithm", "exact", "--side", side, "--input", "-", "--json", text=text)
        assert planned == answer("plan", "batches", "--algorithm", "exact", "--side", side, "--input", "-", "--json", text=json.dumps(case))
        assert planned["bounds"][-1] == 4
    bound = answer("plan", "iteration", "--input", "-", "--json", text=text)
    assert bound["computation"] == pytest.approx(profile["compute_s"])
    assert profile["nodes"] == 2 and bound["transfer"] == pytest.approx(sum(profile["bytes"]) / 125e6)
    of_eight = answer("plan", "iteration", "--input", "-", "--nodes", 8, "--json", text=text)
    assert of_eight["transfer"] == pytest.approx(2 * 7 / 8 * sum(profile["bytes"]) / 125e6), "what is typed wins"


def test_what_is_recorded_has_the_form_of_the_shared_tables(recorded):
    profile, file = recorded
    table = json.loads(file.read_text())
    assert list(table) == ["model", "source", "parameters", "compute_s", "layers"]
    assert table["layers"] == profile["layers"]
    assert all(list(layer) == ["name", "parameters", "forward_s", "backward_s"] for layer in table["layers"])
    assert table["parameters"] == profile["parameters"] and table["compute_s"] == profile["compute_s"]
    assert [entry.name for entry in file.parent.iterdir()] == [file.name], "nothing is left beside it"


def test_what_is_recorded_is_replayed_to_the_bits_of_its_reference(recorded):
    profile, file = recorded
    task = ("--model", f"replay:{file}", "--iterations", 4, "--workers", 2)
    report = train(*task, "--servers", 2, "--schedule", "ibatch")
    assert report["parameters_hash"] == reference(*task)["parameters_hash"]
    assert report["seconds"] >= 4 * profile["compute_s"], "nothing is faster than it sleeps"


def test_what_is_recorded_is_planned_with(recorded):
    profile, file = recorded
    bound = answer("plan", "iteration", "--input", file, "--nodes", 4, "--bandwidth", "1gbit", "--json")
    case = {"nodes": 4, "bandwidth": 125e6, "layers": profile["layers"]}
    assert bound == answer("plan", "iteration", "--input", "-", "--json", text=json.dumps(case))
    lacking = run("plan", "iteration", "--input", file, "--nodes", 4)
    assert lacking.returncode == 2 and "'bandwidth' is missing" in lacking.stderr


def test_the_text_is_a_table_of_the_layers(tmp_path):
    done = run("profile", *SMALL, *LINK, "--record", tmp_path / "t.json", "--progress")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("lenet, mini-batch 4: 4 layers, 431080 parameters") and "median of 3" in lines[0]
    assert lines[1].startswith("link, given: start-up 200.0 us, 125.0 MB/s"), lines[1]
    assert [line.split()[0] for line in lines if line.split()[:1] and line.split()[0] in ("conv1", "conv2", "fc1", "fc2")] == ["conv1", "conv2", "fc1", "fc2"]
    assert f"--model replay:{tmp_path / 't.json'}" in lines[-1]
    assert "lenet, mini-batch 4" in done.stderr and "5 of 5" in done.stderr, "--progress shows a bar where there is no terminal"


@pytest.mark.full
def test_text_models_are_measured_too(tmp_path):
    profile = answer("profile", "--model", "seq2seq", "--mini-batch", 1, "--rounds", 1, *LINK, "--json")
    (seq2seq,) = [model for model in answer("models", "--json") if model["name"] == "seq2seq"]
    assert [layer["name"] for layer in profile["layers"]] == [layer["name"] for layer in seq2seq["layers"]]
    assert profile["parameters"] == seq2seq["parameters"]


# ---- The link


def check_link(link):
    assert list(link) == ["server", "start_up", "bandwidth", "residual", "transfers"]
    assert link["start_up"] >= 0 and link["bandwidth"] > 1e6
    sizes = [transfer["bytes"] for transfer in link["transfers"]]
    assert len(sizes) >= 4 and sizes == sorted(set(sizes)) and all(size % 4096 == 0 for size in sizes)
    errors = []
    for transfer in link["transfers"]:
        seconds = transfer["seconds"]
        assert 0 < seconds["min"] <= seconds["median"] <= seconds["max"]
        errors.append((link["start_up"] + transfer["bytes"] / link["bandwidth"]) / seconds["median"] - 1)
    assert link["residual"] == pytest.approx(math.sqrt(sum(error * error for error in errors) / len(errors)), rel=1e-6, abs=1e-9)


def test_the_link_to_a_server_of_its_own_is_fitted_over_several_sizes():
    link = answer("profile", "--link", "--json")
    assert link["server"] == "loopback"
    check_link(link)
    done = run("profile", "--link", "--progress")
    assert done.returncode == 0 and done.stdout.startswith("link to loopback: start-up "), done.stdout
    assert "residual" in done.stdout.splitlines()[0] and "4.1 kb" in done.stdout.lower()
    assert "link to loopback" in done.stderr


@pytest.fixture
def served():
    process = subprocess.Popen([PROGRAM, "doctor", "--serve", "0", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    yield json.loads(process.stdout.readline())["listening"]
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 0


def test_the_link_to_a_given_server_is_measured_alone_and_with_the_layers(served):
    link = answer("profile", "--link", "--server", served, "--json")
    assert link["server"] == served
    check_link(link)
    profile = answer("profile", *SMALL, "--server", served, "--json")
    assert profile["link"]["server"] == served
    check_link(profile["link"])
    for key in ("start_up", "bandwidth", "residual"):
        assert profile[key] == profile["link"][key]


@pytest.mark.parametrize("what", [("--link",), SMALL])
def test_a_server_that_is_not_there_fails_and_is_named(what):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        done = run("profile", *what, "--server", address, "--json")
    assert done.returncode == 1 and done.stdout == "", (done.returncode, done.stdout)
    assert done.stderr.startswith("paceline: error: ") and done.stderr.count("\n") == 1 and address in done.stderr


# ---- What cannot be


@pytest.mark.parametrize(
    "options, names",
    [
        (("--model", "lenett"), ["lenett", "lenet"]),
        (("--model", "replay:bench/tables/vgg19.json"), ["replay:bench/tables/vgg19.json"]),
        (("--mini-batch", "0"), ["--mini-batch is 0", "1 to 1000000"]),
        (("--model", "vgg-19", "--mini-batch", "1000000"), ["vgg-19", "--mini-batch 1000000", "smaller"]),
        (("--rounds", "0"), ["--rounds is 0", "1 to 1000"]),
        (("--rounds", "many"), ["--rounds", "many"]),
        (("--nodes", "0"), ["--nodes is 0"]),
        (("--bandwidth", "1gbit"), ["--start-up", "missing"]),
        (("--start-up", "1ms"), ["--bandwidth", "missing"]),
        (("--bandwidth", "fast", "--start-up", "1ms"), ["--bandwidth fast"]),
        (("--bandwidth", "0gbit", "--start-up", "1ms"), ["--bandwidth 0gbit"]),
        (("--bandwidth", "1gbit", "--start-up", "-1ms"), ["--start-up -1ms"]),
        (("--bandwidth", "1gbit", "--start-up", "1ms", "--server", "localhost"), ["--server localhost", "--bandwidth"]),
        (("--server", "host:port"), ["--server", "'host:port'", "HOST:PORT"]),
        (("--record", "/does/not/exist/t.json"), ["--record", "/does/not/exist/t.json"]),
        (("--record", "."), ["--record ."]),
        (("--record", "t.json", "--steps"), ["--record", "--steps"]),
        (("--record", "t.json", "--link"), ["--record", "--link"]),
        (("--link", "--convolutions"), ["--link", "--convolutions"]),
        (("--link", "--nodes", "2"), ["--nodes", "--link"]),
        (("--memory", "--server", "localhost"), ["--server", "--memory"]),
        (("--convolutions", "--mini-batch", "8"), ["--mini-batch has nothing to say to --convolutions"]),
        (("--mini-batches", "8,16"), ["--mini-batches is for --convolutions; give it, or leave --mini-batches out"]),
        (("--iterations", "8"), ["--iterations is for --steps; give it"]),
        (("--dataset", "mnist-5k", "--memory"), ["--dataset has nothing to say to --memory"]),
        (("--steps", "--rounds", "8"), ["--rounds has nothing to say to --steps"]),
        (("--again",), ["--again is for --convolutions"]),
        (("--record", ""), ["--record: is empty; give a name, or leave the option out"]),
        (("--link", "--model", "lenet"), ["--model has nothing to say to --link"]),
    ],
)
def test_a_profile_that_cannot_be_made_is_refused(options, names, tmp_path):
    done = subprocess.run(
        [PROGRAM, "profile", *options], capture_output=True, text=True, timeout=60, env=environment("profile"), cwd=tmp_path
    )
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == "" and done.stderr.count("\n") == 1 and done.stderr.startswith("paceline: error: "), done.stderr
    for name in names:
        assert name in done.stderr, (name, done.stderr)
    assert os.listdir(tmp_path) == []
