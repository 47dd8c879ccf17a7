"""`paceline plan speedup`, asked from outside."""

import json
import subprocess

import pytest
from jobs import keep_port
from ssh_hosts import Sshd, ssh_command
from test_plan_communication import PROGRAM, ROOT, SPEEDUP, ask, refused, run


def column(rows, key):
    return [row[key] for row in rows]


def test_more_machines_on_a_fast_link_compute_and_on_a_slow_one_wait():
    fast = ask("speedup", {**SPEEDUP, "bandwidth": 1e12, "start_up": 0})
    assert column(fast, "machines") == [1, 2, 4] and column(fast, "speedup") == pytest.approx([1, 2, 4], rel=0.02)
    assert column(fast, "limited_by") == ["computing"] * 3 and column(fast, "worth") == [True] * 3
    slow = ask("speedup", {**SPEEDUP, "bandwidth": 1e6})
    assert slow[0]["speedup"] == 1 and max(column(slow[1:], "speedup")) < 0.1 and column(slow[1:], "limited_by") == ["link", "link"]
    assert column(slow, "worth") == [True, False, False] and "limited by link; in the mean each adds less than half of its own work" in slow[2]["why"]


def test_people_get_a_table_with_units_and_one_sentence():
    text = run("speedup", "--input", "-", text=json.dumps({**SPEEDUP, "bandwidth": 1e6})).stdout
    lines = text.splitlines()
    assert lines[0].split() == ["machines", "Paceline", "split", "DDP", "bound", "speed-up", "limited", "by"] and lines[1].split()[:3] == ["1", "37.0", "ms"]
    assert lines[-1].startswith("stay with one machine: an iteration takes 37.0 ms, limited by computing"), text
    assert run("speedup", "--input", "-", text=json.dumps({**SPEEDUP, "bandwidth": 1e12})).stdout.splitlines()[-1].startswith("worth it: 4 machines make")
    only = run("speedup", "--input", "-", text=json.dumps({**SPEEDUP, "bandwidth": 1e6, "machines": [4]})).stdout
    assert only.splitlines()[-1].startswith("does not pay: 4 machines make 0."), only
    several = run("speedup", "--input", "-", text=json.dumps([SPEEDUP, SPEEDUP])).stdout
    assert several.count("machines  ") == 2 and "case 1\n" in several


@pytest.mark.parametrize("model", ["vgg19", "resnet50", "sockeye_like"])
@pytest.mark.parametrize("rate", [125e6, 1250e6])
def test_nothing_is_faster_than_the_bound_and_no_rival_that_costs_no_processor_much_faster(model, rate):
    table = json.loads((ROOT / f"bench/tables/{model}.json").read_text())
    answer = ask("speedup", {"bandwidth": rate, "machines": [1, 2, 4, 8], "layers": table["layers"]})
    for row in answer:
        machines, bound, own = row["machines"], row["lower_bound"], row["paceline"]
        assert bound == pytest.approx(ask("iteration", {"nodes": machines, "bandwidth": rate, "layers": table["layers"]})["lower_bound"])
        assert bound * (1 - 1e-9) <= own <= min(row["ddp"], row["split"]) * 1.05, row
        assert row["speedup"] == pytest.approx(machines * answer[0]["paceline"] / own)


def test_a_table_and_a_profile_are_asked_with_their_files():
    done = run("speedup", "--input", str(ROOT / "bench/tables/resnet50.json"), "--bandwidth", "1gbit", "--machines", "1,4", "--json")
    assert done.returncode == 0, done.stderr
    assert column(json.loads(done.stdout), "machines") == [1, 4]
    by_name = run("speedup", "--input", "resnet50", "--bandwidth", "1gbit", "--machines", "1,4", "--json")
    assert by_name.stdout == done.stdout, by_name.stderr
    refused("speedup", "--input", "resnet5", "--bandwidth", "1gbit", names=["resnet5"])
    assert run("speedup", "--input", "ResNet-50", "--bandwidth", "1gbit", "--machines", "1,4", "--json").stdout == done.stdout
    for name in ("resnet50", "ResNet-50"):
        assert ask("speedup", {"model": name, "bandwidth": 125e6, "machines": [1, 4]}) == json.loads(done.stdout)
    refused("speedup", "--input", "-", text=json.dumps({"model": "../tables/vgg19", "bandwidth": 1}), names=["key 'model' is '../tables/vgg19'", "'layers'"])


