"""`--model replay:FILE`: a worker without LibTorch that sleeps where a network computes, and checks every value that comes back."""

import itertools
import json
import os
import subprocess

import pytest

from jobs import PROGRAM, ROOT, Job, full, reference, train
from test_bad_input import refused

TABLES = ROOT / "bench/tables"


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Layers of unlike sizes, one without parameters; 9 ms an iteration."""
    file = tmp_path_factory.mktemp("replay") / "small.json"
    rows = [(1792, 0.0005, 0.001), (36928, 0.001, 0.002), (0, 0.0005, 0), (300_000, 0.0005, 0.001), (4097, 0, 0.001), (60_000, 0.0005, 0.001)]
    layers = [{"name": f"layer{i + 1}", "parameters": p, "forward_s": f, "backward_s": b} for i, (p, f, b) in enumerate(rows)]
    file.write_text(json.dumps({"layers": layers}))
    return file


def parameters(file, scale=1):
    layers = json.loads(file.read_text())["layers"]
    return sum(max(1, int(layer["parameters"] / scale + 0.5)) for layer in layers)


def check_report(report, workers, iterations, elements):
    assert report["loss_first"] is None and report["loss_last"] is None and report["accuracy"] is None
    assert report["dataset"] == "none" and report["iterations"] == iterations
    assert report["samples"] == workers * iterations * 32
    assert report["bytes_pushed"] == report["bytes_pulled"] == 4 * elements * workers * iterations
    total = sum(worker["seconds"] for worker in report["per_worker"]) / workers / iterations
    assert sum(report["phases"].values()) == pytest.approx(total, rel=0.05, abs=0.001)


@pytest.mark.parametrize(
    "schedule, workers, servers, more",
    [
        ("default", 3, 2, ()),
        ("layer-wise", 2, 3, ("--optimizer", "adam", "--scale", 3)),
        ("slicing", 4, 2, ("--optimizer", "momentum", "--learning-rate", "step:0.1,every=4,factor=0.5")),
        ("p3", 3, 3, ("--scale", 20, "--weight-decay", 0.01, "--seed", 4)),
    ],
)
def test_a_replay_has_the_bits_of_its_reference(table, schedule, workers, servers, more):
    task = ("--model", f"replay:{table}", "--iterations", 12, "--workers", workers, *more)
    scale = more[more.index("--scale") + 1] if "--scale" in more else 1
    expected = reference(*task)
    actual = train(*task, "--servers", servers, "--schedule", schedule)
    assert actual["parameters_hash"] == expected["parameters_hash"]
    assert actual["samples"] == expected["samples"] and expected["servers"] == 0
    check_report(actual, workers, 12, parameters(table, scale))
    assert actual["seconds"] / 12 >= 0.0089, "nothing is faster than it sleeps"


@pytest.mark.parametrize("wire", ["bfloat16", "float16"])
@pytest.mark.parametrize("how", [("--servers", 2, "--schedule", "p3"), ("--role", "both")], ids=("p3", "tuned-both"))
def test_a_replay_with_a_narrow_codec_checks_every_rounded_value(table, wire, how):
    task = ("--model", f"replay:{table}", "--iterations", 12, "--workers", 3, "--optimizer", "momentum", "--wire", wire)
    actual = train(*task, *how)
    assert actual["parameters_hash"] == reference(*task)["parameters_hash"]
    assert actual["bytes_pushed"] == actual["bytes_pulled"] == 2 * parameters(table) * 3 * 12


@pytest.mark.parametrize(
    "how",
    [("--servers", 1), ("--servers", 2, "--schedule", "p3"), ("--role", "both"), ("--collective", "loop1"), ("--collective", "loop3-overlap", "--verdict"), ("--servers", 2, "--verdict"),
     ("--role", "both", "--schedule", "p3", "--verdict", "--verdict-first")],  # fmt: skip
    ids=lambda how: "-".join(map(str, how)).replace("--", ""),
)
def test_a_replay_of_means_checks_every_mean(table, how):
    task = ("--model", f"replay:{table}", "--iterations", 6, "--workers", 3, "--optimizer", "mean")
    assert train(*task, *how)["parameters_hash"] == reference(*task)["parameters_hash"]


@pytest.mark.parametrize("wire", ["bfloat16", "float16"])
def test_a_replay_of_means_checks_every_rounded_mean(table, wire):
    task = ("--model", f"replay:{table}", "--iterations", 6, "--workers", 3, "--optimizer", "mean", "--wire", wire)
    actual = train(*task, "--servers", 2, "--schedule", "p3", "--verdict")
    assert actual["parameters_hash"] == reference(*task)["parameters_hash"]
    assert actual["bytes_pushed"] == actual["bytes_pulled"] == 2 * parameters(table) * 3 * 6


def test_a_replay_checks_rounded_values_with_bsp_only(table, tmp_path):
    refused("train", "--model", f"replay:{table}", "--sync", "asp", "--wire", "bfloat16", names=("--wire bfloat16", "--sync asp"), folder=tmp_path)


LOOPS = {"loop1": ("lp", "mst", "be"), "loop2": ("lp", "mst", "be"), "loop3": ("lp", "ring", "direct", "mst", "be"), "loop3-overlap": ("lp", "ring", "direct", "mst", "be")}
OFTEN = {("loop1", "mst", 3), ("loop2", "lp", 4), ("loop3", "ring", 4), ("loop3-overlap", "be", 3), ("loop3-overlap", "direct", 4)}
EVERY = [(loop, algorithm, workers) for loop in LOOPS for algorithm in LOOPS[loop] for workers in (3, 4)]


@pytest.mark.parametrize("loop, algorithm, workers", [case if case in OFTEN else full(*case) for case in EVERY])
def test_a_replay_without_servers_checks_every_value_in_the_order_that_its_algorithm_adds_in(table, loop, algorithm, workers):
    task = ("--model", f"replay:{table}", "--iterations", 6, "--workers", workers, "--optimizer", "momentum")
    report = train(*task, "--collective", loop, "--algorithm", algorithm)
    in_order = algorithm in ("lp", "direct")
    assert report["collective"]["sum_order"] == ("rank" if in_order else "algorithm")
    assert (report["parameters_hash"] == reference(*task)["parameters_hash"]) == in_order


PARTS = [(push, back) for push in ("at-end", "as-ready") for back in ("broadcast", "pull-at-once", "pull-by-layer", "pull-in-batches", "notify-and-pull")]
PARTS.append(("in-batches", "pull-in-batches"))
SCHEDULES = ("tuned", "default", "layer-wise", "ibatch", "kvstore", "slicing", "p3")


@pytest.mark.parametrize(
    "push, back, schedule",
    [(*parts, name) if i % len(SCHEDULES) == j else full(*parts, name) for i, parts in enumerate(PARTS) for j, name in enumerate(SCHEDULES)],
)
def test_the_way_gradients_leave_and_values_come_back_changes_no_bit_whatever_the_schedule(table, push, back, schedule):
    task = ("--model", f"replay:{table}", "--iterations", 6, "--workers", 3, "--optimizer", "momentum")
    report = train(*task, "--servers", 2, "--schedule", schedule, "--push", push, "--return", back)
    assert report["parameters_hash"] == reference(*task)["parameters_hash"] and report["schedule"] == schedule
    assert report["batching"] is None or back == "pull-in-batches"
    if schedule == "tuned":
        assert report["tuned"]["return"] == back and all(candidate["return"] == back for candidate in report["tuned"]["candidates"])


@pytest.fixture(scope="module")
def heavy_tail(tmp_path_factory):
    """The last layer, whose gradient is ready first, has far more bytes than a window; the others follow at once."""
    file = tmp_path_factory.mktemp("replay") / "heavy.json"
    layers = [{"name": f"layer{i + 1}", "parameters": p, "forward_s": 0.001, "backward_s": 0} for i, p in enumerate((20_000, 30_000, 2_500_000))]
    file.write_text(json.dumps({"layers": layers}))
    return file


PLACES = ("worker_egress", "server_ingress", "server_egress")


@pytest.mark.parametrize("places", ["all", "none", "window", "worker-egress,window", "server-egress,server-ingress"])
@pytest.mark.parametrize("servers", [("--servers", 2), ("--role", "both")], ids=("separate", "both"))
def test_each_ordered_place_can_be_switched_off_keeps_the_bits_and_is_counted(heavy_tail, places, servers):
    task = ("--model", f"replay:{heavy_tail}", "--iterations", 8, "--workers", 2)
    report = train(*task, *servers, "--schedule", "p3", "--ordered-places", places)
    assert report["parameters_hash"] == reference(*task)["parameters_hash"]
    ordering = report["ordering"]
    assert ordering["places"] == places
    for place in PLACES:
        if places != "all" and place.replace("_", "-") not in places:
            assert ordering[place] == 0, ordering
    if places in ("all", "worker-egress,window"):
        assert ordering["worker_egress"] > 0 and ordering["window_full"] > 0, ordering
    if "window" not in places and places != "all":
        assert report["link"]["window"] == 2**40, "nothing is held back"


@pytest.mark.parametrize("window", ["auto", "auto:500us", "128KiB", "8MB"])
def test_the_window_changes_no_bit_and_is_reported(heavy_tail, window):
    task = ("--model", f"replay:{heavy_tail}", "--iterations", 8, "--workers", 2)
    report = train(*task, "--role", "both", "--schedule", "p3", "--window", window)
    assert report["parameters_hash"] == reference(*task)["parameters_hash"]
    link = report["link"]
    assert link["rule"] == window and link["processes"] == 2 and 0 <= link["measured"] <= 2
    assert link["window"] == {"128KiB": 131_072, "8MB": 8_000_000}.get(window, link["window"])
    assert 131_072 <= link["window"] <= 64 << 20
    assert (link["bandwidth"] is None) == (link["measured"] == 0)


def test_tuned_predicts_its_candidates_from_the_table_and_keeps_the_bits(heavy_tail):
    task = ("--model", f"replay:{heavy_tail}", "--iterations", 8, "--workers", 2)
    report = train(*task, "--role", "both", "--scale", 4)
    assert report["parameters_hash"] == reference(*task, "--scale", 4)["parameters_hash"]
    tuned = report["tuned"]
    assert tuned["by"] == "prediction" and len(tuned["candidates"]) >= 8 and tuned["predicted"]["seconds"] > 0
    # A candidate must be a percent faster to be preferred (tuning/tune.h); the seconds are rounded to nanoseconds.
    assert tuned["predicted"]["seconds"] <= (1 / 0.99 + 1e-5) * min(candidate["seconds"] for candidate in tuned["candidates"])
    assert report["link"]["rule"] == tuned["window"] and report["ordering"]["places"] == tuned["ordered-places"]
    for way in ("pull-by-layer", "pull-in-batches"):
        fixed = train(*task, "--servers", 2, "--scale", 4, "--return", way)
        assert fixed["parameters_hash"] == report["parameters_hash"] and fixed["tuned"]["return"] == way


def test_without_barriers_every_value_is_still_checked_and_the_job_goes_well(table):
    for sync in ("asp", "ssp", "elastic-bsp"):
        report = train("--model", f"replay:{table}", "--iterations", 30, "--workers", 3, "--servers", 2, "--sync", sync, "--schedule", "p3", "--speed", "1,1,0.5")
        assert sum(worker["iterations"] for worker in report["per_worker"]) == 90
        fast, _, slow = (worker["computing"] / worker["iterations"] for worker in report["per_worker"])
        assert slow > 1.5 * fast
    refused("train", "--model", f"replay:{table}", "--sync", "asp", "--optimizer", "adam", names=("--sync asp", "--optimizer sgd"))


def test_speeds_and_jitter_stretch_the_computing_and_no_bits(table):
    task = ("--model", f"replay:{table}", "--iterations", 15, "--workers", 2)
    report = train(*task, "--speed", "1,0.25", "--jitter", 0.1)
    assert report["parameters_hash"] == reference(*task)["parameters_hash"]
    fast, slow = report["per_worker"]
    # 9 ms and 36 ms an iteration: the sleeps are no shorter, and the fast worker waits for the slow one.
    assert slow["computing"] / 15 >= 0.030 and fast["computing"] / 15 >= 0.0075
    assert slow["computing"] > 2 * fast["computing"]
    assert fast["waiting_share"] > 0.4 and slow["waiting_share"] < 0.3


def test_a_replay_starts_without_libtorch_and_needs_no_data(table, tmp_path):
    with Job(tmp_path, "--model", f"replay:{table}", "--iterations", 200, "--workers", 2, "--servers", 1) as job:
        job.wait_for_iterations(2)
        for name, pid in job.children().items():
            mapped = open(f"/proc/{pid}/maps").read()
            assert "libtorch" not in mapped, name
        assert {"worker 0", "worker 1", "server 0", "coordinator"} == set(job.children())
        job.process.terminate()
        assert job.finish() == 130
        assert job.report()["iterations"] < 200


def test_a_replay_goes_on_from_a_checkpoint_with_the_same_bits(table, tmp_path):
    task = ("--model", f"replay:{table}", "--workers", 2, "--optimizer", "momentum", "--checkpoint", tmp_path / "runs")
    train(*task, "--iterations", 5, "--checkpoint-every", 2, "--servers", 2)
    resumed = train(*task, "--iterations", 9, "--resume", "--servers", 3)
    whole = reference("--model", f"replay:{table}", "--workers", 2, "--optimizer", "momentum", "--iterations", 9)
    assert resumed["parameters_hash"] == whole["parameters_hash"]
    assert resumed["iterations"] == 4


FULL = os.environ.get("PACELINE_FULL") in ("1", "all")
SUMS = {"vgg19": 143_667_240, "resnet50": 25_557_032, "inception_v3": 23_834_568, "sockeye_like": 26_411_549, "googlenet": 6_998_552, "vgg19_22k": 229_052_817, "alexnet": 62_378_344}


@pytest.mark.parametrize("name, schedule", itertools.product(SUMS, ("default", "layer-wise", "slicing", "p3")) if FULL else [("resnet50", "p3")])
def test_the_tables_of_the_benchmark_have_the_bits_of_their_reference(name, schedule):
    task = ("--model", f"replay:{TABLES / name}.json", "--scale", 20, "--iterations", 3, "--workers", 4)
    assert train(*task, "--servers", 4, "--schedule", schedule)["parameters_hash"] == reference(*task)["parameters_hash"]


def test_the_tables_of_the_benchmark_are_read(tmp_path):
    for name, total in SUMS.items():
        report = reference("--model", f"replay:{TABLES / name}.json", "--scale", 1000, "--iterations", 1)
        assert parameters(TABLES / f"{name}.json") == total and len(report["parameters_hash"]) == 32


@pytest.mark.parametrize("name, model, total", [("googlenet", "googlenet", "0.13"), ("vgg19_22k", "vgg-19-22k", "0.6"), ("alexnet", "alexnet", "0.035")])
def test_a_table_of_the_benchmark_is_what_its_script_makes_of_the_described_network(name, model, total):
    made = subprocess.run([TABLES / "make_table.py", model, total], env=os.environ | {"PACELINE": str(PROGRAM)}, capture_output=True, text=True, check=True)
    assert made.stdout == (TABLES / f"{name}.json").read_text()
    table = json.loads(made.stdout)
    assert sum(layer["forward_s"] + layer["backward_s"] for layer in table["layers"]) == pytest.approx(table["compute_s"], rel=1e-6)


BAD_ROWS = [
    ({"name": "b", "parameters": -1, "forward_s": 0, "backward_s": 0}, ("layer 2 'b'", "'parameters'", "-1")),
    ({"name": "b", "parameters": 1.5, "forward_s": 0, "backward_s": 0}, ("layer 2 'b'", "'parameters'", "whole")),
    ({"name": "b", "parameters": 1, "forward_s": "1", "backward_s": 0}, ("layer 2 'b'", "'forward_s'", "number")),
    ({"name": "b", "parameters": 1, "forward_s": float("nan"), "backward_s": 0}, ("entry 2", "'forward_s'", "finite")),
    ({"name": "b", "parameters": 1, "forward_s": 0, "backward_s": float("inf")}, ("entry 2", "'backward_s'", "finite")),
    ({"name": "b", "parameters": 1, "forward_s": 0}, ("layer 2 'b'", "'backward_s'", "missing")),
    ({"name": "b", "parameters": 1, "forward_s": 0, "backward_s": 0, "macs": 3}, ("layer 2", "'macs'", "forward_s")),
    ("b", ("layer 2", "object")),
]


def test_bad_tables_are_refused_by_file_layer_and_key(tmp_path):
    file = tmp_path / "bad.json"
    good = {"name": "a", "parameters": 1, "forward_s": 0, "backward_s": 0}
    for row, names in BAD_ROWS:
        file.write_text(json.dumps({"layers": [good, row]}))
        refused("train", "--model", f"replay:{file}", names=("bad.json", *names))
    for text, names in [("", ("bad.json",)), ("[1]", ("object",)), ('{"layers":[]}', ("'layers'", "at least one")), ('{"layer":[]}', ("did you mean 'layers'",)), ("{", ("line 1",))]:
        file.write_text(text)
        refused("train", "--model", f"replay:{file}", names=names)
    refused("train", "--model", "replay:", names=("names no file", "replay:FILE"))
    refused("train", "--model", f"replay:{tmp_path}/none.json", names=("none.json", "No such file"))


@pytest.mark.parametrize(
    "arguments, names",
    [
        (("--epochs", 2), ("--epochs 2", "--iterations")),
        (("--evaluate-every", 2), ("--evaluate-every 2",)),
        (("--dataset", "digits"), ("--dataset digits",)),
        (("--export", "x.safetensors"), ("--export",)),
        (("--clip-norm", 1), ("--clip-norm 1",)),
        (("--scale", 0.5), ("--scale", "1 to")),
        (("--scale", "nan"), ("--scale",)),
        (("--speed", "1,1"), ("--speed", "2 entries for 3 workers")),
        (("--speed", "1,0,1"), ("--speed", "entry 2", "0.001 to 1")),
        (("--speed", "1,1,2"), ("--speed", "entry 3")),
        (("--jitter", -0.1), ("--jitter", "0 to 1")),
        (("--jitter", 2), ("--jitter", "0 to 1")),
    ],
    ids=str,
)
def test_what_no_replay_can_be(table, arguments, names):
    refused("train", "--model", f"replay:{table}", "--workers", 3, *arguments, names=names)


def test_a_scale_is_for_a_replay_only():
    refused("train", "--scale", 10, names=("--scale 10", "replay"))
