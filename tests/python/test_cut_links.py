"""A link that is cut while checkpoints are due: whatever checkpoint is there afterwards, a job goes on from it to the bit."""

import json
import re
import subprocess

import pytest
from jobs import PROGRAM, full, train
from test_lab import lab

JOB = ("--workers", 2, "--servers", 1, "--iterations", 30, "--schedule", "layer-wise", "--optimizer", "momentum")


@pytest.fixture
def table(tmp_path):
    file = tmp_path / "table.json"
    layers = [{"name": f"layer{i}", "parameters": 20_000, "forward_s": 0.002, "backward_s": 0.004} for i in range(5)]
    file.write_text(json.dumps({"layers": layers}))
    return file


@pytest.mark.parametrize(("after", "competing"), [(2, True), full(4, False), full(7, True), full(9, True), full(13, True)])
def test_a_worker_cut_off_from_its_server_leaves_no_wrong_checkpoint(after, competing, table, tmp_path):
    model, folder, key = f"replay:{table}", tmp_path / "checkpoints", tmp_path / "job.key"
    subprocess.run([PROGRAM, "key", "new", key], check=True)
    flags = ("--model", model, *JOB, "--checkpoint", folder, "--checkpoint-every", 1)

    def member(role, rank, *more):
        words = (PROGRAM, "train", "--join", "{address:0}:4100", "--bind", "{address}", "--job-key-file", key, "--deadline", "4s", "--role", role, "--rank", rank, *more)
        return " ".join(str(word) for word in words)

    # What the worker sends to the server is lost from the moment on at which the checkpoint of iteration `after` is there.
    cut = f"while [ ! -e {folder}/{after:08d}/manifest.json ]; do sleep 0.002; done; ip route add blackhole {{address:1}}"
    hosts = (
        f"{PROGRAM} coordinator --bind {{address}} --port 4100 --workers 2 --servers 1 --job-key-file {key} --deadline 4s",
        member("server", 0),
        member("worker", 0, *flags),
        f"{member('worker', 1, *flags)} & {cut}; wait $!",
    )
    cross = ("--competing", "3:1:20mbit") if competing else ()
    commands = [word for command in hosts for word in ("--each", command)]
    ended = lab("--hosts", 4, "--rate", "50mbit", "--measure", "0s", "--limit", "80s", *cross, *commands, code=1)
    if ended is None:
        return
    assert re.search(r"paceline: error: (worker 1|server 0)\b.*The last checkpoint is", ended[1]), ended[1]
    whole = train("--model", model, *JOB)
    resumed = train("--model", model, *JOB, "--checkpoint", folder, "--resume")
    assert resumed["parameters_hash"] == whole["parameters_hash"]