UNSHARED = {**SPEEDUP, "start_up": 0, "machines": [4, 16]}


def test_what_a_link_carries_beside_what_is_sent_counts():
    by_label, as_measured = ask("speedup", {**UNSHARED, "bandwidth": 1e8 * 1514 / 1448}), ask("speedup", {**UNSHARED, "bandwidth": 1e8, "payload": 1})
    for key in ("paceline", "ddp", "split"):
        assert column(by_label, key) == pytest.approx(column(as_measured, key))
    assert column(by_label, "lower_bound") < column(as_measured, "lower_bound")


@pytest.mark.parametrize("machines", [[], [0], [1, 257]])
def test_numbers_of_machines_that_cannot_be(machines):
    refused("speedup", "--input", "-", text=json.dumps({**SPEEDUP, "machines": machines}), names=["key 'machines'"])
    refused("speedup", "--input", "-", text=json.dumps({**SPEEDUP, "layers": [{"bytes": 4, "forward": 0, "backward": 0}]}), names=["key 'layers'", "no time"])


SHARED = {**SPEEDUP, "bandwidth": 1e8, "start_up": 0, "machines": [4, 16], "payload": 1}


def test_machines_behind_few_cards_wait_for_them_and_behind_one_for_nothing():
    own, few, one = (ask("speedup", {**SHARED, **more}) for more in ({}, {"cards": 2}, {"cards": 1}))
    assert few[1]["paceline"] > 1.5 * own[1]["paceline"] and column(ask("speedup", {**SHARED, "cards": 16}), "lower_bound") == column(own, "lower_bound")
    assert column(one, "paceline") == pytest.approx([0.037] * 2, rel=0.05) and column(one, "lower_bound") == pytest.approx([0.037] * 2)
    assert column(one, "ddp") == column(own, "ddp")
    # Four machines behind each of two cards send each other card's half of 5 MB, and the values of their own half.
    assert column(few, "lower_bound") == pytest.approx([0.1, 0.4]) and column(few, "limited_by") == ["link", "link"]
    for row in (*few, *one):
        assert row["paceline"] >= 0.99 * row["lower_bound"], row


def test_servers_apart_are_sent_everything_and_more_of_them_carry_it():
    one, two = (ask("speedup", {**SHARED, "servers": count, "machines": [1, 4]}) for count in (1, 2))
    assert one[0]["paceline"] > 0.037 + 1e-3, "one machine has a link to its server"
    assert one[0]["limited_by"] == "first layers" and one[0]["lower_bound"] > 0.037
    assert one[1]["paceline"] > 1.5 * two[1]["paceline"]
    for row in (*one, *two):
        assert row["paceline"] >= row["lower_bound"] * (1 - 1e-9), row


def test_slower_machines_sparse_gradients_and_late_pushes():
    slow = ask("speedup", {**SHARED, "speed": 0.1, "machines": [1]})
    assert column(slow, "paceline") == pytest.approx([0.37])
    dense, sparse = (ask("speedup", {**SHARED, "pushed": share}, "--schedule", "p3") for share in (1, 0.02))
    assert all(a < b for a, b in zip(column(sparse, "paceline"), column(dense, "paceline"), strict=True))
    late, soon = (ask("speedup", SHARED, "--schedule", "default", "--push", push) for push in ("at-end", "as-ready"))
    assert all(a < b for a, b in zip(column(soon, "paceline"), column(late, "paceline"), strict=True)) and late == ask("speedup", SHARED, "--schedule", "default")


