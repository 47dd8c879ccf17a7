"""`paceline options`: the table, its schema, and docs/reference/options.md beside it.

The program is the one that the environment variable PACELINE names, else build/release/bin/paceline.
"""

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path

import jsonschema
import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("PACELINE", str(ROOT / "build/release/bin/paceline"))


def output(*arguments):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def table():
    return json.loads(output("options", "--json"))


@pytest.fixture(scope="module")
def for_people(table):
    return [row for row in table if row["section"] != "processes"]


def test_every_row_says_all_that_a_reader_needs(table):
    names = [row["name"] for row in table]
    assert len(set(names)) == len(names) and {"momentum", "sync", "checkpoint", "deadline"} <= set(names)
    for row in table:
        assert set(row) == {"name", "type", "default", "legal", "choices", "from", "to", "below", "agree", "since", "section", "help"}
        assert row["legal"] and row["help"] and re.fullmatch(r"\d+\.\d+\.\d+", row["since"]), row
        assert row["agree"] in ("workers", "resume")
    by_name = {row["name"]: row for row in table}
    assert by_name["momentum"]["type"] == "number" and by_name["momentum"]["default"] == 0.9
    assert (by_name["momentum"]["from"], by_name["momentum"]["to"], by_name["momentum"]["below"]) == (0, None, 1)
    assert by_name["sync"]["choices"] == ["bsp", "asp", "ssp", "elastic-bsp"] and by_name["sync"]["agree"] == "resume"
    assert by_name["iterations"]["default"] is None and by_name["deadline"]["default"] == 10


def test_help_of_train_has_each_of_them_with_its_default(for_people):
    text = " ".join(output("train", "--help", "all").split())
    for row in for_people:
        assert f"--{row['name']} " in text, row["name"]
        assert row["help"].split()[0] in text
        if row["choices"]:
            assert ", ".join(row["choices"]) in text, row["name"]


def test_the_schema_knows_each_of_them(for_people):
    schema = json.loads(output("options", "--schema"))
    assert schema["additionalProperties"] is False and {row["name"] for row in for_people} <= set(schema["properties"])
    assert schema["properties"]["momentum"] == {
        "description": "For momentum and nesterov", "type": "number", "minimum": 0, "exclusiveMaximum": 1, "default": 0.9,
    }
    assert schema["properties"]["resume"]["type"] == "boolean" and schema["properties"]["stall-deadline"]["default"] == "600s"


def test_the_schema_takes_what_a_file_may_hold_and_refuses_what_it_may_not():
    schema = json.loads(output("options", "--schema"))
    check = jsonschema.Draft202012Validator(schema)
    file = """
        workers = 2
        servers = 0
        mini_batch = 16
        learning-rate = 0.1
        speed = [1, 2]
        json = true
        metrics = "metrics.jsonl"
        loader-threads = 2
        job-key-file = "job.key"
        """
    check.validate(tomllib.loads(file))
    for wrong in ("worker = 2", "workers = true", "mini_batch = 0", "json = 1", "help = true", 'config = "other.toml"'):
        assert not check.is_valid(tomllib.loads(wrong)), wrong


def documented():
    """Option -> (default, meaning), of the tables of docs/reference/options.md for people."""
    text = (ROOT / "docs/reference/options.md").read_text().split("\n## Of processes and of programs\n", 1)[0]
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| ([^|]*) \| (?:[^|\\]|\\.)* \| ((?:[^|\\]|\\.)*) \|", text, re.MULTILINE)
    return {name: (default.strip("` "), meaning) for name, default, meaning in rows}


def test_docs_have_each_of_them_with_its_default(for_people):
    docs = documented()
    for row in for_people:
        assert row["name"] in docs, f"docs/reference/options.md lacks --{row['name']}"
        said, meaning = docs[row["name"]]
        assert meaning.split()[0] in row["help"]
        if row["default"] is None or row["default"] is False or row["default"] == "":
            assert said in ("", "off"), row
            continue
        expected = {10: "10s", 600: "600s", 0: "0s"}[row["default"]] if row["type"] == "time" else row["default"]
        if row["type"] in ("number", "whole number"):
            said, expected = float(said), float(expected)
        assert said == expected, (row["name"], said, expected)


def test_docs_have_no_option_that_train_lacks():
    text = output("train", "--help", "all")
    for option in documented():
        assert f"--{option}" in text, option
