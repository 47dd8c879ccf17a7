"""A way over which small packets pass and large ones are lost, as where a tunnel has a smaller MTU and nobody hears of it."""

import json

from jobs import Coordinator
from relay import Relay
from test_strangers import Together, member

LARGE = 900  # bytes that come at once


def test_a_worker_whose_large_packets_do_not_reach_the_coordinator_says_so_within_the_deadline(tmp_path):
    """What it recorded for --trace is one. Its connections come back each time, and heartbeats pass."""
    table = tmp_path / "table.json"
    table.write_text(json.dumps({"layers": [{"name": "layer", "parameters": 1000, "forward_s": 0.001, "backward_s": 0.002}]}))
    large, stuck = [], set()  # large packets so far, and connections: what follows a packet that is lost waits for it

    def lose(number, _, data):
        large.extend([number] if len(data) > LARGE else [])
        stuck.update([number] if len(data) > LARGE and len(large) > 1 else [])  # by the first one it joins
        return b"" if number in stuck else data

    common = ("--model", f"replay:{table}", "--iterations", 20, "--collective", "loop3", "--deadline", "3s", "--stall-deadline", "1h")
    with Together() as together:
        coordinator = together.add(Coordinator("--workers", 2, "--servers", 0, "--deadline", "3s", "--trace", tmp_path / "trace.json"))
        with Relay(coordinator.address_pair()[1], lose) as relay:
            near, far = (together.add(member(to, "worker", "--rank", rank, *common)) for rank, to in enumerate((coordinator, relay)))
            assert far.finish() == 1 and len(stuck) > 1, far.err
            said = far.the_error()
            assert "coordinator (127.0.0.1:" in said and "small packets pass, large ones do not: look at the MTU" in said, said
            assert near.finish() == 1 and coordinator.finish() == 1, (near.err, coordinator.err)
            assert "worker 1" in near.the_error() and "worker 1" in coordinator.the_error(), (near.err, coordinator.err)
