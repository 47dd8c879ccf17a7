"""The contracts of `paceline plan batches|iteration|slice|collective`, asked from outside: answers, arrays, options, every kind of bad input.

The program is the one that the environment variable PACELINE names, else build/release/bin/paceline.
"""

import json
import math
import os
import random
import subprocess
from itertools import combinations
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("PACELINE", str(ROOT / "build/release/bin/paceline"))


def run(*arguments, text=""):
    return subprocess.run([PROGRAM, "plan", *arguments], input=text, capture_output=True, text=True, timeout=60)


def ask(question, cases, *options):
    text = cases if isinstance(cases, str) else json.dumps(cases)
    done = run(question, "--input", "-", "--json", *options, text=text)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1 and done.stderr == ""
    return json.loads(done.stdout)


def refused(*arguments, text="", names=()):
    done = run(*arguments, text=text)
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == ""
    assert done.stderr.startswith("paceline: error: ") and done.stderr.count("\n") == 1, done.stderr
    for name in names:
        assert name in done.stderr, (name, done.stderr)
    return done.stderr


BATCHES = {"start_up": 0.5, "transfer": [1, 2, 3, 4], "forward": [2, 2, 1, 5]}
ITERATION = {"nodes": 4, "bandwidth": 1000, "layers": [{"bytes": 4000, "forward": 1, "backward": 2}, {"parameters": 250, "forward_s": 3, "backward_s": 4}]}
SLICE = {"nodes": 4, "bytes": 100_000_000, "alpha": 1e-4, "bandwidth": 125e6}
COLLECTIVE = {"ranks": 3, "bytes": 4096, "alpha": 1e-5, "beta": 1e-9, "gamma": 1e-10, "block": 1024}
SPEEDUP = {"bandwidth": 1e9, "machines": [1, 2, 4], "layers": [{"bytes": 4_000_000, "forward": 0.01, "backward": 0.02}, {"parameters": 250_000, "forward_s": 0.003, "backward_s": 0.004}]}
QUESTIONS = {"batches": BATCHES, "iteration": ITERATION, "speedup": SPEEDUP, "slice": SLICE, "collective": COLLECTIVE}


# ---- The frame: arrays, options, output


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_array_gives_an_array_of_the_same_length_and_an_object_an_object(question):
    one = ask(question, QUESTIONS[question])
    assert isinstance(one, list if question == "speedup" else dict)
    assert ask(question, [QUESTIONS[question]] * 3) == [one] * 3
    assert ask(question, [QUESTIONS[question]]) == [one]
    assert ask(question, []) == []


@pytest.mark.parametrize("question", QUESTIONS)
def test_help_shows_examples_that_work_when_pasted(question):
    done = run(question, "--help")
    assert done.returncode == 0
    examples = done.stdout.split("Examples:\n")[1].replace("|\n", "| ").splitlines()
    commands = [line.strip() for line in examples if "paceline plan" in line and "--help" not in line]
    assert len(commands) == 2
    for command in commands:
        shell = f'paceline() {{ "{PROGRAM}" "$@"; }}; set -o pipefail; {command}'
        pasted = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=60)
        assert pasted.returncode == 0 and pasted.stdout, (command, pasted.stderr)


def test_the_groups_examples_work_too():
    done = run("--help")
    commands = [line.strip() for line in done.stdout.split("Examples:\n")[1].splitlines() if "paceline plan" in line]
    assert len(commands) >= 2
    for command in commands:
        pasted = subprocess.run(["bash", "-c", f'paceline() {{ "{PROGRAM}" "$@"; }}; {command}'], capture_output=True, text=True, timeout=60)
        assert pasted.returncode == 0 and pasted.stdout, (command, pasted.stderr)


