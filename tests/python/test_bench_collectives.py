"""`paceline bench collectives` with small messages; without the rights of a lab, that it says so."""

import json
import shutil

from jobs import Process
from test_lab import rights


def bench(folder, *arguments, code=0):
    with Process("bench", "collectives", "--hosts", 2, "--turns", 1, "--length", 0.01, "--no-pictures", "--output", folder / "out", "--json", *arguments) as process:  # fmt: skip
        assert process.finish() == code, process.err
        return process.report() if code == 0 else process.the_error()


def test_entries_are_run_once_verified_and_judged_by_the_bound(tmp_path):
    contestants = ["paceline", "paceline-mst", "gloo"]
    if shutil.which("mpirun"):
        contestants.append("openmpi-pipelined")
    request = ["--sizes", "4KB,200KB", "--contestants", ",".join(contestants)]
    if not rights():
        assert "CAP_" in bench(tmp_path, *request, code=2)
        return
    report = bench(tmp_path, *request)
    assert not report["failures"]
    assert len(report["rows"]) == 3 * 2 * len(contestants)
    for row in report["rows"]:
        assert row["seconds"]["lowest"] <= row["seconds"]["median"] <= row["seconds"]["highest"]
        assert row["bound_seconds"] == row["bytes"] / row["goodput_bytes_per_second"]  # two hosts
        assert abs(row["algorithm_bytes_per_second"] * row["seconds"]["median"] - row["bytes"]) < 1e-3
        assert row["bus_bytes_per_second"] == row["algorithm_bytes_per_second"]
        assert ("choice" in row) == row["contestant"].startswith("paceline")
    mst = [row for row in report["costs"] if row["algorithm"] == "mst"]
    assert len(mst) == 6 and all(row["predicted_seconds"] > 0 for row in mst)
    # A second time nothing is left to do.
    lines = (tmp_path / "out/cells.jsonl").read_text()
    assert bench(tmp_path, *request)["rows"] == report["rows"]
    assert (tmp_path / "out/cells.jsonl").read_text() == lines


def test_wrong_requests(tmp_path):
    assert "did you mean 'gloo'" in bench(tmp_path, "--contestants", "glo", code=2)
    assert "allreduce" in bench(tmp_path, "--operations", "allgather", code=2)
    assert "float32" in bench(tmp_path, "--sizes", "6", code=2)
    assert "2 to 64" in bench(tmp_path, "--hosts", 1, code=2)
    assert "--rate" in bench(tmp_path, "--rate", "fast", code=2)
