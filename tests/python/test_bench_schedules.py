"""`paceline bench schedules` on a tiny table; without the rights of a lab, that it says so."""

import contextlib
import json
import subprocess
import sys

import pytest

from jobs import Process
from test_lab import rights

LAYERS = [{"name": f"l{i}", "parameters": 400_000, "forward_s": 0.004, "backward_s": 0.008} for i in range(3)]


def bench(folder, *arguments, code=0):
    with Process("bench", "schedules", "--tables", folder, "--models", "tiny", "--rates", "2gbit", "--hosts", 2,
                 "--turns", 1, "--length", 0.1, "--output", folder / "out", "--json", *(arguments if "--contestants" in arguments else ["--contestants", "default,p3", *arguments])) as process:  # fmt: skip
        assert process.finish() == code, process.err
        return process.report() if code == 0 else process.the_error()


@contextlib.contextmanager
def a_busy_processor():
    spinner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        spinner.kill()
        spinner.wait()


def test_cells_are_run_once_and_judged_by_the_bound(tmp_path):
    (tmp_path / "tiny.json").write_text(json.dumps({"layers": LAYERS}))
    if not rights():
        assert "CAP_" in bench(tmp_path, code=2)
        return
    # The kernel counts in ticks of 10 ms; these cells alone may spend less than one.
    with a_busy_processor():
        report = bench(tmp_path, "--slices", "10000")
    rows = {row["contestant"]: row for row in report["rows"]}
    assert list(rows) == ["default", "p3", "p3 --slice 10000"] and not report["failures"]
    assert len({row["parameters_hash"] for row in rows.values()}) == 1
    cells = [json.loads(line) for line in (tmp_path / "out/cells.jsonl").read_text().splitlines()]
    assert len(cells) == 3
    for cell in cells:
        # 2(N-1)/N of 0.48 MB, which is what is left of 4.8 MB, over the measured goodput, and the computing of all layers before the tail.
        assert abs(cell["lower_bound"]["transfer"] - 480_000 / cell["goodput_bytes_per_second"]) < 1e-9
        assert abs(cell["lower_bound"]["computation"] - 0.036) < 1e-9
        # Bursts of an idle link are what may make a short run a little faster than its bound.
        assert cell["of_lower_bound"] > 0.6, cell["key"]
        assert cell["window"]["bytes_sent"] > 0 and 0 < cell["processor_share"] <= 1.05
    # A second time nothing is left to do, and with one more turn only that.
    assert bench(tmp_path, "--slices", "10000")["rows"] == report["rows"]
    assert len((tmp_path / "out/cells.jsonl").read_text().splitlines()) == 3
    (tmp_path / "out/cells.jsonl").write_text("{}\n")
    assert "line 1" in bench(tmp_path, code=2)
    # A job that cannot be is told with what it said, at once.
    (tmp_path / "out/cells.jsonl").unlink()
    problem = bench(tmp_path, "--contestants", "p3", "--job-options=--mini-batch=0", code=1)
    assert "p3" in problem and "mini-batch" in problem


def test_one_host_may_only_serve_and_links_may_send_less_after_a_pause(tmp_path):
    (tmp_path / "tiny.json").write_text(json.dumps({"layers": LAYERS}))
    assert "--hosts 2" in bench(tmp_path, "--apart", "--hosts", 3, code=2)
    assert "--apart is for jobs with servers, and ddp has none" in bench(tmp_path, "--apart", "--contestants", "ddp", code=2)
    assert "--burst" in bench(tmp_path, "--burst", "much", code=2) and "--queue" in bench(tmp_path, "--queue", "long", code=2)
    assert "a link's burst of 2.0 kB; legal: 4.0 kB to 16.0 MB" in bench(tmp_path, "--burst", "2KB", code=2)
    if not rights():
        return
    dear = "--job-options=--push=at-end,--message-start-up=1ms"
    report = bench(tmp_path, "--apart", "--burst", "8KB", "--queue", "20ms", "--contestants", "layer-wise,ibatch", dear)
    assert not report["failures"] and [row["contestant"] for row in report["rows"]] == ["layer-wise", "ibatch"]
    assert bench(tmp_path, "--contestants", "layer-wise")["rows"] != report["rows"][:1]
    cells = [json.loads(line) for line in (tmp_path / "out/cells.jsonl").read_text().splitlines()]
    assert [(cell["report"]["workers"], cell["report"]["servers"]) for cell in cells] == [(1, 1), (1, 1), (2, 2)], "cells of another experiment are others"
    for cell in cells[:2]:
        assert cell["bytes_sent"] > 2 * 480_000 * cell["iterations"], "all gradients and all values cross the link"


@pytest.mark.full
def test_peers_in_pytorch_are_cells_beside_ours(tmp_path):
    if not rights():
        return
    layers = [{**layer, "parameters": 400_010 + 10 * i} for i, layer in enumerate(LAYERS)]  # a tenth of which is odd: parts are padded
    (tmp_path / "tiny.json").write_text(json.dumps({"layers": layers}))
    contestants = ["p3", "ddp", "split", "split-clip"]
    report = bench(tmp_path, "--contestants", ",".join(contestants))
    assert not report["failures"]
    assert [row["contestant"] for row in report["rows"]] == contestants
    for cell in map(json.loads, (tmp_path / "out/cells.jsonl").read_text().splitlines()):
        if not cell["contestant"].startswith("split"):
            continue
        assert cell["report"]["iterations"] == cell["iterations"] + 4, "behind the warm-up, and its values were verified"
        # Two hosts scatter and gather all of it; an allreduce in place of the first would send half as much again.
        needed = 2 * sum(layer["parameters"] for layer in layers) / 10 * 4 * cell["report"]["iterations"]
        assert needed <= cell["bytes_sent"] < 1.4 * needed


def test_wrong_requests(tmp_path):
    (tmp_path / "tiny.json").write_text(json.dumps({"layers": LAYERS}))
    assert "p3" in bench(tmp_path, "--contestants", "p4", code=2)
    assert "40gbit" in bench(tmp_path, "--rates", "50gbit", code=2)
    assert "2 to 64" in bench(tmp_path, "--hosts", 1, code=2)
    assert "missing" in bench(tmp_path, "--models", "missing", code=2) if rights() else True
