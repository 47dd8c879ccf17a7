"""The verdicts of `paceline bench figures`, from answers that are made up: each can be reproduced, and each can differ."""

import json
import sys

import pytest
from jobs import ROOT

sys.path.insert(0, str(ROOT / "bench/figures"))

import elastic_bsp
import htc
import ibatch
import ibatch_live
import linear_pipeline
import p3


def machines(points, seconds=None):
    return [{"machines": count, "speedup": speedup, "paceline": (seconds or points)[count]} for count, speedup in points.items()]


def scale(**changed):
    answers = {}
    for (network, way), cell in ibatch.SCALE.items():
        paper = ibatch.NETWORKS[network][2].get(way, 30)
        answers[cell.name] = machines({30: paper, 72: ibatch.AT_72.get(way, 72), **changed.get(way, {})})
    return answers


def test_ibatchs_numbers_give_its_figure_and_others_name_what_is_off():
    same = ibatch.read_scale(scale())
    assert same.verdict == "reproduced" and ("VGG19-22K, 72 nodes: iBatch over the default", "+73 %", "+73 %") in same.rows
    assert [row[2] for row in same.rows if row[0] == "VGG-19, 30 nodes, default"] == ["23.0x, fitted"]
    slower = ibatch.read_scale(scale(ibatch={30: 20}))
    assert slower.verdict == "differs" and "iBatch of VGG-19" in slower.sentence
    assert ibatch.read_scale(scale(default={30: 1})).verdict == "reproduced", "what is fitted is no success"
    assert ibatch.read_scale(scale(ibatch={72: 30})).verdict == "differs"


def live(**of):
    """Seconds of pulls, by contestant, where a network and a start-up do not matter; `foreseen`: of the exact plan."""
    def row(contestant, pull):
        median = 0.3 + 0.2 + 0.1 + pull  # backward, pushes, forward
        return {"contestant": contestant, "iteration_seconds": {"median": median, "lowest": median - 0.001, "highest": median + 0.001}, "phases": {"backward": 0.3}, "batching": {"makespan": of["foreseen"]}}

    runs = [{"lower_bound": {"transfer": 0.2}}]
    answers = {cell.name: {"cells": runs, "rows": [row(name, of[name]) for name in ("default", "layer-wise", "ibatch")]} for cell in ibatch_live.PLANNED.values()}
    return answers | {cell.name: {"cells": runs, "rows": [row("ibatch", of["greedy"])]} for cell in ibatch_live.GREEDY.values()}


def test_live_plans_are_to_gain_where_start_ups_are_dear_and_to_lose_nowhere():
    # 58 start-ups of 5 ms are 0.29 s of GoogLeNet's 0.5 s, layer by layer.
    costs = {"default": 0.3, "layer-wise": 0.4, "ibatch": 0.15, "greedy": 0.2, "foreseen": 0.26}
    reading = ibatch_live.read(live(**costs))
    every = {cell.name for of in (ibatch_live.PLANNED, ibatch_live.GREEDY) for cell in of.values()}
    assert not reading.again and ibatch_live.read(live(**costs | {"default": 0.148})).again == every, "1.008 lies within three spreads of 1.03"
    assert reading.verdict == "better" and reading.rows[-1][2] == "4 % off" and "GoogLeNet 0.50" in reading.rows[-4][2], reading.rows
    assert ibatch_live.read(live(**costs | {"greedy": 0.1})).verdict == "reproduced", "the greedy is ahead"
    assert ibatch_live.read(live(**costs | {"default": 0.14})).verdict == "differs", "3 % over the default"
    assert ibatch_live.read(live(**costs | {"ibatch": 0.21})).verdict == "differs", "too small a gain over layer by layer"
    assert ibatch_live.read(live(**costs | {"layer-wise": 1.5})).verdict == "differs", "start-ups are dear nowhere"