def test_options_and_json_give_the_same_answer():
    by_options = run("slice", "--nodes", "4", "--bytes", "100MB", "--alpha", "100us", "--bandwidth", "1gbit", "--json")
    assert json.loads(by_options.stdout) == ask("slice", SLICE)
    by_options = run("batches", "--start-up", "500ms", "--transfer", "1,2,3,4", "--forward", "2, 2, 1, 5", "--json")
    assert json.loads(by_options.stdout) == ask("batches", BATCHES)
    by_options = run("batches", "--start-up", "0.5", "--transfer=1,2,3,4", "--forward=2,2,1,5", "--bounds", "1,4", "--algorithm", "given", "--json")
    assert json.loads(by_options.stdout)["bounds"] == [1, 4]
    layers = json.dumps(ITERATION["layers"])
    by_options = run("iteration", "--nodes", "4", "--bandwidth", "1000B/s", "--layers", layers, "--json")
    assert json.loads(by_options.stdout) == ask("iteration", ITERATION)
    by_options = run("collective", "--ranks", "3", "--bytes", "4096", "--alpha", "10us", "--beta", "1ns", "--gamma", "0.1ns", "--block", "1024", "--operation",
                     "allreduce", "--algorithm", "lp", "--json")
    assert json.loads(by_options.stdout) == ask("collective", COLLECTIVE, "--operation", "allreduce", "--algorithm", "lp")


def test_text_is_for_people_and_json_from_a_file_too(tmp_path):
    file = tmp_path / "cases.json"
    file.write_text(json.dumps([SLICE, SLICE]))
    done = run("slice", "--input", str(file))
    assert done.returncode == 0 and done.stdout.splitlines() == ["case  slice_bytes", "0     684652", "1     684652"]
    done = run("slice", "--nodes", "4", "--bytes", "100MB", "--alpha", "100us", "--bandwidth", "1gbit")
    assert done.stdout == "slice_bytes  684652\n"
    assert run("iteration", "--input", "-", text=json.dumps(ITERATION)).stdout.splitlines() == ["lower_bound  16.0 s", "computation  10.0 s", "transfer     7.5 s", "tail         16.0 s"]


def test_doubles_survive_the_way_through_json():
    times = [0.1, 1 / 3, 1e-300, 123456.789012345678]
    for time in times:
        answer = ask("batches", {"start_up": 0, "transfer": [time], "forward": [0]}, "--algorithm", "default")
        assert answer["makespan"] == time and answer["execution_time"] == time


# ---- Bad input


def with_key(case, key, value):
    return {**case, key: value}


NUMBER_KEYS = [
    ("batches", "start_up"), ("iteration", "nodes"), ("iteration", "bandwidth"), ("slice", "nodes"), ("slice", "bytes"), ("slice", "alpha"), ("slice", "bandwidth"),
    ("collective", "ranks"), ("collective", "bytes"), ("collective", "alpha"), ("collective", "beta"), ("collective", "gamma"), ("collective", "block"),
]
BAD_NUMBERS = ["-1", "-0.5", "true", "null", '"1"', "[1]", "{}", "NaN", "Infinity", "-Infinity", "1e400", "-1e400"]


@pytest.mark.parametrize("question,key", NUMBER_KEYS)
@pytest.mark.parametrize("bad", BAD_NUMBERS)
def test_a_bad_number_is_refused_naming_case_and_key(question, key, bad):
    good = json.dumps(QUESTIONS[question])
    spoilt = json.dumps(with_key(QUESTIONS[question], key, "@")).replace('"@"', bad)
    refused(question, "--input", "-", "--json", text=f"[{good},{good},{good},{spoilt},{good}]", names=["case 3", f"'{key}'"])
    refused(question, "--input", "-", text=spoilt, names=["case 0", f"'{key}'"])


@pytest.mark.parametrize("question,key", [("iteration", "nodes"), ("slice", "nodes"), ("slice", "bytes"), ("collective", "ranks"), ("collective", "bytes"), ("collective", "block")])
@pytest.mark.parametrize("bad", [1.5, 1e30, 2**60])
def test_counts_and_bytes_are_whole_and_bounded(question, key, bad):
    refused(question, "--input", "-", text=json.dumps([QUESTIONS[question], with_key(QUESTIONS[question], key, bad)]), names=["case 1", f"'{key}'"])


