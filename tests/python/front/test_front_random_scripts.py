"""Loops drawn from a seed, in which one rank does something else: each ends with an error that names a rank, or with equal parameters; without that, well."""

import json
import re

import pytest
from processes import torchrun
from random_scripts import DIFFERENCES, Script

from jobs import full

HERE = __file__.rpartition("/")[0]


def run(folder, ranks, first, last, how):
    """By seed, how it has ended: [(well, bits or sentence)] of the ranks."""
    ran = torchrun(f"{HERE}/random_scripts.py", folder, f"{first}-{last}", how, ranks=ranks, limit=1200)
    assert ran.returncode == 0, ran.stderr[-3000:]
    lines = [[json.loads(line) for line in (folder / str(rank)).read_text().splitlines()] for rank in range(ranks)]
    assert all([seed for seed, *_ in ends] == list(range(first, last)) for ends in lines), "a script has not ended"
    return {first + at: [tuple(rest) for _, *rest in ends] for at, ends in enumerate(zip(*lines))}


def names_a_rank(sentence):
    return re.search(r"\b(rank|ranks|worker|workers) \d", sentence) is not None


SEEDS = ((2, 0, 24), full(2, 100, 200), full(3, 200, 300))


@pytest.mark.parametrize("ranks, first, last", SEEDS)
def test_no_rank_parts_in_silence(tmp_path, ranks, first, last):
    named = 0
    for seed, ends in run(tmp_path, ranks, first, last, "odd").items():
        script = Script(seed, ranks)
        what = f"seed {seed}, rank {script.rank} at {script.at}, {script.difference}: {ends}"
        if all(well for well, _ in ends):
            assert len({bits for _, bits in ends}) == 1, f"parted in silence: {what}"
        else:
            assert not any(well for well, _ in ends), f"only some ranks heard: {what}"
            assert all(names_a_rank(sentence) for rank, (_, sentence) in enumerate(ends) if rank != script.rank), what  # its own refusal need not
            named += 1
    assert named > (last - first) / 2, "most differences matter"


@pytest.mark.parametrize("ranks, first, last", SEEDS)
def test_nobody_is_blamed_where_no_rank_differs(tmp_path, ranks, first, last):
    for seed, ends in run(tmp_path, ranks, first, last, "even").items():
        assert all(well for well, _ in ends), f"seed {seed}: {ends}"
        assert len({bits for _, bits in ends}) == 1, f"seed {seed}"


def test_the_seeds_of_every_run_draw_most_differences():
    assert len({Script(seed, 2).difference for seed in range(24)}) > len(DIFFERENCES) / 2
