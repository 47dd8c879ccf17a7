"""What all questions of `paceline plan` have in common; `plan gpus` and `plan servers`."""

import json
import math
import subprocess
from fractions import Fraction

import pytest
from plan_questions import ALGORITHMS, BARRIER, FFT, MEMORY, MINI_BATCH, PROGRAM, SERVERS, ask, refused, run, without

GOOD = {
    "barrier": BARRIER,
    "gpus": {"overhead": 0.1, "gpus": 4},
    "servers": SERVERS,
    "memory": MEMORY,
    "algorithms": ALGORITHMS,
    "mini-batch": MINI_BATCH,
    "fft-ratio": FFT,
}


# ---- The frame


@pytest.mark.parametrize("question", GOOD)
def test_an_array_gives_an_array_and_an_object_an_object(question):
    one = ask(question, GOOD[question])
    assert isinstance(one, dict)
    assert ask(question, [GOOD[question]] * 3) == [one] * 3
    assert ask(question, []) == []


@pytest.mark.parametrize("question", GOOD)
def test_a_bad_case_is_named_by_its_index_and_key(question):
    good = GOOD[question]
    refused(question, [good, {**good, "colour": 1}], names=["case 1", "colour"])
    refused(question, [good, good, 7], names=["case 2"])
    for key in good:
        if question != "gpus":
            refused(question, [good, without(good, key)], names=["case 1", key])
        refused(question, [good, {**good, key: None}], names=["case 1", key])
        refused(question, [good, {**good, key: {"a": 1}}], names=["case 1", key])
        if isinstance(good[key], (int, float)):
            refused(question, [good, {**good, key: -1}], names=["case 1", key])
            refused(question, json.dumps([good, {**good, key: "X"}]).replace('"X"', "1e999"), names=["case 1", key])
            refused(question, json.dumps([good, {**good, key: "X"}]).replace('"X"', "NaN"), names=["case 1", key])


@pytest.mark.parametrize("question", GOOD)
def test_without_json_the_answer_is_text_for_people(question):
    done = run("plan", question, "--input", "-", text=json.dumps(GOOD[question]))
    assert done.returncode == 0 and done.stdout and not done.stdout.startswith("{")


@pytest.mark.parametrize("question", GOOD)
def test_help_has_two_examples_that_work_when_pasted(question):
    done = run("plan", question, "--help")
    assert done.returncode == 0
    examples = [line.strip() for line in done.stdout.split("Examples:")[1].splitlines() if "paceline plan" in line]
    assert len(examples) >= 2
    for example in examples:
        command = f'paceline() {{ "{PROGRAM}" "$@"; }}; {example}'
        shown = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
        assert shown.returncode == 0, (example, shown.stderr)


def test_single_values_come_from_options():
    assert json.loads(run("plan", "gpus", "--overhead", "0.1", "--speedup", "3", "--json").stdout)["gpus"] == 4
    shown = run("plan", "servers", "--parameter-bytes", "244MB", "--workers", "8", "--bandwidth", "1gbit", "--compute-time", "10s", "--duplex", "half", "--json")
    assert json.loads(shown.stdout)["servers"] == 4
    shown = run("plan", "fft-ratio", "--mini-batch", "128", "--input-size", "224,224", "--output", "55,55", "--depth", "3", "--filters", "96", "--json")
    assert json.loads(shown.stdout)["ratio"] == ask("fft-ratio", FFT)["ratio"]


# ---- plan gpus


def test_gpus_worked_examples():
    answer = ask("gpus", {"overhead": 0.1, "speedup": 3})
    assert answer["feasible"] is True and answer["gpus"] == 4
    assert math.isclose(answer["efficiency"], 1.1 / 1.4) and math.isclose(answer["speedup"], 4.4 / 1.4) and math.isclose(answer["limit"], 11)
    assert math.isclose(ask("gpus", {"gpus": 4, "efficiency": 0.8})["max_overhead"], 0.2 / 2.2)
    answer = ask("gpus", {"overhead": 0.1, "gpus": 4})
    assert set(answer) == {"efficiency", "speedup"} and math.isclose(answer["speedup"], 4.4 / 1.4)
    assert ask("gpus", {"overhead": 0, "speedup": 7.5}) == {"feasible": True, "gpus": 8, "efficiency": 1, "speedup": 8, "limit": None}
    for gpus, efficiency in ((4, 0.25), (4, 0.2), (1, 1), (10, 0.1)):
        assert ask("gpus", {"gpus": gpus, "efficiency": efficiency}) == {"max_overhead": None}
    assert ask("gpus", {"gpus": 3, "efficiency": 1}) == {"max_overhead": 0}


