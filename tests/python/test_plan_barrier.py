"""`paceline plan barrier`, asked from outside."""

import math
import random
from fractions import Fraction

import pytest
from plan_questions import BARRIER, ENDS, ask, refused


def sweep(rows, objective, now):
    """ZipLine as docs/algorithms.md states it."""
    events = sorted((end, p, i) for p, row in enumerate(rows) for i, end in enumerate(row, 1))
    z, best, value = {}, None, None
    for _, p, i in events:
        z[p] = i
        if len(z) < len(rows):
            continue
        ends = [Fraction(rows[q][z[q] - 1]) for q in range(len(rows))]
        latest = max(ends)
        if objective == "span":
            d = latest - min(ends)
        else:
            d = 0 if latest == now else sum(latest - end for end in ends) / (len(rows) * (latest - Fraction(now)))
        if best is None or d < value:
            best, value = [z[q] for q in range(len(rows))], d
    return best, value


def test_barrier_answers_by_hand():
    assert ask("barrier", ENDS) == {"iterations": [2, 1], "span": 1, "barrier": 4, "waiting": [0, 1], "waiting_share": 0.125}
    assert ask("barrier", BARRIER) == {"iterations": [3, 1], "span": 0, "barrier": 3, "waiting": [0, 0], "waiting_share": 0}
    answer = ask("barrier", {"last_end": [1, 4], "interval": [1, 1], "lookahead": 2})
    # now = 4; worker 0 could be at 3 by then, worker 1 at 5.
    assert answer == {"iterations": [2, 1], "span": 2, "barrier": 5, "waiting": [2, 0], "waiting_share": 1}
    assert ask("barrier", {"ends": [[1, 4], [2, 4]], "now": 2}, "--objective", "waiting-share")["iterations"] == [1, 1]


@pytest.mark.parametrize("objective", ["span", "waiting-share"])
def test_barrier_follows_the_sweep_and_no_algorithm_beats_it(objective):
    random.seed(objective)
    cases = []
    for _ in range(300):
        rows = [sorted(random.randint(0, 25) for _ in range(random.randint(1, 5))) for _ in range(random.randint(1, 4))]
        cases.append({"ends": rows})
    answers = {a: ask("barrier", cases, "--algorithm", a, "--objective", objective) for a in ("zipline", "grid-scan", "full-grid-scan", "naive")}
    key = "span" if objective == "span" else "waiting_share"
    for case, zipline, naive, grid, full in zip(cases, *(answers[a] for a in ("zipline", "naive", "grid-scan", "full-grid-scan"))):
        best, value = sweep(case["ends"], objective, 0)
        assert zipline["iterations"] == best, case
        assert math.isclose(zipline[key], value, rel_tol=1e-12, abs_tol=1e-12)
        assert math.isclose(naive[key], zipline[key], rel_tol=1e-12, abs_tol=1e-12), case
        assert zipline[key] <= full[key] + 1e-12 and full[key] <= grid[key] + 1e-12, case


def test_barrier_of_a_thousand_workers():
    random.seed(3)
    rows = [sorted(random.uniform(0, 100) for _ in range(20)) for _ in range(1000)]
    answer = ask("barrier", {"ends": rows})
    ends = [row[i - 1] for row, i in zip(rows, answer["iterations"])]
    assert answer["barrier"] == max(ends) and answer["span"] == max(ends) - min(ends)
    assert answer["waiting"] == [max(ends) - end for end in ends]


BAD_BARRIERS = [
    ({"ends": [[3, 2]]}, ["ends", "worker 0", "iteration 2"]),
    ({"ends": []}, ["ends", "no workers"]),
    ({"ends": [[1], []]}, ["ends", "worker 1"]),
    ({"ends": 3}, ["ends"]),
    ({"ends": [3]}, ["ends", "worker 0"]),
    ({"ends": [[1, "2"]]}, ["ends", "worker 0"]),
    ({"ends": [[1, None]]}, ["ends", "worker 0"]),
    ({"ends": [[1, -2]]}, ["ends"]),
    ({"ends": [[1, 2]], "lookahead": 3}, ["ends", "lookahead"]),
    ({"ends": [[1, 2]], "last_end": [0], "interval": [1]}, ["ends", "last_end"]),
    ({"ends": [[1, 2]], "now": 5}, ["now"]),
    ({**BARRIER, "lookahead": 0}, ["lookahead"]),
    ({**BARRIER, "lookahead": 1.5}, ["lookahead"]),
    ({**BARRIER, "lookahead": 2**53}, ["lookahead"]),
    ({**BARRIER, "interval": [1]}, ["interval"]),
    ({**BARRIER, "interval": [1, -1]}, ["interval"]),
    ({"last_end": [], "interval": [], "lookahead": 1}, ["last_end"]),
    ({}, ["last_end", "ends"]),
]


@pytest.mark.parametrize("case,names", BAD_BARRIERS)
def test_bad_barriers(case, names):
    refused("barrier", case, names=["case 0", *names])


def test_naive_refuses_what_would_take_for_ever_and_names_are_checked():
    refused("barrier", {"last_end": [0] * 20, "interval": [1] * 20, "lookahead": 20}, "--algorithm", "naive", names=["naive", "zipline"])
    refused("barrier", BARRIER, "--algorithm", "zip-line", names=["zipline"])
    refused("barrier", BARRIER, "--objective", "waiting_share", names=["waiting-share"])