@pytest.mark.parametrize("question,key", [("iteration", "nodes"), ("iteration", "bandwidth"), ("slice", "nodes"), ("slice", "bandwidth"), ("collective", "ranks"), ("collective", "block")])
def test_zero_is_refused_where_it_has_no_meaning(question, key):
    refused(question, "--input", "-", text=json.dumps(with_key(QUESTIONS[question], key, 0)), names=["case 0", f"'{key}'"])


@pytest.mark.parametrize("question,key", [(q, k) for q, case in QUESTIONS.items() for k in case if k not in ("block", "machines")])
def test_a_missing_key_is_named(question, key):
    case = {k: v for k, v in QUESTIONS[question].items() if k != key}
    refused(question, "--input", "-", text=json.dumps([QUESTIONS[question], case]), names=["case 1", f"'{key}'", "missing"])


@pytest.mark.parametrize("question,unknown,meant", [("batches", "transfr", "transfer"), ("iteration", "layer", "layers"), ("slice", "alhpa", ""), ("collective", "blocks", "block")])
def test_an_unknown_key_is_named_and_the_nearest_suggested(question, unknown, meant):
    message = refused(question, "--input", "-", text=json.dumps([with_key(QUESTIONS[question], unknown, 1)]), names=["case 0", f"'{unknown}'"])
    assert not meant or f"did you mean '{meant}'" in message


@pytest.mark.parametrize("bad", [3, "x", None, [1], [[]], [BATCHES, 7], [None], True])
def test_what_is_neither_an_object_nor_an_array_of_objects_is_refused(bad):
    refused("batches", "--input", "-", text=json.dumps(bad))
    if isinstance(bad, list):
        refused("batches", "--input", "-", text=json.dumps(bad), names=[f"case {len(bad) - 1}"])


@pytest.mark.parametrize("text,place", [("", "line 1"), ("{", "line 1"), ('{"start_up": }', "column 14"), ("[{},]", "line 1"), ('{"a" 1}', "line 1"), ("{}\n\n}", "line 3"),
                                        ('{"start_up":01}', "line 1"), ("{'a':1}", "line 1"), ('[{"a":1}', "line 1"), ("\x00", "line 1"), ("[" * 100000, "nested")])
def test_malformed_json_is_placed(text, place):
    refused("batches", "--input", "-", text=text, names=[place])


def test_a_repeated_key_is_refused():
    refused("slice", "--input", "-", text='[{"nodes":1,"nodes":2,"bytes":1,"alpha":1,"bandwidth":1}]', names=["case 0", "'nodes'", "twice"])


@pytest.mark.parametrize("key", ["transfer", "forward"])
@pytest.mark.parametrize("bad,names", [([], []), ([1, 2, 3], []), (5, ["array"]), ("1,2", ["array"]), ([1, 2, 3, -4], ["[3]"]), ([1, 2, 3, "4"], ["[3]"]), ([1, 2, 3, None], ["[3]"]),
                                       ([1, 2, 3, [4]], ["[3]"]), (None, []), ({}, [])])
def test_a_bad_list_of_times_is_refused(key, bad, names):
    refused("batches", "--input", "-", text=json.dumps([BATCHES, with_key(BATCHES, key, bad)]), names=["case 1", f"'{key}'", *names])


@pytest.mark.parametrize("bounds", [[], [1], [1, 2, 3], [0, 4], [2, 2, 4], [3, 2, 4], [5], [4, 5], [1.5, 4], [-1, 4], "4", 4, ["4"], [2**40]])
def test_bad_bounds_are_refused(bounds):
    refused("batches", "--algorithm", "given", "--input", "-", text=json.dumps(with_key(BATCHES, "bounds", bounds)), names=["case 0", "'bounds'"])


def test_bounds_belong_to_given_only():
    refused("batches", "--algorithm", "given", "--input", "-", text=json.dumps(BATCHES), names=["'bounds'"])
    refused("batches", "--algorithm", "exact", "--input", "-", text=json.dumps(with_key(BATCHES, "bounds", [4])), names=["'bounds'"])


