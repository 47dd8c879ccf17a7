"""Processes that are killed on hosts of a lab, each with an address of its own."""

import json
import re

import pytest
from jobs import PROGRAM, full
from test_lab import lab


@pytest.mark.parametrize("lost", [1, full(2)], ids=["worker", "coordinator"])
def test_a_process_killed_on_another_host_is_named_by_all_others(tmp_path, lost):
    """With a deadline of an hour."""
    table = tmp_path / "table.json"
    table.write_text(json.dumps({"layers": [{"name": "layer", "parameters": 1000, "forward_s": 0.001, "backward_s": 0.002}]}))
    model, common = ("--model", f"replay:{table}", "--iterations", 10**6), ("--deadline", "1h", "--security", "none")
    begun = f"while ! grep -qs progress {tmp_path}/events; do sleep 0.02; done"
    member = ("train", "--join", "{address:2}:4100", "--bind", "{address}", *common)
    commands = [
        (*member, "--role", "worker", "--rank", 0, *model),
        (*member, "--role", "worker", "--rank", 1, *model),
        ("coordinator", "--bind", "{address}", "--port", 4100, "--workers", 2, "--servers", 1, "--events", *common),
        (*member, "--role", "server"),
    ]
    words = []
    for host, command in enumerate(commands):
        line = " ".join(str(word) for word in (PROGRAM, *command)) + (f" > {tmp_path}/events" if host == 2 else "")
        words += ["--each", f"{line} & {begun}; kill -9 $!; wait; exit 0" if host == lost else line]
    ended = lab("--hosts", 4, "--measure", "0s", "--limit", "60s", *words, code=1)
    if ended is None:
        return
    name = {1: "worker 1", 2: "coordinator"}[lost]
    said = re.findall(r"host (\d) \| paceline: error: (.*)", ended[1])
    assert sorted(int(host) for host, _ in said) == sorted({0, 1, 2, 3} - {lost}), ended[1]
    assert all(sentence.startswith(f"{name} (10.") and " has ended: " in sentence for _, sentence in said), said
