"""`paceline bench collectives` with small messages; without the rights of a lab, that it says so."""

import json
import re
import shutil
import subprocess
import sys

import pytest

from jobs import PROGRAM, ROOT, Process
from test_lab import rights


def bench(folder, *arguments, code=0, hosts=2):
    with Process("bench", "collectives", "--hosts", hosts, "--turns", 1, "--length", 0.01, "--no-pictures", "--output", folder / "out", "--json", *arguments) as process:  # fmt: skip
        assert process.finish() == code, process.err
        return process.report() if code == 0 else process.the_error()


@pytest.mark.full
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


@pytest.mark.full
def test_parts_and_barriers_are_verified_and_judged_too(tmp_path):
    if not rights():
        return
    contestants = ["paceline", "paceline-be", "paceline-ring", "gloo", *(["openmpi"] if shutil.which("mpirun") else [])]
    request = ["--operations", "reduce-scatter,allgather,barrier", "--sizes", "40KB", "--contestants", ",".join(contestants)]
    report = bench(tmp_path, *request)
    assert not report["failures"]
    assert len(report["rows"]) == 2 * len(contestants) + len(contestants) - 2, "a barrier has no algorithms to choose from"
    for row in report["rows"]:
        if row["operation"] == "barrier":
            assert row["bytes"] == row["bound_seconds"] == row["bus_bytes_per_second"] == 0 and row["of_bound"] is None
        else:
            assert row["bound_seconds"] == row["bytes"] / 2 / row["goodput_bytes_per_second"]  # two hosts


def test_where_a_host_is_slow_the_bound_and_the_choice_know_it(tmp_path):
    if not rights():
        return
    request = ["--rate", "400mbit,50mbit,400mbit", "--sizes", "2MB", "--contestants", "paceline,paceline-alike-lp"]
    report = bench(tmp_path, *request, "--operations", "allreduce", hosts=3)
    assert not report["failures"]
    rows = {row["contestant"]: row for row in report["rows"]}
    for row in rows.values():
        assert row["host_bytes_per_second"] == [5e7, 6.25e6, 5e7]
        assert row["bound_seconds"] == row["bytes"] / row["goodput_bytes_per_second"], "the slow host takes in and gives away all"
    assert rows["paceline"]["choice"].startswith("lp with blocks") and "rank 1 has links of" in rows["paceline"]["choice"]
    # At an end of the chain, where a slow host carries half of the load; which end, the measured rates of the two others say.
    assert re.search(r" along ranks (1 0 2|1 2 0|0 2 1|2 0 1) \(", rows["paceline"]["choice"])
    assert "along" not in rows["paceline-alike-lp"]["choice"] and rows["paceline-alike-lp"]["links"]["rates"] is None


def test_a_block_is_another_entry_of_what_sends_blocks(tmp_path):
    if not rights():
        return
    request = ["--operations", "broadcast", "--sizes", "200KB", "--contestants", "paceline-lp,paceline-mst"]
    by_block = {}
    for block in (None, "64KB"):
        report = bench(tmp_path, *request, *(["--block", block] if block else []))
        assert not report["failures"]
        by_block[block] = {row["contestant"]: row for row in report["rows"]}
    lp = by_block["64KB"]["paceline-lp"]
    assert lp["block_bytes"] == 64_000 and lp["choice"] == "lp with blocks of 64000 bytes" and "blocks of 64000 B" in lp["key"]
    assert "block_bytes" not in by_block[None]["paceline-lp"] and by_block[None]["paceline-lp"]["key"] != lp["key"]
    assert by_block["64KB"]["paceline-mst"] == by_block[None]["paceline-mst"], "it sends no blocks, so it is not run again"
    assert len((tmp_path / "out/cells.jsonl").read_text().splitlines()) == 3


def test_wrong_requests(tmp_path):
    assert "none of them is asked for" in bench(tmp_path, "--contestants", "gloo,paceline-mst", "--block", "64KB", code=2)
    assert "none of them is asked for" in bench(tmp_path, "--operations", "allgather", "--block", "64KB", code=2)
    assert "--block 6 is illegal" in bench(tmp_path, "--block", "6", code=2)
    assert "did you mean 'gloo'" in bench(tmp_path, "--contestants", "glo", code=2)
    assert "did you mean 'allgather'" in bench(tmp_path, "--operations", "allgathers", code=2)
    assert "3 rates for 2 hosts" in bench(tmp_path, "--rate", "1gbit,1gbit,1gbit", code=2)
    assert "float32" in bench(tmp_path, "--sizes", "6", code=2)
    assert "2 to 64" in bench(tmp_path, "--hosts", 1, code=2)
    assert "--rate" in bench(tmp_path, "--rate", "fast", code=2)


@pytest.mark.full
def test_losses_of_a_loop_beside_those_of_servers_are_the_same_and_run_once(tmp_path):
    if not rights():
        return
    task = "--model mlp --dataset mnist-5k --iterations 8 --mini-batch 8 --seed 1"
    command = [sys.executable, ROOT / "bench/collectives/losses.py", tmp_path, "tuned", "loop3-overlap-lp", "--paceline", PROGRAM, "--hosts", "2", "--task", task]
    first = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    cells = [json.loads(line) for line in (tmp_path / "losses.jsonl").read_text().splitlines()]
    assert [cell["contestant"] for cell in cells] == ["tuned", "loop3-overlap-lp"]
    assert all(len(cell["seconds"]) == 8 and min(cell["seconds"]) > 0 for cell in cells)
    assert cells[0]["parameters_hash"] == cells[1]["parameters_hash"] and cells[0]["loss"] == cells[1]["loss"] and cells[0]["accuracy"] == cells[1]["accuracy"], "both have the same bits"
    assert (tmp_path / "losses.png").stat().st_size > 0
    assert first.count("| not reached |") == 2, "the loss is the mean of more iterations than these"
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout == first
    assert len((tmp_path / "losses.jsonl").read_text().splitlines()) == 2