def test_the_side_decides_which_times_are_needed():
    refused("batches", "--side", "push", "--input", "-", text=json.dumps(BATCHES), names=["'backward'"])
    both = with_key(BATCHES, "backward", BATCHES["forward"])
    assert ask("batches", both, "--side", "push") == ask("batches", BATCHES)


@pytest.mark.parametrize("layers", [[], {}, 5, "x", [5], [{}], [{"bytes": 1, "forward": 1}], [{"bytes": 1, "backward": 1}], [{"forward": 1, "backward": 1}],
                                    [{"bytes": 1, "parameters": 1, "forward": 1, "backward": 1}], [{"bytes": 1, "forward": 1, "forward_s": 1, "backward": 1}],
                                    [{"bytes": -1, "forward": 1, "backward": 1}], [{"bytes": 1, "forward": -1, "backward": 1}], [{"bytes": 1.5, "forward": 1, "backward": 1}],
                                    [{"bytes": "1", "forward": 1, "backward": 1}], [{"bytes": 1, "forward": None, "backward": 1}], [{"bytes": 1, "forward": True, "backward": 1}],
                                    [{"bytes": 1, "forward": 1, "bakward": 1, "backward": 1}]])
def test_bad_layers_are_refused(layers):
    refused("iteration", "--input", "-", text=json.dumps([ITERATION, with_key(ITERATION, "layers", layers)]), names=["case 1", "'layers'"])


def test_results_beyond_a_double_are_refused():
    refused("batches", "--input", "-", text=json.dumps({"start_up": 1e308, "transfer": [1e308] * 3, "forward": [1e308] * 3}), names=["case 0"])
    refused("collective", "--input", "-", text=json.dumps({**COLLECTIVE, "alpha": 1e308, "bytes": 10**9, "block": 1}), names=["case 0", "'seconds'"])


@pytest.mark.parametrize("arguments,names", [
    (["batches"], ["--input", "--transfer"]),
    (["slice", "--nodes", "4"], ["--bytes", "missing"]),
    (["slice", "--input", "-", "--nodes", "4"], ["--nodes", "--input"]),
    (["slice", "--input", "/does/not/exist"], ["/does/not/exist"]),
    (["slice", "--input", "/"], ["/"]),
    (["slice", "--input"], ["--input"]),
    (["slice", "--input", "-", "extra"], ["extra"]),
    (["slice", "--nodse", "4"], ["--nodse", "--nodes"]),
    (["slise"], ["slise"]),
    ([], ["batches"]),
    (["batches", "--algorithm", "exat", "--input", "-"], ["--algorithm", "exat", "exact"]),
    (["batches", "--side", "both", "--input", "-"], ["--side", "both", "push"]),
    (["batches", "--algorithm", "", "--input", "-"], ["--algorithm"]),
    (["slice", "--nodes", "x", "--bytes", "1", "--alpha", "1", "--bandwidth", "1B/s"], ["--nodes", "'x'"]),
    (["slice", "--nodes", "4", "--bytes", "1XB", "--alpha", "1", "--bandwidth", "1B/s"], ["--bytes", "XB"]),
    (["slice", "--nodes", "4", "--bytes", "-1", "--alpha", "1", "--bandwidth", "1B/s"], ["--bytes", "negative"]),
    (["slice", "--nodes", "4", "--bytes", "1", "--alpha", "1e400", "--bandwidth", "1B/s"], ["--alpha"]),
    (["slice", "--nodes", "4", "--bytes", "1", "--alpha", "nan", "--bandwidth", "1B/s"], ["--alpha"]),
    (["slice", "--nodes", "4", "--bytes", "1", "--alpha", "inf", "--bandwidth", "1B/s"], ["--alpha"]),
    (["slice", "--nodes", "4", "--bytes", "1", "--alpha", "1", "--bandwidth", "0gbit"], ["--bandwidth"]),
    (["batches", "--start-up", "1", "--transfer", "1,,2", "--forward", "1,2,3"], ["--transfer"]),
    (["batches", "--start-up", "1", "--transfer", "1,2,", "--forward", "1,2,3"], ["--transfer"]),
    (["batches", "--start-up", "1", "--transfer", "", "--forward", ""], ["transfer"]),
    (["slice", "--nodes", "4", "--bytes", "1", "--alpha", "1", "--bandwidth", "1000"], ["--bandwidth: '1000' is not a rate: it has no unit", "1gbit"]),
    (["servers", "--parameter-bytes", "574", "--workers", "4", "--bandwidth", "10gbit", "--compute-time", "2s", "--duplex", "full"], ["--parameter-bytes: '574' has no unit", "574B"]),
    (["memory", "--model", "lenet", "--mini-batch", "8", "--memory", "8"], ["--memory: '8' has no unit; write 8GB, or 8B if you mean bytes"]),
    (["iteration", "--nodes", "1", "--bandwidth", "1B/s", "--layers", "[{"], ["--layers"]),
    (["collective", "--operation", "gather", "--input", "-"], ["--operation", "gather", "allreduce"]),
])
def test_wrong_usage_is_one_line_that_names_what_and_what_is_legal(arguments, names):
    refused(*arguments, text="[]", names=names)


