"""What only replays have: tables that are known by a name, and messages that pay a start-up."""

import json

from jobs import Coordinator, Process, reference, train
from test_bad_input import refused
from test_replay import TABLES, table  # noqa: F401


def test_a_table_that_comes_along_is_known_by_its_name(tmp_path):
    task = ("--iterations", 1, "--scale", 1000, "--workers", 1)
    by_name, by_file = (reference("--model", f"replay:{table}", *task) for table in ("ResNet-50", TABLES / "resnet50.json"))
    assert by_name["parameters_hash"] == by_file["parameters_hash"]
    tuned = train("--model", "replay:ResNet-50", *task, "--schedule", "tuned")
    assert tuned["parameters_hash"] == by_name["parameters_hash"] and "cannot be read" not in json.dumps(tuned["schedule"]), "the coordinator knows it too"
    refused("train", "--model", "replay:resnet51", *task, names=("resnet51: cannot be opened", "such as vgg19"), folder=tmp_path)


def test_every_message_of_values_pays_its_start_up(table, tmp_path):
    task = ("--model", f"replay:{table}", "--iterations", 4, "--workers", 2)
    dear = ("--message-start-up", "20ms", "--servers", 1, "--push", "at-end")
    expected = reference(*task)
    by_layer = train(*task, *dear, "--schedule", "layer-wise")
    at_once = train(*task, *dear, "--schedule", "default")
    assert by_layer["parameters_hash"] == at_once["parameters_hash"] == expected["parameters_hash"]
    assert by_layer["seconds"] / 4 >= 5 * 0.02 and at_once["seconds"] / 4 >= 0.02, "5 layers have parameters"
    refused("train", *task, "--schedule", "tuned", *dear[:2], names=("--message-start-up", "other than tuned"), folder=tmp_path)
    refused("train", "--model", "lenet", "--schedule", "p3", *dear[:2], names=("--message-start-up", "--model replay:FILE"), folder=tmp_path)
    refused("train", *task, "--collective", "loop3", *dear[:2], names=("--message-start-up", "with servers"), folder=tmp_path)


def test_a_coordinator_by_hand_predicts_with_a_table_that_comes_along():
    with Coordinator("--workers", 1, "--servers", 1) as coordinator:
        words = ("train", "--join", coordinator.address, "--role", "both", "--model", "replay:resnet50", "--scale", 100, "--iterations", 2, "--schedule", "tuned")
        with Process(*words) as member:
            assert member.finish() == 0, member.err
        assert coordinator.finish() == 0, coordinator.err
        assert coordinator.report()["tuned"]["by"] == "prediction"
