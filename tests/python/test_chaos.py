"""Jobs with one misfortune each (chaos.py): no promise of docs/reliability.md is broken."""

import chaos
import pytest
from test_lab import rights


@pytest.mark.parametrize(
    "jobs, modes, more",
    [
        (10, ("bsp", "collective"), {"faults": chaos.ON_ONE_MACHINE}),
        pytest.param(60, ("bsp", "ssp", "asp", "elastic-bsp", "both", "collective"), {"faults": chaos.ON_ONE_MACHINE}, marks=pytest.mark.full),
        pytest.param(12, chaos.PYTHON, {}, marks=pytest.mark.full),
        pytest.param(8, ("bsp",), {"faults": ("cut-off",)}, marks=pytest.mark.full),
        pytest.param(6, ("bsp", "collective", "attach"), {"faults": ("kill",), "hosts": lambda: chaos.Hosts(chaos.MOST_PROCESSES)}, marks=pytest.mark.full),
    ],
    ids=["few", "processes", "python", "cut-off", "hosts"],
)
def test_every_misfortune_is_named_or_survived(jobs, modes, more):
    if ("hosts" in more or "cut-off" in more.get("faults", ())) and not rights():
        return  # test_lab holds how that is refused
    outcomes = chaos.run(jobs, "test", modes=modes, **more)
    assert sum(outcome.jobs for outcome in outcomes.values()) == jobs
    assert [sentence for outcome in outcomes.values() for sentence in outcome.broken] == []
