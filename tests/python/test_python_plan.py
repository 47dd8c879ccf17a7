"""`paceline.plan` answers and refuses as `paceline plan` does; `paceline.report` and `paceline.profile` read what its commands wrote."""

import inspect
import json
import os
import subprocess
import sys

import pytest
from binding import environment, python
from error_lines import sentence_and_code
from plan_questions import ALGORITHMS, BARRIER, ENDS, FFT, MEMORY, MINI_BATCH, PROGRAM, ROOT, SERVERS, without
from test_plan_communication import BATCHES, COLLECTIVE, ITERATION, SLICE, SPEEDUP

import paceline
from paceline import PacelineError, plan

GPUS = {"overhead": 0.1, "speedup": 3}
CASES = [  # name, case, choices
    ("batches", BATCHES, {}),
    ("batches", {**BATCHES, "backward": [4, 4, 1, 2], "bounds": [2, 4]}, {"algorithm": "given", "side": "push"}),
    ("iteration", ITERATION, {}),
    ("speedup", SPEEDUP, {}),
    ("speedup", SPEEDUP, {"schedule": "layer-wise"}),
    ("slice", SLICE, {}),
    ("collective", COLLECTIVE, {"operation": "allreduce", "algorithm": "lp"}),
    ("barrier", BARRIER, {"objective": "waiting-share"}),
    ("barrier", ENDS, {"algorithm": "naive"}),
    ("gpus", GPUS, {}),
    ("servers", SERVERS, {}),
    ("memory", MEMORY, {}),
    ("algorithms", ALGORITHMS, {}),
    ("mini-batch", MINI_BATCH, {}),
    ("fft-ratio", FFT, {}),
]


def function(question):
    return getattr(plan, question.replace("-", "_"))


