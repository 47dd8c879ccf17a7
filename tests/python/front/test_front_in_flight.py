"""What an operation in flight holds, and for how long: a request that is held keeps its group open, and the other ranks waiting."""

import queue
import threading
import weakref

import pytest
from paceline import PacelineError
from paceline.torch.backend.in_flight import InFlight
from processes import alone


class Request:
    def __init__(self, ended=None):
        self.ended = ended

    def wait(self, seconds):
        return True

    def __del__(self):
        if self.ended is not None:
            assert self.ended.wait(60)  # as the library's, whose arrays are in use


def disagree():
    raise PacelineError("ranks 0 and 1 disagree")


def test_who_hears_of_an_error_waits_for_no_other_request_and_holds_none():
    ended = threading.Event()
    over, moving = Request(), Request(ended)
    was = weakref.ref(over)
    pending = InFlight(over, disagree).then(moving)
    del over, moving
    for _ in range(2):
        with pytest.raises(PacelineError) as error:
            pending.wait()
        assert pending.over and was() is None, error
    ended.set()


def test_a_request_that_is_over_is_let_go_of_though_its_operation_is_kept():
    request = Request()
    was = weakref.ref(request)
    said = []
    pending = InFlight(request, lambda: said.append("done"))
    del request
    assert pending.wait() and said == ["done"] and was() is None
    assert pending.wait() and pending.poll() and said == ["done"]


class Unending:
    """Whose end comes with that of what holds it, on a thread that is noted."""

    def __init__(self, gone):
        self.gone = gone

    def wait(self, seconds):
        return False

    def __del__(self):
        self.gone.put(threading.current_thread())


def test_who_has_waited_in_vain_and_lets_go_does_not_wait_for_the_rest():
    gone = queue.SimpleQueue()
    pending = InFlight(Unending(gone))
    assert not pending.wait(0.01) and not pending.poll()
    del pending
    assert gone.get(timeout=60) is not threading.current_thread()


HELD = """
from paceline.torch.backend.in_flight import InFlight
class Unending:
    def wait(self, seconds):
        return False
pending = InFlight(Unending())
assert not pending.wait(0.01)
"""


def test_a_script_ends_that_holds_what_it_has_waited_for_in_vain(tmp_path):
    (tmp_path / "script.py").write_text(HELD)
    ended = alone(tmp_path / "script.py", limit=60, fresh=True)
    assert ended.returncode == 0, ended.stderr
