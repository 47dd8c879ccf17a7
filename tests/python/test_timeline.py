"""`--trace FILE`: one timeline of all workers and servers."""

import contextlib
import json
from collections import defaultdict

import pytest

from jobs import LENET, Coordinator, Process, train
from test_bad_input import refused

STAGES = ["egress queue", "wire", "ingress queue", "aggregation", "update", "until asked", "return queue", "return wire"]
LAYERS = 6
ITERATIONS = 5


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Six layers, 10 ms an iteration."""
    file = tmp_path_factory.mktemp("timeline") / "small.json"
    layers = [{"name": f'layer "{i + 1}"', "parameters": p, "forward_s": 0.0005, "backward_s": 0.0011} for i, p in enumerate((1792, 36928, 300, 90_000, 4097, 60_000))]
    file.write_text(json.dumps({"layers": layers}))
    return file


class Timeline:
    """A trace file, read as a viewer reads it."""

    def __init__(self, file):
        assert not file.with_name(file.name + ".tmp").exists()
        trace = json.loads(file.read_text())
        self.other = trace["otherData"]
        self.error = self.other["clock_error_seconds"] * 1e6
        self.events = trace["traceEvents"]
        self.names = {event["pid"]: event["args"]["name"] for event in self.events if event["name"] == "process_name"}
        self.threads = {(event["pid"], event["tid"]): event["args"]["name"] for event in self.events if event["name"] == "thread_name"}

    def spans(self, name, process):
        return [event for event in self.events if event["ph"] == "X" and event["cat"] == name and self.names[event["pid"]].startswith(process)]

    def check_nesting(self):
        """Slices of a thread lie side by side or inside each other; those of a unit begin and end like brackets."""
        of_thread, open_slices = defaultdict(list), defaultdict(list)
        for event in self.events:
            assert event["pid"] in self.names and event.get("ts", 0) >= 0
            if event["ph"] == "X":
                assert event["dur"] >= 0 and (event["pid"], event["tid"]) in self.threads
                of_thread[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
            elif event["ph"] == "b":
                open_slices[event["cat"], event["id"]].append(event["name"])
            elif event["ph"] == "e":
                assert open_slices[event["cat"], event["id"]].pop() == event["name"]
        assert not any(open_slices.values())
        for slices in of_thread.values():
            around = []
            for begin, end in sorted(slices, key=lambda slice: (slice[0], -slice[1])):
                while around and around[-1] <= begin + 0.0011:
                    around.pop()
                assert not around or end <= around[-1] + 0.0011, "times are told in thousandths of a microsecond"
                around.append(end)

    def round_trips(self):
        """{(worker, iteration, unit): [(stage, begin, end), ...]} in the order of the file."""
        trips, current = {}, {}
        for event in self.events:
            if event["ph"] == "b" and event["name"].startswith("unit "):
                assert event["name"] == f"unit {event['args']['layer']}"
                key = (event["args"]["worker"], event["args"]["iteration"], event["args"]["unit"])
                assert key not in trips and self.names[event["pid"]].startswith(f"worker {key[0]}")
                trips[key] = current[event["id"]] = []
            elif event["ph"] == "b":
                current[event["id"]].append([event["name"], event["ts"]])
            elif event["ph"] == "e" and not event["name"].startswith("unit "):
                current[event["id"]][-1].append(event["ts"])
        return trips

    def check_order(self, trip, stages):
        """Nothing ends before it began, whichever process said so."""
        assert [stage[0] for stage in trip] == stages
        for (_, begin, end), (_, next_begin, _) in zip(trip, trip[1:]):
            assert begin <= next_begin + self.error + 0.001, (trip, self.error)
            assert end == pytest.approx(max(begin, next_begin), abs=0.0011)


def traced(tmp_path, *arguments):
    file = tmp_path / "trace.json"
    report = train(*arguments, "--trace", file)
    timeline = Timeline(file)
    timeline.check_nesting()
    assert report["trace"]["file"] == str(file) and report["trace"]["dropped"] == 0
    assert 0 < timeline.error < 50_000 and report["trace"]["clock_error_seconds"] * 1e6 == timeline.error
    return report, timeline


@pytest.mark.parametrize("schedule", ("tuned", "default", "layer-wise", "ibatch", "ibatch --push in-batches", "kvstore", "slicing", "p3"))
def test_every_layer_and_every_unit_is_followed_through_all_processes(schedule, table, tmp_path):
    _, timeline = traced(tmp_path, "--model", f"replay:{table}", "--iterations", ITERATIONS, "--workers", 2, "--servers", 2, "--schedule", *schedule.split())
    assert sorted(timeline.names.values()) == ["server 0", "server 1", "worker 0", "worker 1"]
    for worker in ("worker 0", "worker 1"):
        for what in ("forward", "backward", "gate"):
            seen = [(event["args"]["iteration"], event["args"]["layer"]) for event in timeline.spans(what, worker)]
            assert sorted(seen) == [(i, f'layer "{k}"') for i in range(1, ITERATIONS + 1) for k in range(1, LAYERS + 1)], what
            assert all(event["name"] == f"{what} {event['args']['layer']}" for event in timeline.spans(what, worker)), "a viewer shows the name"
        passed = timeline.spans("backward", worker)[-1]["ts"] - timeline.spans("gate", worker)[0]["ts"]
        assert passed > 0.8e6 * ITERATIONS * LAYERS * 0.0016, "so long is slept"
    trips = timeline.round_trips()
    units = {unit for _, _, unit in trips}
    assert set(trips) == {(w, i, u) for w in range(2) for i in range(1, ITERATIONS + 1) for u in units}
    assert len(units) >= (1 if schedule == "tuned" else 2)
    for trip in trips.values():
        timeline.check_order(trip, STAGES)
    updates = timeline.spans("update", "server")
    assert all(event["name"] == f"update {event['args']['layer']}" for event in updates)
    assert sorted((event["args"]["unit"], event["args"]["iteration"]) for event in updates) == sorted((u, i) for u in units for i in range(1, ITERATIONS + 1))


def test_a_layer_computes_only_with_what_has_come_back(table, tmp_path):
    _, timeline = traced(tmp_path, "--model", f"replay:{table}", "--iterations", ITERATIONS, "--workers", 2, "--servers", 2, "--schedule", "p3")
    layer_of = {event["args"]["unit"]: event["args"]["layer"] for event in timeline.events if event["name"].startswith("unit ") and event["ph"] == "b"}
    for (worker, iteration, unit), trip in timeline.round_trips().items():
        forward = [e for e in timeline.spans("forward", f"worker {worker}") if e["args"] == {"iteration": iteration + 1, "layer": layer_of[unit]}]
        assert len(forward) == (iteration < ITERATIONS)
        assert all(trip[-1][2] <= event["ts"] + 0.0011 for event in forward), "one process, one clock"


def test_worker_and_server_in_one_process_are_one_process_of_the_timeline(table, tmp_path):
    _, timeline = traced(tmp_path, "--model", f"replay:{table}", "--iterations", ITERATIONS, "--workers", 2, "--role", "both", "--schedule", "p3")
    assert sorted(timeline.names.values()) == ["worker 0 with server 0", "worker 1 with server 1"]
    through_memory = [stage for stage in STAGES if stage not in ("wire", "return wire")]
    kinds = {tuple(stage[0] for stage in trip) for trip in timeline.round_trips().values()}
    assert kinds == {tuple(STAGES), tuple(through_memory)}
    for trip in timeline.round_trips().values():
        timeline.check_order(trip, STAGES if len(trip) == len(STAGES) else through_memory)


@pytest.mark.parametrize("sync", (("asp",), ("ssp", "--staleness", 1), ("elastic-bsp",)), ids=lambda sync: sync[0])
def test_workers_that_do_not_wait_for_each_other_have_a_timeline_too(sync, table, tmp_path):
    report, timeline = traced(tmp_path, "--model", f"replay:{table}", "--iterations", ITERATIONS, "--workers", 2, "--servers", 2, "--sync", *sync, "--speed", "1,0.5")
    for worker in report["per_worker"]:
        last = max(event["args"]["iteration"] for event in timeline.spans("backward", f"worker {worker['rank']}"))
        assert last == worker["iterations"]
    assert len({key[:2] for key in timeline.round_trips()}) == sum(worker["iterations"] for worker in report["per_worker"])


def test_a_network_has_the_same_bits_with_a_timeline(tmp_path):
    task = (*LENET, "--iterations", 4, "--workers", 2, "--servers", 2, "--clip-norm", 1)
    report, timeline = traced(tmp_path, *task)
    plain = train(*task)
    assert plain["parameters_hash"] == report["parameters_hash"] and plain["trace"] is None
    for worker in ("worker 0", "worker 1"):
        layers = {event["args"]["layer"] for event in timeline.spans("forward", worker)}
        assert len(layers) == 4 and layers == {event["args"]["layer"] for event in timeline.spans("backward", worker)}
    assert all(len(trip) >= 7 for trip in timeline.round_trips().values())


def test_training_without_servers_shows_what_each_worker_computes(tmp_path):
    file = tmp_path / "trace.json"
    train(*LENET, "--iterations", 3, "--workers", 2, "--collective", "loop3-overlap", "--trace", file)
    timeline = Timeline(file)
    timeline.check_nesting()
    assert sorted(timeline.names.values()) == ["worker 0", "worker 1"]
    assert all(len(timeline.spans("backward", worker)) >= 3 * 4 for worker in ("worker 0", "worker 1"))


def test_those_who_join_from_elsewhere_are_in_the_timeline_of_the_coordinator(table, tmp_path):
    file = tmp_path / "trace.json"
    with Coordinator("--workers", 2, "--servers", 1, "--trace", file) as coordinator:
        with contextlib.ExitStack() as stack:
            join = ("train", "--join", coordinator.address)
            members = [stack.enter_context(Process(*join, "--role", "server"))]
            members += [stack.enter_context(Process(*join, "--model", f"replay:{table}", "--iterations", 3)) for _ in range(2)]
            for member in members:
                assert member.finish() == 0, member.err
        assert coordinator.finish() == 0, coordinator.err
        assert coordinator.report()["trace"]["file"] == str(file)
    timeline = Timeline(file)
    timeline.check_nesting()
    assert sorted(timeline.names.values()) == ["server 0", "worker 0", "worker 1"]


def test_the_report_for_people_says_how_well_the_clocks_agree(table, tmp_path):
    with Process("train", "--model", f"replay:{table}", "--iterations", 3, "--trace", tmp_path / "trace.json") as job:
        assert job.finish() == 0, job.err
    lines = [line for line in job.out.splitlines() if line.startswith("timeline")]
    assert len(lines) == 1 and "events of 2 processes, clocks agree within" in lines[0], job.out


def test_a_file_that_cannot_be_written_is_refused_before_anything_starts(table, tmp_path):
    for file in (tmp_path / "nowhere" / "trace.json", tmp_path):
        for command in (("train", "--model", f"replay:{table}", "--iterations", 3), ("coordinator",)):
            refused(*command, "--trace", file, names=("--trace", file, "give the name of a file that can be written"))
        assert list(tmp_path.iterdir()) == []


def test_a_place_that_goes_away_meanwhile_costs_no_training_and_is_told(table, tmp_path):
    file = tmp_path / "there/trace.json"
    file.parent.mkdir()
    with Coordinator("--workers", 1, "--servers", 0, "--trace", file) as coordinator:
        file.parent.rmdir()
        with Process("train", "--join", coordinator.address, "--model", f"replay:{table}", "--iterations", 3, "--collective", "loop3") as worker:
            assert worker.finish() == 0, worker.err
        assert coordinator.finish() == 1, coordinator.err
    assert f"--trace {file} was not written" in coordinator.the_error()
    assert coordinator.report()["iterations"] == 3 and coordinator.report()["trace"] is None


def test_no_timeline_is_written_unless_asked_for(table, tmp_path):
    assert train("--model", f"replay:{table}", "--iterations", 3, cwd=tmp_path)["trace"] is None
    assert list(tmp_path.iterdir()) == []


def test_who_cannot_write_one_says_who_can():
    assert "--trace" in refused("train", "--reference", "--trace", "t.json")
    assert "paceline coordinator" in refused("train", "--join", "127.0.0.1:1", "--trace", "t.json")