@pytest.mark.parametrize("operation", ["broadcast", "reduce"])
@pytest.mark.parametrize("algorithm", ["ring", "direct"])
def test_ring_and_direct_are_for_allreduce(operation, algorithm):
    refused("collective", "--operation", operation, "--algorithm", algorithm, "--input", "-", text=json.dumps(COLLECTIVE), names=[algorithm, "lp, mst, be"])


# ---- plan batches against a reference in whole numbers


def makespan(case, bounds, compute="forward"):
    arrived = finished = before = 0
    for last in bounds:
        arrived += case["start_up"] + sum(case["transfer"][before:last])
        finished = max(arrived, finished) + sum(case[compute][before:last])
        before = last
    return finished


def all_bounds(layers):
    for count in range(layers):
        for cuts in combinations(range(1, layers), count):
            yield [*cuts, layers]


def random_batches(seed, layers=8):
    rng = random.Random(seed)
    n, top = rng.randint(1, layers), rng.choice([1, 2, 5, 9])
    return {"start_up": rng.randint(0, top), "transfer": [rng.randint(0, top) for _ in range(n)], "forward": [rng.randint(0, top) for _ in range(n)]}


def test_exact_is_the_best_of_all_batchings():
    cases = [random_batches(seed) for seed in range(400)]
    for seed, (case, answer) in enumerate(zip(cases, ask("batches", cases, "--algorithm", "exact"))):
        best = min((makespan(case, bounds), len(bounds)) for bounds in all_bounds(len(case["transfer"])))
        assert (answer["makespan"], len(answer["bounds"])) == best, (seed, case)
        assert answer["makespan"] == makespan(case, answer["bounds"]), (seed, case)
        assert answer["algorithm"] == "exact" and answer["chosen"] is None and answer["feasible"] is True


def test_execution_time_and_overlap_are_those_of_the_paper():
    cases = [random_batches(seed) for seed in range(400)]
    for case in cases:
        case["bounds"] = random.Random(str(case)).choice(list(all_bounds(len(case["transfer"]))))
    for case, answer in zip(cases, ask("batches", cases, "--algorithm", "given")):
        starts = [0, *case["bounds"]]
        ts, t, c = case["start_up"], case["transfer"], case["forward"]
        n = len(case["bounds"])
        assert answer["execution_time"] == n * ts + sum(t) + sum(c[starts[-2]:]), case
        overlapped = all(ts + sum(t[starts[k]:starts[k + 1]]) >= sum(c[starts[k - 1]:starts[k]]) for k in range(1, n))
        assert answer["overlapped"] is overlapped and answer["makespan"] == makespan(case, case["bounds"]), case
        assert not overlapped or answer["makespan"] == answer["execution_time"]