WRONG = [
    ({"cards": 0}, "key 'cards' is 0"),
    ({"cards": 257}, "1 to 256"),
    ({"servers": 0}, "key 'servers' is 0"),
    ({"cards": 2, "servers": 2}, "'cards' and 'servers'"),
    ({"workers_per_machine": 0}, "key 'workers_per_machine' is 0"),
    ({"workers_per_machine": 2, "cards": 2}, "'workers_per_machine' and 'cards'"),
    ({"workers_per_machine": 2, "servers": 2}, "'workers_per_machine' and 'servers'"),
    ({"workers_per_machine": 3, "machines": [2, 86]}, "key 'machines' has 86 with 3 workers each; at most 256 workers"),
    ({"host_rate": 0}, "key 'host_rate' is 0"),
    ({"bandwidth": "1000"}, "key 'bandwidth' is \"1000\" (a string without a unit)"),
    ({"bandwidth": "10 apples"}, "key 'bandwidth': '10 apples' is not a rate: unknown unit 'apples'"),
    ({"start_up": "fast"}, "key 'start_up': 'fast' is not a time"),
    ({"speed": 0}, "'speed'"),
    ({"payload": 2}, "'payload' is 2"),
    ({"pushed": 0}, "'pushed'"),
    ({"pushed": 2}, "'pushed' is 2"),
]


def test_a_layer_without_parameters_is_computed_with_the_one_before_it():
    layers = [{"bytes": 0, "forward": 0.01, "backward": 0.02}, {"bytes": 4e6, "forward": 0.03, "backward": 0.04}, {"bytes": 2e6, "forward": 0.01, "backward": 0.01}]
    empty = {"bytes": 0, "forward": 0.005, "backward": 0.01}
    times = {"forward": 0.005, "backward": 0.01}
    split = [layers[0], empty, layers[1] | {"forward": 0.025, "backward": 0.03}, empty, layers[2], empty]
    together = [layers[0] | {key: layers[0][key] + times[key] for key in times}, layers[1], layers[2] | {key: layers[2][key] + times[key] for key in times}]
    for schedule in ("tuned", "p3", "kvstore", "default"):
        case = {"bandwidth": 50e6, "machines": [1, 2, 4]}
        a, b = (ask("speedup", case | {"layers": one}, "--schedule", schedule) for one in (split, together))
        assert column(a, "paceline") == pytest.approx(column(b, "paceline"), rel=1e-6)


@pytest.mark.parametrize(("schedule", "machines"), [("kvstore", 8), ("tuned", 5)])
def test_iterations_that_have_not_settled_are_not_told_where_they_are_below_the_bound(schedule, machines):
    layers = [(15483384, 0, 0), (1000, 0, 0.01669), (25062, 4.3e-05, 0.001187), (1214, 0.0494, 0)]
    case = {"bandwidth": 15971480, "start_up": 0.01, "payload": 1, "pushed": 0.5, "cards": 2, "machines": [machines]}
    case["layers"] = [dict(zip(("bytes", "forward", "backward"), layer, strict=True)) for layer in layers]
    (row,) = ask("speedup", case, "--schedule", schedule, *(("--push", "as-ready") if schedule == "tuned" else ()))
    assert row["paceline"] >= row["lower_bound"], row


@pytest.mark.parametrize(("more", "named"), WRONG)
def test_settings_that_cannot_be(more, named):
    refused("speedup", "--input", "-", text=json.dumps({**SPEEDUP, **more}), names=[named])


def test_amounts_may_be_texts_with_units_in_json_as_on_the_command_line():
    as_number = ask("speedup", {**SPEEDUP, "bandwidth": 1.25e9, "start_up": 2e-5})
    for rate in ("10gbit", "10gbps", "10Gbps", "1250MB/s", "10 Gb/s"):
        assert ask("speedup", {**SPEEDUP, "bandwidth": rate, "start_up": "20us"}) == as_number


SPARE = {key: value for key, value in SPEEDUP.items() if key not in ("machines", "start_up")} | {"bandwidth": "1gbit"}