def test_what_does_not_overlap_is_communication_or_computation_alone():
    answers = {}
    for (network, way), cell in ibatch.TIMED.items():
        transfer, forward = ibatch.profile_of(network)
        batches = {"default": 1, "layer-wise": len(forward), "ibatch": 2}[way]
        whole = batches * ibatch.PULL_START_UP + sum(transfer) + sum(forward)
        answers[cell.name] = {"bounds": [0] * batches, "makespan": whole - (0 if way == "default" else 0.5 * sum(forward))}
    reading = ibatch.read_time(answers)
    assert reading.verdict == "reproduced"
    parts = [[float(part) for part in row[2].split(", ")] for row in reading.rows]
    assert all(one[0] == 0 for one in parts[::3]) and all(one[0] == pytest.approx(one[2], abs=0.011) for one in parts[1::3]), reading.rows
    answers[ibatch.TIMED["vgg19", "default"].name]["makespan"] -= 1
    assert ibatch.read_time(answers).verdict == "differs"


def ledger(idle_steps):
    """A link of 100 bytes/s that is idle in so many of 100 steps, by contestant."""
    rows = []
    for contestant, idle in idle_steps.items():
        traffic = [0.0] * idle + [1.0] * (100 - idle)
        host = {"seconds": [0.01 * step for step in range(100)], "sent": traffic, "received": traffic}
        rows += [{"model": model, "contestant": contestant, "stands_for_bits_per_second": 4e9, "link_bytes_per_second": 100.0, "host_0": host} for model in p3.SHOWN]
    return {f"p3-bandwidth-{model}": {"cells": rows} for model in p3.SHOWN}


def test_the_links_idle_time_decides_between_p3_and_the_baseline():
    read = p3.read_traffic(p3.OURS)
    less = read(ledger({p3.BASELINE: 50, p3.OURS: 20}))
    assert less.verdict == "reproduced" and less.rows[0][2] == "49 %" and less.rows[1][2] == "19 %"
    assert read(ledger({p3.BASELINE: 20, p3.OURS: 50})).verdict == "differs"
    assert "too short" in read(ledger({p3.BASELINE: 20})).sentence


@pytest.mark.parametrize(("dense", "sparse", "verdict"), [(0.97, 0.966, "reproduced"), (0.95, 0.97, "differs")])
def test_accuracy_of_p3_against_compression(dense, sparse, verdict):
    answers = {cell.name: {"accuracy": {"p3": dense, "dgc": sparse}[wire], "evaluations": [{"iteration": 31, "accuracy": 0.5, "seconds": 1.0}]} for (_, wire, _), cell in p3.TRAINED.items()}
    assert p3.read_training(answers).verdict == verdict


@pytest.mark.parametrize(("later", "verdict"), [(1.0, "reproduced"), (1.6, "differs")])
def test_speedups_of_the_lemma_and_of_jobs(later, verdict):
    answers = {}
    for cell in htc.ACTUAL.values():
        seconds = {count: 1 + 0.1 * count * (later if count > 1 else 1) + (later - 1) for count in htc.MACHINES}
        seconds[1] = 1.1
        answers[cell.name] = [{**row, "lower_bound": 1.0} for row in machines({count: 1.0 for count in htc.MACHINES}, seconds)]
    assert htc.read_actual(answers).verdict == verdict


def test_a_mini_batch_that_memory_makes_slower_is_seen():
    def candidates(rates):
        return {"candidates": [{"mini_batch": size, "feasible": rate > 0, "samples_per_second": rate or None} for size, rate in rates.items()]}

    answers = {cell.name: candidates({8: 100.0, 16: 150.0}) for cell in htc.PLANNED.values()}
    assert htc.read_memory(answers).verdict == "differs"
    answers[htc.PLANNED["148MB"].name] = candidates({8: 100.0, 16: 0})
    assert htc.read_memory(answers).verdict == "differs", "it is refused, and not slower"
    answers[htc.PLANNED["160MB"].name] = candidates({8: 100.0, 16: 120.0})
    reading = htc.read_memory(answers)
    assert reading.verdict == "reproduced" and any("16: 120 (slower algorithms)" in row[2] for row in reading.rows)