def test_ibatch_is_the_better_of_the_two_greedy_candidates():
    cases = [random_batches(seed, layers=12) for seed in range(400)]
    answers = {name: ask("batches", cases, "--algorithm", name) for name in ["ibatch", "forward-greedy", "backward-greedy"]}
    stuck = 0
    for case, both, forward, backward in zip(cases, answers["ibatch"], answers["forward-greedy"], answers["backward-greedy"]):
        if not backward["feasible"]:
            stuck += 1
            assert backward.pop("reason") and not backward.pop("feasible") and set(backward.values()) == {None}
        later = backward.get("execution_time") is not None and backward["execution_time"] < forward["execution_time"]
        assert both["chosen"] == ("backward-greedy" if later else "forward-greedy"), case
        assert both["bounds"] == (backward if later else forward)["bounds"], case
        assert forward["overlapped"] is True
    assert stuck > 0


def test_push_is_the_same_problem_with_time_reversed():
    cases = [random_batches(seed) for seed in range(200)]
    pushed = [{"start_up": c["start_up"], "transfer": c["transfer"], "backward": c["forward"]} for c in cases]
    for case, answer in zip(pushed, ask("batches", pushed, "--algorithm", "exact", "--side", "push")):
        computed = free = 0
        starts = [0, *answer["bounds"]]
        for k in reversed(range(len(answer["bounds"]))):  # layer L is computed and pushed first
            computed += sum(case["backward"][starts[k]:starts[k + 1]])
            free = max(free, computed) + case["start_up"] + sum(case["transfer"][starts[k]:starts[k + 1]])
        assert answer["makespan"] == free, case


def test_default_and_layer_wise():
    answer = ask("batches", BATCHES, "--algorithm", "default")
    assert answer["bounds"] == [4] and answer["makespan"] == answer["execution_time"] == 20.5 and answer["overlapped"] is True
    answer = ask("batches", BATCHES, "--algorithm", "layer-wise")
    assert answer["bounds"] == [1, 2, 3, 4] and answer["makespan"] == makespan(BATCHES, [1, 2, 3, 4])


# ---- plan iteration, slice, collective


@pytest.mark.parametrize("table", ["vgg19", "resnet50"])
def test_a_replay_table_fits(table):
    file = ROOT.parent / "shared/data/replay" / f"{table}.json"
    if not file.exists():  # the tables are data beside the repository; the shape below is theirs
        loaded = {"model": table, "source": "", "parameters": 3, "compute_s": 3, "layers": [{"name": "a", "parameters": 3, "forward_s": 1, "backward_s": 2}]}
    else:
        loaded = json.loads(file.read_text())
    answer = ask("iteration", {**loaded, "nodes": 4, "bandwidth": 125e6})
    compute = sum(layer["forward_s"] + layer["backward_s"] for layer in loaded["layers"])
    size = 4 * sum(layer["parameters"] for layer in loaded["layers"])
    assert math.isclose(answer["computation"], compute) and math.isclose(answer["transfer"], 1.5 * size / 125e6)
    assert answer["lower_bound"] == max(answer["computation"], answer["transfer"], answer["tail"])


def test_the_lower_bound_term_by_term():
    answer = ask("iteration", {"nodes": 2, "bandwidth": 1000, "layers": [{"bytes": 4000, "forward": 1, "backward": 2}, {"parameters": 0, "forward": 3, "backward_s": 4}]})
    assert answer == {"lower_bound": 14, "computation": 10, "transfer": 4, "tail": 14}


def test_the_slice_is_clamped_and_whole():
    for nodes, size, alpha, rate, expected in [(1, 1, 0, 1, 8_000_000), (8, 10**9, 0, 1e9, 200_000), (8, 10**12, 1, 1e9, 8_000_000), (4, 10**8, 1e-4, 125e6, 684_652), (2, 0, 1, 1, 200_000)]:
        assert ask("slice", {"nodes": nodes, "bytes": size, "alpha": alpha, "bandwidth": rate}) == {"slice_bytes": expected}


