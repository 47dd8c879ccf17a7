"""Jobs with one misfortune each (chaos.py): no promise of docs/reliability.md is broken."""

import chaos
import pytest


@pytest.mark.parametrize(
    "jobs, modes",
    [
        (10, ("bsp", "collective")),
        pytest.param(60, ("bsp", "ssp", "asp", "elastic-bsp", "both", "collective"), marks=pytest.mark.full),
        pytest.param(12, chaos.PYTHON, marks=pytest.mark.full),
    ],
    ids=["few", "processes", "python"],
)
def test_every_misfortune_is_named_or_survived(jobs, modes):
    outcomes = chaos.run(jobs, "test", modes=modes)
    assert sum(outcome.jobs for outcome in outcomes.values()) == jobs
    assert [sentence for outcome in outcomes.values() for sentence in outcome.broken] == []