@pytest.mark.parametrize(("seconds", "accuracy", "verdict"), [(10.0, 0.96, "reproduced"), (19.0, 0.96, "differs"), (10.0, 0.9, "differs")])
def test_curves_of_loops(seconds, accuracy, verdict):
    def job(took, reached):
        return {"loss_last": 0.1, "accuracy": reached, "evaluations": [{"iteration": 31, "seconds": took, "accuracy": reached}]}

    answers = {cell.name: job(20.0, 0.96) for cell in linear_pipeline.LEARNT.values()}
    answers[linear_pipeline.LEARNT["loop3-overlap-lp"].name] = job(seconds, accuracy)
    assert linear_pipeline.read_curves(answers).verdict == verdict


@pytest.mark.parametrize(("power", "verdict"), [(1, "reproduced"), (3, "differs")])
def test_growth_of_the_searches(power, verdict):
    def runs(seconds):
        return {"median": seconds, "lowest": seconds, "highest": seconds}

    times = [{"algorithm": name, "workers": n, "lookahead": r, "seconds": runs(1e-9 * r * n**power), "paper_seconds": None} for name in ("zipline", "grid-scan", "full-grid-scan") for n in (10, 100, 1000) for r in (15, 150)]
    reading = elastic_bsp.read_growth({elastic_bsp.PREDICTION.name: {"prediction": times}})
    assert reading.verdict == verdict and ("ZipLine: exponent of R, median of 3 pairs", "1", "1.00") in reading.rows


@pytest.mark.parametrize(("seconds", "accuracy", "verdict"), [(20.0, 0.95, "reproduced"), (40.0, 0.95, "differs"), (20.0, 0.8, "differs")])
def test_time_to_an_accuracy(seconds, accuracy, verdict):
    def job(took, reached):
        return {"accuracy": reached, "seconds": took, "evaluations": [{"iteration": 10, "seconds": took, "accuracy": reached}]}

    answers = {cell.name: job(60.0, 0.5) for cell in elastic_bsp.SWEEPS["resnet-20"].values()}
    answers[elastic_bsp.SWEEPS["resnet-20"]["bsp", "0.1"].name] = job(30.0, 0.95)
    answers[elastic_bsp.SWEEPS["resnet-20"]["elastic-bsp, R = 30", "0.2"].name] = job(seconds, accuracy)
    reading = elastic_bsp.read_sweep("resnet-20", "made up")(answers)
    assert reading.verdict == verdict and reading.rows[0][0].startswith("bsp: ") and reading.rows[0][2].startswith("0.1, ")


def hosts(gain, spread=0.0):
    def row(contestant, count, seconds):
        return {"contestant": contestant, "hosts": count, "iteration_seconds": {"median": seconds, "lowest": seconds * (1 - spread), "highest": seconds * (1 + spread)}}

    rows = [row(name, count, seconds) for count in (2, 8) for name, seconds in ((p3.OURS, 1.0), (p3.BASELINE, 1 + gain))]
    return {"p3-hosts": {"rows": rows}}


@pytest.mark.parametrize(("gain", "spread", "verdict", "again"), [(0.61, 0.01, "reproduced", 0), (0.61, 0.1, "reproduced", 1), (0.31, 0.01, "reproduced", 1), (0.2, 0.0, "differs", 0), (0.95, 0.02, "better", 1)])
def test_a_verdict_within_three_spreads_of_its_limit_is_to_be_run_twice(gain, spread, verdict, again):
    reading = p3.read_hosts(hosts(gain, spread))
    assert (reading.verdict, reading.again) == (verdict, {"p3-hosts"} if again else set())


def test_only_the_network_near_its_limit_is_run_twice():
    def rows(model, gain):
        of = {p3.OURS: 1.0, p3.SLICING: 1.0, p3.BASELINE: 1 + gain}
        runs = {name: {"median": seconds, "lowest": seconds * 0.99, "highest": seconds * 1.01} for name, seconds in of.items()}
        return [{"contestant": name, "model": model, "stands_for_bits_per_second": 4e9, "iteration_seconds": spread} for name, spread in runs.items()]

    answers = {f"p3-bandwidth-{model}": {"rows": rows(model, gain)} for model, gain in {**p3.GAIN, "inception_v3": 0.25}.items()}
    assert p3.read_bandwidth(answers).again == {"p3-bandwidth-inception_v3"}, "1.25 is near 1.27, and the others are far from theirs"