def closed_form(operation, algorithm, p, n, b, a, be, g):
    lg = math.ceil(math.log2(p))
    if algorithm == "lp":
        weight = {"broadcast": be, "reduce": be + g, "allreduce": 2 * be + g}[operation]
        return (2 if operation == "allreduce" else 1) * (p - 1 + n / b) * a + (b * (p - 1) + n) * weight
    if algorithm == "mst":
        return lg * {"broadcast": a + n * be, "reduce": a + n * be + n * g, "allreduce": 2 * a + 2 * n * be + n * g}[operation]
    if algorithm == "be" and operation == "broadcast":
        return (lg + p - 1) * a + 2 * (p - 1) / p * n * be
    starts = 2 * lg if algorithm == "be" else 2 * (p - 1)
    return starts * a + 2 * (p - 1) / p * n * be + (p - 1) / p * n * g


OPERATIONS = {"broadcast": ["lp", "mst", "be"], "reduce": ["lp", "mst", "be"], "allreduce": ["lp", "mst", "be", "ring", "direct"]}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_collectives_cost_what_the_closed_forms_say_and_best_is_the_least(operation):
    rng = random.Random(operation)
    cases = [{"ranks": rng.randint(2, 40), "bytes": rng.randint(1, 10**8), "alpha": rng.choice([0, 1e-6, 1e-4]), "beta": rng.choice([0, 1e-9, 8e-9]), "gamma": rng.choice([0, 1e-10])}
             for _ in range(200)]
    answers = {algorithm: ask("collective", cases, "--operation", operation, "--algorithm", algorithm) for algorithm in [*OPERATIONS[operation], "best"]}
    for i, case in enumerate(cases):
        for algorithm in OPERATIONS[operation]:
            answer = answers[algorithm][i]
            expected = closed_form(operation, algorithm, case["ranks"], case["bytes"], answer["block"], case["alpha"], case["beta"], case["gamma"])
            assert math.isclose(answer["seconds"], expected, rel_tol=1e-12, abs_tol=0) or answer["seconds"] == expected == 0, (algorithm, case)
            assert (answer["block"] is not None) == (algorithm == "lp")
            assert answer["block"] is None or 1 <= answer["block"] <= case["bytes"]
        least = min(answers[algorithm][i]["seconds"] for algorithm in OPERATIONS[operation])
        first = next(algorithm for algorithm in OPERATIONS[operation] if answers[algorithm][i]["seconds"] == least)
        assert answers["best"][i] == answers[first][i], case


@pytest.mark.parametrize("operation", OPERATIONS)
def test_one_rank_or_no_bytes_cost_nothing(operation):
    for algorithm in [*OPERATIONS[operation], "best"]:
        for change in [{"ranks": 1}, {"bytes": 0}]:
            answer = ask("collective", {**COLLECTIVE, **change}, "--operation", operation, "--algorithm", algorithm)
            assert answer["seconds"] == 0 and answer["steps"] == 0


RATED = {"ranks": 4, "bytes": 16_000_000, "alpha": 2e-5, "gamma": 0, "rates": [125e6, 31.25e6, 125e6, 125e6]}


@pytest.mark.parametrize("operation,root,order", [("broadcast", 0, [0, 2, 3, 1]), ("broadcast", 1, [1, 2, 3, 0]), ("reduce", 0, [1, 2, 3, 0]), ("reduce", 3, [1, 0, 2, 3])])
def test_where_links_differ_a_chain_puts_the_slow_rank_where_it_delays_nobody_else(operation, root, order):
    answer = ask("collective", {**RATED, "root": root, "block": 64_000}, "--operation", operation, "--algorithm", "lp")
    assert answer["order"] == order
    slow = 8e-9 * 1.25 ** round(math.log(4) / math.log(1.25))  # the slow rank's link decides the flow, and fills once
    assert math.isclose(answer["seconds"], (3 + 250) * 2e-5 + 16e6 * slow + 64_000 * (slow + 2 * 8e-9))


