"""Where a rank's own time goes, and which rank the others wait for."""

from paceline._errors import in_a_script
from paceline.torch.attached import summary
from paceline.torch.attached.phases import Phases
from test_front_decisions import TOLD


def ranks(*seconds, loading=()):
    """Own seconds of each rank in an iteration of 10, as the report tells them."""
    rows = [{"rank": rank, "iterations": 10, "seconds": 10 * own + 1, "waiting": 1.0, "computing": 10 * (own - dict(loading).get(rank, 0.0))} for rank, own in enumerate(seconds)]
    return summary.exchanged({**TOLD, "per_worker": rows})


def test_the_rank_that_the_others_wait_for_is_named_with_both_times():
    lines = {"iterations": 9.0, "seconds": 0.1, "computing": 0.05, "exposed": 0.05, "waited: forward": 0.05}
    complete = summary.complete({**lines, "link": 0.001}, ranks(0.05, 0.05))
    complete["link"] = 0.001
    assert summary.advice(complete, None, told=ranks(0.05, 0.1)) == "rank 1 is late: it takes 100.0 ms of its own each iteration, the others 50.0 ms, and they wait for it"
    assert summary.advice(complete, None, told=ranks(0.05, 0.05, 0.1, loading=[(2, 0.06)])).startswith("rank 2 is late: it takes 100.0 ms of its own each iteration, 60.0 ms of it loading, the others 50.0")
    waits_little = {**complete, "waited: forward": 0.0001}
    assert summary.advice(waits_little, None, told=ranks(0.1, 0.05)).startswith("rank 0 is late: ")  # which waits for nobody
    for equal in (ranks(0.05, 0.05), ranks(0.05, 0.06), ranks(0.0346, 0.0301), ranks(0.004, 0.008)):
        assert summary.advice(complete, None, told=equal) == ""
    assert summary.advice({**complete, "link": 0.06}, None, told=ranks(0.05, 0.06)).startswith("the forward pass waits 50.0 ms each iteration for means: computing takes")  # mostly the link


def test_a_ranks_own_time_is_loading_until_the_forward_pass_and_backward_from_the_loss_on():
    now, waited = [0.0], [0.0]
    phases = Phases(lambda: now[0], lambda: waited[0])

    def passes(seconds, waits=0.0):
        now[0] += seconds
        waited[0] += waits

    def iteration(load, forward, backward, after=0.0, waits=0.0):
        passes(load)
        phases.forward(begins=True)
        passes(forward + waits, waits)
        phases.forward(begins=False)
        passes(backward)
        phases.backward_ended()
        passes(after)

    iteration(80, 10, 7, after=2, waits=5)
    assert phases.taken() == {"load": 80, "forward": 10, "backward": 9}
    iteration(80, 10, 7)
    iteration(70, 11, 6)  # accumulated
    assert phases.taken() == {"load": 150, "forward": 21, "backward": 13}
    passes(3)
    phases.forward(begins=True)
    passes(4)
    phases.forward(begins=False)
    passes(1)
    phases.forward(begins=True)  # once more before the loss, as of pairs
    passes(4)
    phases.forward(begins=False)
    passes(5)
    assert phases.taken() == {"load": 3, "forward": 9, "backward": 5}
    passes(6)
    assert phases.taken() == {}  # the model's parts alone were called


def test_an_option_that_an_error_advises_is_the_setting_of_a_script():
    said = in_a_script("worker 0 waited 5000 ms for server 0 to send the value of layer 0; --stall-deadline is 5.0 s")
    assert said.endswith('of layer 0; settings={"stall-deadline": ...} of attach is 5.0 s')
    assert in_a_script("window 16KiB is smaller than two chunks") == "window 16KiB is smaller than two chunks"
