"""`paceline plan speedup`, asked from outside."""

import json

import pytest
from test_plan_communication import ROOT, SPEEDUP, ask, refused, run


def test_more_machines_on_a_fast_link_compute_and_on_a_slow_one_wait():
    fast = ask("speedup", {**SPEEDUP, "bandwidth": 1e12, "start_up": 0})
    assert fast["speedup"] == pytest.approx([1, 2, 4], rel=0.02) and fast["worth"] == 4 and fast["limited_by"] == ["computing"] * 3
    slow = ask("speedup", {**SPEEDUP, "bandwidth": 1e6})
    assert slow["speedup"][0] == 1 and max(slow["speedup"][1:]) < 0.1 and slow["worth"] == 1 and slow["limited_by"][1:] == ["link", "link"]
    assert "more machines do not pay here" in slow["why"] and "limited by link" in slow["why"]
    alone = ask("speedup", {**SPEEDUP, "bandwidth": 1e6, "machines": [4]})
    assert alone["worth"] is None and "do not pay" in alone["why"]


@pytest.mark.parametrize("model", ["vgg19", "resnet50", "sockeye_like"])
@pytest.mark.parametrize("rate", [125e6, 1250e6])
def test_nothing_is_faster_than_the_bound_and_no_rival_that_costs_no_processor_much_faster(model, rate):
    table = json.loads((ROOT / f"bench/tables/{model}.json").read_text())
    answer = ask("speedup", {"bandwidth": rate, "machines": [1, 2, 4, 8], "layers": table["layers"]})
    for index, machines in enumerate(answer["machines"]):
        bound, own = answer["lower_bound"][index], answer["paceline"][index]
        assert bound == pytest.approx(ask("iteration", {"nodes": machines, "bandwidth": rate, "layers": table["layers"]})["lower_bound"])
        assert bound * (1 - 1e-9) <= own <= min(answer["ddp"][index], answer["split"][index]) * 1.05, (machines, answer)
        assert answer["speedup"][index] == pytest.approx(machines * answer["paceline"][0] / own)


def test_a_table_and_a_profile_are_asked_with_their_files():
    done = run("speedup", "--input", str(ROOT / "bench/tables/resnet50.json"), "--bandwidth", "1gbit", "--machines", "1,4", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["machines"] == [1, 4]
    by_name = run("speedup", "--input", "resnet50", "--bandwidth", "1gbit", "--machines", "1,4", "--json")
    assert by_name.stdout == done.stdout, by_name.stderr
    refused("speedup", "--input", "resnet5", "--bandwidth", "1gbit", names=["resnet5"])


@pytest.mark.parametrize("machines", [[], [0], [1, 257]])
def test_numbers_of_machines_that_cannot_be(machines):
    refused("speedup", "--input", "-", text=json.dumps({**SPEEDUP, "machines": machines}), names=["key 'machines'"])
    refused("speedup", "--input", "-", text=json.dumps({**SPEEDUP, "layers": [{"bytes": 4, "forward": 0, "backward": 0}]}), names=["key 'layers'", "no time"])


SHARED = {**SPEEDUP, "bandwidth": 1e8, "start_up": 0, "machines": [4, 16]}


def test_machines_behind_few_cards_wait_for_them_and_behind_one_for_nothing():
    own, few, one = (ask("speedup", {**SHARED, **more}) for more in ({}, {"cards": 2}, {"cards": 1}))
    assert few["paceline"][1] > 1.5 * own["paceline"][1] and ask("speedup", {**SHARED, "cards": 16})["lower_bound"] == own["lower_bound"]
    assert one["paceline"] == pytest.approx([0.037] * 2, rel=0.05) and one["lower_bound"] == pytest.approx([0.037] * 2) and one["ddp"] == own["ddp"]
    # Four machines behind each of two cards send each other card's half of 5 MB, and the values of their own half.
    assert few["lower_bound"] == pytest.approx([0.1, 0.4]) and few["limited_by"] == ["link", "link"]
    for answer in (few, one):
        assert all(took >= 0.99 * bound for took, bound in zip(answer["paceline"], answer["lower_bound"], strict=True)), answer


def test_servers_apart_are_sent_everything_and_more_of_them_carry_it():
    one, two = (ask("speedup", {**SHARED, "servers": count, "machines": [1, 4]}) for count in (1, 2))
    assert one["paceline"][0] > 0.037 + 1e-3, "one machine has a link to its server"
    assert one["paceline"][1] > 1.5 * two["paceline"][1]
    for answer in (one, two):
        assert all(took >= bound * (1 - 1e-9) for took, bound in zip(answer["paceline"], answer["lower_bound"], strict=True)), answer


def test_slower_machines_sparse_gradients_and_late_pushes():
    slow = ask("speedup", {**SHARED, "speed": 0.1, "machines": [1]})
    assert slow["paceline"] == pytest.approx([0.37])
    dense, sparse = (ask("speedup", {**SHARED, "pushed": share}, "--schedule", "p3") for share in (1, 0.02))
    assert all(a < b for a, b in zip(sparse["paceline"], dense["paceline"], strict=True))
    late, soon = (ask("speedup", SHARED, "--schedule", "default", "--push", push) for push in ("at-end", "as-ready"))
    assert all(a < b for a, b in zip(soon["paceline"], late["paceline"], strict=True)) and late == ask("speedup", SHARED, "--schedule", "default")


WRONG = [
    ({"cards": 0}, "key 'cards' is 0"),
    ({"cards": 257}, "1 to 256"),
    ({"servers": 0}, "key 'servers' is 0"),
    ({"cards": 2, "servers": 2}, "'cards' and 'servers'"),
    ({"speed": 0}, "'speed'"),
    ({"pushed": 0}, "'pushed'"),
    ({"pushed": 2}, "'pushed' is 2"),
]


@pytest.mark.parametrize(("more", "named"), WRONG)
def test_settings_that_cannot_be(more, named):
    refused("speedup", "--input", "-", text=json.dumps({**SPEEDUP, **more}), names=[named])
