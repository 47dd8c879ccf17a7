"""`paceline bench prediction`: small jobs and a small cluster; without the rights of a lab, that it says so."""

import json

import pytest
from jobs import Process
from test_lab import rights


def bench(*arguments, code=0):
    with Process("bench", "prediction", *arguments, "--json") as process:
        assert process.finish() == code, process.err
        return process.report() if code == 0 else process.the_error()


def test_a_job_is_predicted_replayed_once_and_set_beside_its_prediction(tmp_path):
    arguments = ("--parts", "replays", "--jobs", 2, "--turns", 1, "--length", 0.5, "--output", tmp_path / "out")
    if not rights():
        assert "CAP_" in bench(*arguments, code=2)
        return
    report = bench(*arguments)
    assert report["scale"] is None and not report["failures"] and report["summary"]["jobs"] == 2
    for row in report["rows"]:
        assert row["ratio"]["median"] == pytest.approx(row["measured_seconds"]["median"] / row["predicted_seconds"]["median"])
    cells = [json.loads(line) for line in (tmp_path / "out/cells.jsonl").read_text().splitlines()]
    assert [cell["seed"] for cell in cells] == [1, 2] and all(cell["report"]["workers"] == cell["hosts"] for cell in cells)
    assert bench(*arguments)["rows"] == report["rows"]  # which are not run again


def test_many_nodes_are_stepped_with_every_model(tmp_path):
    table = {"layers": [{"name": "a", "parameters": 400_000, "forward_s": 0.01, "backward_s": 0.02}]}
    (tmp_path / "small.json").write_text(json.dumps(table))
    for sync in ("bsp", "asp", "ssp", "elastic-bsp"):
        scale = bench("--parts", "scale", "--tables", tmp_path, "--model", "small", "--workers", 40, "--servers", 3, "--sync", sync)["scale"]
        assert (scale["workers"], scale["servers"], scale["sync"]) == (40, 3, sync)
        assert scale["predicted_seconds"] > 0.03 and scale["peak_bytes"] > 0


@pytest.mark.parametrize(
    "arguments, names",
    [
        (["--parts", "reply"], ["--parts", "reply", "replays"]),
        (["--parts", "scale", "--jobs", "3"], ["--jobs is for --parts replays; give replays, or leave --jobs out"]),
        (["--parts", "replays", "--servers", "3"], ["--servers is for --parts scale"]),
        (["--parts", "scale", "--sync", "bps"], ["bps", "bsp"]),
        (["--parts", "scale", "--model", "nothing"], ["nothing.json"]),
        (["--jobs", 0], ["--jobs"]),
    ],
)
def test_wrong_requests(arguments, names):
    error = bench(*arguments, code=2)
    for name in names:
        assert name in error