def command(question, case, choices, code=0):
    options = [word for name, value in choices.items() for word in ("--" + name, value)]
    done = subprocess.run([PROGRAM, "plan", question, "--input", "-", "--json", *options], input=json.dumps(case), capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done
    return json.loads(done.stdout) if code == 0 else sentence_and_code(done.stderr.rstrip())[0]


@pytest.mark.parametrize("question, case, choices", CASES)
def test_every_question_is_answered_as_on_the_command_line(question, case, choices):
    assert function(question)(**case, **choices) == command(question, case, choices)
    assert plan.ask(question, [{**case, **choices}] * 2) == command(question, [case] * 2, choices)


@pytest.mark.parametrize("question, case, choices", CASES)
def test_every_mistake_is_refused_with_the_command_line_s_sentence(question, case, choices):
    for key in case:
        for value in (-1, "words", [], {}):
            wrong = {**case, key: value}
            try:
                answer = function(question)(**wrong, **choices)
            except PacelineError as error:
                said = command(question, wrong, choices, code=2)
                for place in ("standard input: ", "case 0: "):
                    said = said.removeprefix(place)
                assert error.message == said and error.kind == "bad-request" and error.exit_code == 2, (wrong, error.message, said)
            else:
                assert answer == command(question, wrong, choices), wrong


def test_a_mistake_names_its_key_and_among_many_cases_its_case():
    with pytest.raises(PacelineError, match="^key 'workers' is 0; it must be above zero$") as raised:
        plan.servers(**{**SERVERS, "workers": 0})
    assert raised.value.subject == "workers"
    with pytest.raises(PacelineError, match="^case 1: key 'duplex' is missing") as raised:
        plan.ask("servers", [SERVERS, without(SERVERS, "duplex")])
    assert raised.value.subject == "duplex"
    with pytest.raises(PacelineError, match="did you mean 'exact'") as raised:
        plan.batches(**BATCHES, algorithm="exat")
    assert raised.value.subject == "algorithm"
    with pytest.raises(PacelineError, match=r"there is no question 'plan bathes' \(did you mean 'plan batches'\?\)"):
        plan.ask("bathes", [])
    with pytest.raises(PacelineError, match="not finite"):
        plan.gpus(overhead=float("nan"), gpus=2)


def test_every_function_takes_the_keys_and_choices_that_the_library_lists():
    for question in plan.questions():
        parameters = dict(inspect.signature(function(question["name"])).parameters)
        for key in question["keys"]:
            assert (parameters.pop(key["name"]).default is inspect.Parameter.empty) == key["required"], (question["name"], key)
        for choice in question["choices"]:
            assert parameters.pop(choice["name"]).default == choice["values"][0], (question["name"], choice)
        assert not parameters, question["name"]


def measured(size):
    layers = [
        {"name": name, "algorithms": [{"algorithm": algorithm, "forward_s": time * size, "backward_s": time * size, "workspace_bytes": space} for algorithm, time, space in costs]}
        for name, costs in (("conv1", [("default", 1e-4, 0), ("gemm", 5e-5, 10**7)]), ("conv2", [("default", 1e-4, 0), ("fft", 4e-5, 2 * 10**7)]))
    ]
    return {"model": "lenet", "mini_batch": size, "step_s": 6e-4 * size, "rest_s": 2e-4 * size, "process_peak_bytes": 10**8, "layers": layers}


def test_a_job_is_recommended_as_on_the_command_line(tmp_path):
    file = tmp_path / "measured.json"
    steps = [{"model": "lenet", "dataset": "mnist-5k", "mini_batch": 32, "overhead": 0.1, "overhead_without_pipelining": 0.2}]
    file.write_text(json.dumps({"measurements": [measured(8), measured(32)], "steps": steps}))
    asked = {"model": "lenet", "dataset_size": 4000, "memory": 120_000_000, "speedup": 3, "bandwidth": 125e6}
    options = "--model lenet --dataset-size 4000 --memory 120MB --speedup 3 --bandwidth 125MB/s".split()
    done = subprocess.run([PROGRAM, "plan", "job", *options, "--measurements", file, "--json"], capture_output=True, text=True, timeout=120)
    answer = plan.job(**asked, measurements=paceline.profile.read(file))
    assert answer == json.loads(done.stdout) and answer["feasible"] and answer["train"]["workers"] == 4
    with pytest.raises(PacelineError, match="key 'workers' and key 'speedup' contradict each other"):
        plan.job(**asked, workers=2, measurements={"measurements": []})


def test_arrays_of_other_libraries_are_numbers_too():
    class Array:
        def tolist(self):
            return BATCHES["transfer"]

    assert plan.batches(**{**BATCHES, "transfer": Array()}) == plan.batches(**BATCHES)
    with pytest.raises(AttributeError):
        plan.batches(**{**BATCHES, "transfer": object()})


def test_without_the_solver_other_questions_are_answered(tmp_path):
    (tmp_path / "libCbcSolver.so.3").touch()
    code = f"""
from paceline import plan, PacelineError
print(plan.servers(**{SERVERS!r})["servers"])
try: plan.algorithms(**{ALGORITHMS!r})
except PacelineError as error: print(error.kind, error.code, error.subject, error.exit_code, error)
"""
    done = python(code, LD_LIBRARY_PATH=str(tmp_path))
    first, second = done.stdout.splitlines()
    assert first == str(plan.servers(**SERVERS)["servers"])
    assert second.startswith("io not-installed libCbcSolver.so.3 1 ") and second.endswith("apt-get install coinor-libcbc3"), done


# ---- Frames


def with_pandas(tmp_path, code):
    """A stand-in of what is used of pandas, so that it need not be there."""
    (tmp_path / "pandas.py").write_text("class DataFrame:\n    def __init__(self, rows): self.rows = rows\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=environment(PYTHONPATH=f"{ROOT / 'python'}:{tmp_path}"))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_frame_has_a_row_for_each_case_with_its_keys_and_those_of_the_answer(tmp_path):
    cases = [{**SLICE, "nodes": nodes} for nodes in (2, 4)]
    said = with_pandas(tmp_path, f"import json; from paceline import plan; print(json.dumps(plan.frame('slice', {cases!r}).rows))")
    assert json.loads(said) == [{**case, **answer} for case, answer in zip(cases, plan.ask("slice", cases))]


def test_where_pandas_is_not_a_frame_says_how_to_get_it(tmp_path):
    (tmp_path / "pandas.py").write_text("raise ModuleNotFoundError('pandas')\n")
    code = "from paceline import plan, PacelineError\ntry: plan.frame('slice', [])\nexcept PacelineError as error: print(error.subject, error)"
    done = python(code, PYTHONPATH=f"{tmp_path}:{ROOT / 'python'}")
    assert done.stdout == "pandas a frame needs pandas, which is not here: pip install pandas\n", done


# ---- What a job and a measurement wrote


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """A replay of three small layers, with everything that a job can write."""
    folder = tmp_path_factory.mktemp("job")
    layers = [{"name": name, "parameters": 1000, "forward_s": 0.001, "backward_s": 0.001} for name in ("one", "two", "three")]
    (folder / "table.json").write_text(json.dumps({"layers": layers}))
    done = subprocess.run(
        [PROGRAM, "train", "--model", f"replay:{folder / 'table.json'}", "--workers", "2", "--iterations", "4", "--json"]
        + [word for option in ("metrics", "trace") for word in ("--" + option, folder / option)],
        capture_output=True, text=True, timeout=120, env={name: value for name, value in os.environ.items() if not name.startswith("PACELINE_J")},
    )
    assert done.returncode == 0, done.stderr
    (folder / "report.json").write_text(done.stdout)
    return folder


def test_what_a_job_wrote_is_read_as_dicts(job):
    report = paceline.read_report(job / "report.json")
    assert report["iterations"] == 4 and report["workers"] == 2 and set(report["phases"]) >= {"forward", "wait"}
    metrics = paceline.read_metrics(job / "metrics")
    assert len(metrics) == 4 and all(row["seconds"] > 0 for row in metrics)
    assert {event["ph"] for event in paceline.read_trace(job / "trace")["traceEvents"]} >= {"M", "X"}


def test_frames_of_a_job_have_a_row_for_each_line_and_event(job, tmp_path):
    code = f"import json; from paceline import report\nprint(json.dumps([report.metrics_frame({str(job / 'metrics')!r}).rows, report.trace_frame({str(job / 'trace')!r}).rows]))"
    metrics, events = json.loads(with_pandas(tmp_path, code))
    assert metrics == paceline.read_metrics(job / "metrics")
    assert {"training", "loop"} <= {event["thread"] for event in events} and all("ts" in event for event in events)
    assert {event["process"] for event in events if event["cat"] == "forward"} == {"worker 0", "worker 1"}


def test_a_profile_is_read_and_planned_with(job, tmp_path):
    profile = paceline.profile.read(job / "table.json")
    assert plan.iteration(nodes=4, bandwidth=125e6, layers=profile["layers"])["computation"] == pytest.approx(0.006)
    said = with_pandas(tmp_path, f"import json; from paceline import profile; print(json.dumps(profile.frame({str(job / 'table.json')!r}).rows))")
    assert json.loads(said) == profile["layers"]


@pytest.mark.parametrize(
    "reader, content, kind, words",
    [
        (paceline.read_report, "{", "corrupt", "malformed JSON"),
        pytest.param(paceline.read_report, "[" * 10**6, "corrupt", "malformed JSON", id="deep"),
        pytest.param(paceline.read_metrics, "[" * 10**6 + "\n", "corrupt", "line 1: malformed JSON", id="deep line"),
        (paceline.read_report, "[]", "bad-request", "this is not a report: it is no object"),
        (paceline.read_report, '{"phases": {}}', "bad-request", "this is not a report: it lacks 'iterations'"),
        (paceline.read_report, '{"traceEvents": []}', "bad-request", "this is not a report"),
        (paceline.read_trace, "{}", "bad-request", "this is not a trace: it lacks 'traceEvents'"),
        (paceline.read_trace, b"\xff\xfe", "corrupt", "this is no text"),
        (paceline.read_metrics, '{"superstep": 0}\n3\n', "bad-request", "line 2: this is not a line of metrics"),
        (paceline.read_metrics, '{"iteration": 0}\n{"iter\n', "corrupt", "line 2: malformed JSON"),
        (paceline.profile.read, "3", "bad-request", "this is not what 'paceline profile' measured"),
        (paceline.profile.frame, "{}", "bad-request", "this is not a profile of layers: it lacks 'layers'"),
    ],
)
def test_a_file_that_is_something_else_is_named(tmp_path, reader, content, kind, words):
    file = tmp_path / "file"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(PacelineError) as raised:
        reader(file)
    assert raised.value.kind == kind and raised.value.subject == str(file) and words in str(raised.value) and str(file) in str(raised.value)


def test_a_file_that_is_not_there_is_named_and_a_line_that_is_being_written_is_left_out(tmp_path):
    with pytest.raises(PacelineError, match="No such file or directory") as raised:
        paceline.read_report(tmp_path / "none")
    assert raised.value.kind == "io" and raised.value.subject == str(tmp_path / "none")
    (tmp_path / "metrics").write_text('{"iteration": 0}\n{"iterat')
    assert paceline.read_metrics(tmp_path / "metrics") == [{"iteration": 0}]