def test_gpus_exactly_reached_speedups():
    cases, expected = [], []
    for per_cent in range(1, 101):
        for gpus in range(1, 40):
            r = Fraction(per_cent, 100)
            speedup = gpus * (1 + r) / (1 + gpus * r)
            cases.append({"overhead": float(r), "speedup": float(speedup)})
            expected.append(gpus)
    assert [answer["gpus"] for answer in ask("gpus", cases)] == expected


@pytest.mark.parametrize("case", [{"overhead": 0.1, "speedup": 11}, {"overhead": 0.5, "speedup": 3}, {"overhead": 0.5, "speedup": 100}])
def test_a_speedup_at_the_limit_is_an_answer(case):
    answer = ask("gpus", case)
    assert answer["feasible"] is False
    assert [answer[key] for key in ("gpus", "efficiency", "speedup", "limit")] == [None] * 4
    assert str(round((1 + case["overhead"]) / case["overhead"])) in answer["reason"]


BAD_GPUS = [
    ({}, ["overhead"]),
    ({"overhead": 0.1}, ["not two"]),
    ({"overhead": 0.1, "gpus": 4, "speedup": 2}, ["not two"]),
    ({"efficiency": 0.5, "speedup": 2}, ["efficiency", "speedup"]),
    ({"overhead": 0.5, "efficiency": 0.5}, ["overhead", "efficiency"]),
    ({"gpus": 4, "speedup": 2}, ["gpus", "speedup"]),
    ({"gpus": 0, "efficiency": 0.5}, ["gpus"]),
    ({"gpus": 1.5, "efficiency": 0.5}, ["gpus"]),
    ({"gpus": 4, "efficiency": 0}, ["efficiency"]),
    ({"gpus": 4, "efficiency": 1.01}, ["efficiency"]),
    ({"gpus": 4, "efficiency": -0.5}, ["efficiency"]),
    ({"overhead": 0.1, "speedup": 0}, ["speedup"]),
    ({"overhead": -0.1, "speedup": 2}, ["overhead"]),
    ({"overhead": "0.1", "speedup": 2}, ["overhead"]),
]


@pytest.mark.parametrize("case,names", BAD_GPUS)
def test_bad_gpus(case, names):
    refused("gpus", [GOOD["gpus"], case], names=["case 1", *names])


# ---- plan servers


def test_servers():
    assert ask("servers", SERVERS) == {"servers": 4, "worker_link_ok": True, "worker_link_shortfall": 0}
    assert ask("servers", {**SERVERS, "duplex": "full"})["servers"] == 2
    answer = ask("servers", {**SERVERS, "compute_time": 1})
    assert answer["servers"] is None and answer["worker_link_ok"] is False and math.isclose(answer["worker_link_shortfall"], 363e6)
    assert "lacks 363.0 MB/s: links of 488.0 MB/s would, or 3.9 s of computing" in answer["reason"]
    answer = ask("servers", {**SERVERS, "compute_time": 1, "worker_bandwidth": 488e6})
    assert answer["servers"] == 32 and answer["worker_link_ok"] is True and answer["worker_link_shortfall"] == 0
    assert ask("servers", {**SERVERS, "parameter_bytes": 0})["servers"] == 1


def test_servers_at_whole_quotients():
    cases, expected = [], []
    for hundredths in range(1, 60):
        for servers in (1, 2, 3, 7, 10, 33):
            time, bandwidth = Fraction(hundredths, 100), 300_000_000
            cases.append({"parameter_bytes": int(time * bandwidth * servers), "workers": 1, "bandwidth": bandwidth, "worker_bandwidth": 1e12, "compute_time": float(time), "duplex": "full"})
            expected.append(servers)
    assert [answer["servers"] for answer in ask("servers", cases)] == expected


BAD_SERVERS = [
    ({**SERVERS, "duplex": "both"}, ["duplex"]),
    ({**SERVERS, "duplex": 2}, ["duplex"]),
    ({**SERVERS, "bandwidth": 0}, ["bandwidth"]),
    ({**SERVERS, "worker_bandwidth": 0}, ["worker_bandwidth"]),
    ({**SERVERS, "workers": 0}, ["workers"]),
    ({**SERVERS, "compute_time": 0}, ["compute_time"]),
    ({**SERVERS, "parameter_bytes": 1.5}, ["parameter_bytes"]),
    ({**SERVERS, "bandwidth": 1e-300}, ["bandwidth"]),
]


@pytest.mark.parametrize("case,names", BAD_SERVERS)
def test_bad_servers(case, names):
    refused("servers", case, names=["case 0", *names])