def test_several_workers_share_a_machines_link_and_a_ring_passes_it_once():
    case = {**SPARE, "machines": [1, 2, 4]}
    grouped, plain = ask("speedup", {**case, "workers_per_machine": 4}), ask("speedup", case)
    ranks = ask("speedup", {**SPARE, "machines": [8, 16]})
    assert column(grouped, "ddp") == [plain[0]["ddp"], *column(ranks, "ddp")] and column(grouped, "split")[1:] == column(ranks, "split")
    assert column(grouped, "lower_bound") == column(plain, "lower_bound")  # one gradient a machine would do
    assert grouped[0]["paceline"] == plain[0]["paceline"]
    slow, slow_plain = (ask("speedup", {**case, **more, "bandwidth": 1e6}) for more in ({"workers_per_machine": 4}, {}))
    # Each of four workers sends half of its gradients to the other machine, and as many values come back.
    assert slow[1]["paceline"] == pytest.approx(4 * slow_plain[1]["paceline"], rel=0.05)
    assert slow[1]["fastest"] == "split" and slow[1]["split"] < slow[1]["ddp"] < slow[1]["paceline"] and slow[1]["limited_by"] == "link"
    assert "; the split baseline is faster: " in slow[1]["why"]


def test_a_machine_that_sends_less_than_its_link_carries_is_as_one_with_a_slower_link():
    capped = ask("speedup", {**SPARE, "bandwidth": "100gbit", "host_rate": "1gbit"})
    slower = ask("speedup", {**SPARE, "payload": 1})
    assert [{**row, "why": ""} for row in capped] == [{**row, "why": ""} for row in slower]
    assert column(capped, "rate") == [125e6] * len(capped)


def test_what_a_large_label_is_taken_for_is_said():
    large = {**SPARE, "bandwidth": "25gbit"}
    said = ask("speedup", large)[0]
    assert "every machine sends 23.9 Gb/s" in said["assumed"] and said["rate"] == pytest.approx(25e9 / 8 * 1448 / 1514)
    assert "\nassumed: every machine sends 23.9 Gb/s" in run("speedup", "--input", "-", text=json.dumps(large)).stdout
    for more in ({"bandwidth": "10gbit"}, {"host_rate": "5gbit"}, {"payload": 0.5}):
        assert ask("speedup", {**large, **more})[0]["assumed"] is None


def test_start_ups_are_named_where_they_hold_an_iteration_up_and_a_faster_rival_too():
    tiny = [{"bytes": 4000, "forward": 0.0001, "backward": 0.0002}] * 100
    case = {"bandwidth": "10gbit", "start_up": "100us", "machines": [16], "layers": tiny}
    (row,) = ask("speedup", case, "--schedule", "layer-wise")
    assert row["limited_by"] == "start-ups" and row["fastest"] == "ddp" and row["paceline"] > 1.5 * row["ddp"], row
    (free,) = ask("speedup", {**case, "start_up": 0}, "--schedule", "layer-wise")
    assert free["limited_by"] != "start-ups", free


def test_whoever_should_stay_with_one_machine_reads_what_the_others_lack():
    last = run("speedup", "--input", "-", text=json.dumps({**SPEEDUP, "bandwidth": 1e6})).stdout.splitlines()[-1]
    assert "limited by computing; 4 machines make 0." in last and "limited by link; in the mean each adds less than half of its own work" in last, last


# ---- Measured first