def test_the_chain_of_an_allreduce_has_the_slow_rank_at_an_end_and_best_weighs_it_against_the_others():
    chain = ask("collective", RATED, "--operation", "allreduce", "--algorithm", "lp")
    assert 1 in (chain["order"][0], chain["order"][-1]) and sorted(chain["order"]) == [0, 1, 2, 3]
    others = {algorithm: ask("collective", RATED, "--operation", "allreduce", "--algorithm", algorithm) for algorithm in ["mst", "be", "ring", "direct"]}
    assert all(answer["order"] is None for answer in others.values())
    best = ask("collective", RATED, "--operation", "allreduce", "--algorithm", "best")
    assert best == min([chain, *others.values()], key=lambda answer: answer["seconds"])


@pytest.mark.parametrize("operation", OPERATIONS)
def test_rates_that_are_alike_are_the_time_of_a_byte(operation):
    by_beta = ask("collective", {**COLLECTIVE, "beta": 8e-9}, "--operation", operation)
    by_rates = {**{key: value for key, value in COLLECTIVE.items() if key != "beta"}, "rates": [125e6] * 3}
    own = {"broadcast": [0, 1, 2], "reduce": [1, 2, 0], "allreduce": [0, 1, 2]}[operation]
    assert ask("collective", by_rates, "--operation", operation) == {**by_beta, "order": own if by_beta["algorithm"] == "lp" else None}
    by_options = run("collective", "--operation", operation, "--ranks", "3", "--bytes", "4096", "--alpha", "10us", "--rates", "1gbit,125MB/s,125e6 B/s", "--gamma", "0.1ns",
                     "--block", "1024", "--json")
    assert json.loads(by_options.stdout) == ask("collective", by_rates, "--operation", operation)


@pytest.mark.parametrize("change,names", [
    ({"rates": [1, 2, 3]}, ["'rates'", "3 ranks", "'ranks' is 4"]), ({"rates": [1, 2, 0, 3]}, ["'rates'[2]", "above zero"]), ({"rates": [1, 2, -1, 3]}, ["'rates'[2]", "negative"]),
    ({"rates": 1}, ["'rates'", "array"]), ({"rates": [1, 2, 3, 1e-320]}, ["'rates'", "above 0"]), ({"beta": 1e-9}, ["'beta'", "'rates'"]), ({"root": 4}, ["'root'", "0 to 3"]),
    ({"ranks": 65, "rates": [1] * 65}, ["'rates'", "at most 64"]), ({"rates": []}, ["'rates'", "0 ranks"]),
])
def test_rates_that_make_no_sense_are_refused(change, names):
    refused("collective", "--operation", "broadcast", "--input", "-", text=json.dumps([RATED, {**RATED, **change}]), names=["case 1", *names])


def test_an_allreduce_has_no_root_and_no_links_are_no_time():
    refused("collective", "--operation", "allreduce", "--input", "-", text=json.dumps({**RATED, "root": 0}), names=["case 0", "'root'"])
    refused("collective", "--input", "-", text=json.dumps({key: value for key, value in RATED.items() if key != "rates"}), names=["case 0", "'beta' is missing", "'rates'"])
    refused("collective", "--operation", "broadcast", "--input", "-", text=json.dumps({**COLLECTIVE, "root": 1}), names=["case 0", "'root' is for 'rates'"])


@pytest.mark.parametrize("operation,ranks,blocks,steps", [("broadcast", 5, 7, 10), ("reduce", 5, 7, 10), ("allreduce", 3, 4, 9), ("allreduce", 8, 10, 31), ("allreduce", 2, 6, 7),
                                                          ("allreduce", 6, 1, 10), ("allreduce", 1, 5, 0), ("broadcast", 2, 1, 1)])
def test_pipeline_steps(operation, ranks, blocks, steps):
    case = {**COLLECTIVE, "ranks": ranks, "bytes": blocks * 1000 - 1, "block": 1000}
    assert ask("collective", case, "--operation", operation, "--algorithm", "lp")["steps"] == steps