def test_a_network_is_measured_first_and_the_picture_drawn(tmp_path):
    picture = tmp_path / "speedup.svg"
    done = run("speedup", "--model", "mlp", "--mini-batch", "8", "--bandwidth", "1gbit", "--machines", "1,2", "--picture", str(picture), "--progress", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert column(rows, "machines") == [1, 2] and 0 < rows[0]["paceline"] <= rows[1]["paceline"] and rows[0]["measured"].startswith("mlp with 8 samples a step computes for ")
    assert "mlp, mini-batch 8" in done.stderr, "progress"
    assert "machines" in picture.read_text() and "split baseline" in picture.read_text()


def test_no_step_of_a_measurement_begins_that_would_end_too_late():
    words = [PROGRAM, "profile", "--model", "lenet", "--mini-batch", "64", "--rounds", "1000", "--bandwidth", "1gbit", "--start-up", "1us", "--json"]
    profile = json.loads(subprocess.run([*words, "--limit", "1ms"], capture_output=True, text=True, check=True).stdout)
    assert (profile["rounds"], profile["warm_up"]) == (1, 0), "the first step was the last"
    for value, named in (("0s", "above zero"), ("soon", "--limit")):
        done = subprocess.run([*words, "--limit", value], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and named in done.stderr, done.stderr


def test_ways_to_hosts_are_measured_by_ssh(tmp_path):
    with Sshd(tmp_path) as server, keep_port() as held:
        host = f"alpha:{held.getsockname()[1]}"
        ssh = ssh_command(tmp_path, {"alpha": "127.0.0.1"}, server.port)
        done = run("speedup", "--input", "resnet50", "--hosts", f"{host},{host},{host}", "--ssh", ssh, "--remote", PROGRAM, "--json")
        assert done.returncode == 0, done.stderr
        rows = json.loads(done.stdout)
        assert column(rows, "machines") == [1, 2, 3] and "the slowest of 2 directions" in rows[0]["measured"]
        assert run("speedup", "--input", "resnet50", "--hosts", host, "--ssh", ssh, "--machines", "4").stdout.splitlines()[1].startswith("4 ")
        own = run("speedup", "--input", "-", "--hosts", host, "--ssh", ssh, "--remote", PROGRAM, "--json", text=json.dumps({**SPEEDUP, "machines": [5]}))
        assert own.returncode == 0 and column(json.loads(own.stdout), "machines") == [5], own.stderr
        absent = run("speedup", "--input", "resnet50", "--hosts", host, "--ssh", ssh, "--remote", str(tmp_path / "nothing"))
        assert absent.returncode == 1 and "alpha" in absent.stderr, absent.stderr


def test_a_picture_is_of_one_case(tmp_path):
    words = ("speedup", "--input", "-", "--picture", str(tmp_path / "x.png"))
    refused(*words, text=json.dumps([SPEEDUP, SPEEDUP]), names=["is of one case, and --input has 2"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--model", "mlp", "--input", "vgg19", "--bandwidth", "1gbit"), "--model and --input"),
        (("--model", "mlp", "--layers", "[]", "--bandwidth", "1gbit"), "--model and --layers"),
        (("--model", "lenett", "--bandwidth", "1gbit"), "did you mean"),
        (("--model", "vgg19", "--bandwidth", "1gbit"), "--input vgg19"),
        (("--model", "mlp"), "--bandwidth is missing"),
        (("--mini-batch", "8", "--input", "vgg19", "--bandwidth", "1gbit"), "--mini-batch is for --model"),
        (("--hosts", "a", "--bandwidth", "1gbit", "--input", "vgg19"), "--hosts measures the bandwidth"),
        (("--ssh", "rsh", "--bandwidth", "1gbit", "--input", "vgg19"), "--ssh is for --hosts"),
        (("--hosts", "-x", "--input", "vgg19"), "is no host's name"),
        # Each would be measured first: there is no such host, and the network's first step takes seconds.
        (("--hosts", "nowhere.invalid"), "--layers is missing"),
        (("--hosts", "nowhere.invalid", "--input", "vgg19", "--machines", "0"), "'machines' has 0"),
        (("--model", "vgg-19", "--mini-batch", "512", "--bandwidth", "1gbit", "--payload", "2"), "'payload' is 2"),
        (("--model", "mlp", "--mini-batch", "0", "--bandwidth", "1gbit"), "--mini-batch is 0; legal: 1 to 1000000"),
        (("--input", "vgg19", "--bandwidth", "1gbit", "--picture", "/nowhere/x.png"), "--picture"),
    ],
)
def test_what_contradicts_itself_is_said_before_anything_is_measured(words, named):
    refused("speedup", *words, names=[named])


def test_layers_nested_without_end_are_refused(tmp_path):
    (tmp_path / "deep").write_text('{"layers":' + "[" * 200_000 + "]" * 200_000 + ',"machines":[2]}')
    done = subprocess.run([PROGRAM, "plan", "speedup", "--input", tmp_path / "deep", "--bandwidth", "1gbit"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stderr.startswith("paceline: error: "), done.stderr[:300]
