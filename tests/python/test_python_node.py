"""A job that trains through the Python package, and what a user's process does meanwhile: errors, Ctrl-C, fork."""

import array
import math
import os
import signal
import subprocess
import sys

import pytest
from binding import environment, on_threads

from paceline import PacelineError, _library_node
from paceline._node import Place, TensorSpec, Verdict

TENSORS = [TensorSpec("a.weight", (2, 2), layer=0), TensorSpec("b.bias", (), layer=1)]
SETTINGS = {"optimizer": "sgd", "learning-rate": "0.5"}


def floats(*values):
    return array.array("f", values)


def address(values):
    return values.buffer_info()[0]


def join(coordinator, rank, role="both", settings=SETTINGS):
    initial = [floats(0, 0, 0, 0), floats(1)]
    return _library_node.join(TENSORS, [address(values) for values in initial], settings, Place(role=role, rank=rank, coordinator=coordinator.address))


def train(node, iteration, *, unused=()):
    gradients = [floats(1, 2, 3, 4 + node.rank), floats(node.rank)]
    for tensor in (1, 0):
        if tensor not in unused:
            node.gradient_ready(tensor, address(gradients[tensor]))
    node.backward_done(iteration, list(unused))
    stopping = node.step_done(8, 0.5, {"forward": 0.25, "backward": 0.5})
    for layer in (0, 1):
        while not node.wait_layer(layer, iteration, 0.05):
            pass
    return stopping


@pytest.mark.parametrize("role, servers, settings", [("both", 2, SETTINGS), ("worker", 0, {**SETTINGS, "collective": "loop3-overlap"}), ("worker", 1, SETTINGS)])
def test_two_members_train_and_the_report_says_so(role, servers, settings):
    coordinator = _library_node.Coordinator(2, servers)
    server = _library_node.Server(Place(coordinator=coordinator.address)) if role == "worker" and servers else None
    values = {}

    def life(rank):
        node = join(coordinator, rank, role, settings)
        assert (node.rank, node.workers, node.first_iteration) == (rank, 2, 1)
        assert list(node.value(0)) == [0, 0, 0, 0] and list(node.value(1)) == [1]
        node.set_order([1, 0])
        for iteration in range(1, 6):
            train(node, iteration, unused=(1,) if iteration == 5 else ())
        assert node.wait_all(5, 10)
        values[rank] = list(node.value(0)), list(node.value(1))
        node.finish(60)
        node.close(1)
        node.close(1)

    assert on_threads(lambda: life(0), lambda: life(1)) == []
    assert values[0] == values[1] == ([-2.5, -5.0, -7.5, -11.25], [0.0])
    if server is not None:
        server.finish(60)
        server.close(1)
    coordinator.finish(60)
    report = coordinator.report()
    assert (report["workers"], report["servers"], report["iterations"], report["samples"]) == (2, servers, 5, 80)
    assert report["phases"]["backward"] == pytest.approx(0.5) and report["phases"]["forward"] == pytest.approx(0.25)
    coordinator.close(1)


@pytest.mark.parametrize(
    "role, servers, more",
    [("both", 2, {}), ("both", 2, {"optimizer": "adam"}), ("worker", 0, {"collective": "loop3-overlap"}), ("worker", 4, {"schedule": "kvstore"})],
)
def test_a_job_goes_on_from_a_checkpoint_though_not_every_iteration_used_every_tensor(role, servers, more, tmp_path):
    def trained(folder, iterations, **saving):
        settings = {**SETTINGS, **more, "checkpoint": str(tmp_path / folder), **saving}
        coordinator = _library_node.Coordinator(2, servers, settings=settings)
        apart = [_library_node.Server(Place(coordinator=coordinator.address, rank=rank)) for rank in range(servers if role == "worker" else 0)]
        values = {}

        def life(rank):
            tensors, initial = [*TENSORS, TensorSpec("c", (2,), layer=1, frozen=True)], [floats(0, 0, 0, 0), floats(1), floats(7, 8)]
            node = _library_node.join(tensors, [address(one) for one in initial], settings, Place(role=role, rank=rank, coordinator=coordinator.address))
            for iteration in range(node.first_iteration, iterations + 1):
                train(node, iteration, unused=(1,) if iteration in (1, 3) else ())
            assert node.wait_all(iterations, 10)
            values[rank] = [list(node.value(tensor)) for tensor in range(3)]
            node.finish(60)
            node.close(1)

        assert on_threads(lambda: life(0), lambda: life(1)) == []
        for server in apart:
            server.finish(60)
            server.close(1)
        coordinator.finish(60)
        coordinator.close(1)
        return values

    trained("stopped", 4)
    assert trained("stopped", 6, resume="1") == trained("whole", 6)
    assert trained("stopped", 6, resume="1") == trained("whole", 6, resume="1"), "nothing was left to train"


@pytest.mark.parametrize("role, servers, more", [("both", 2, {}), ("worker", 0, {"collective": "loop3-overlap"})])
def test_with_means_the_values_are_mean_gradients_and_a_verdict_follows(role, servers, more):
    coordinator = _library_node.Coordinator(2, servers)
    heard = {}

    def life(rank):
        tensors = [TensorSpec("a", (2,), layer=0), TensorSpec("b", (3,), layer=0, frozen=True), TensorSpec("c", (), layer=1)]
        initial = [floats(8, 9), floats(4, 5, 6), floats(7)]
        place = Place(role=role, rank=rank, coordinator=coordinator.address)
        node = _library_node.join(tensors, [address(values) for values in initial], {"optimizer": "mean", "verdict": "1", "non-finite": "apply", **more}, place)
        assert [list(node.value(tensor)) for tensor in range(3)] == [[8, 9], [4, 5, 6], [7]]

        def step(iteration, gradient, unused):
            bias = floats(2)
            node.gradient_ready(0, address(gradient))
            if 2 not in unused:
                node.gradient_ready(2, address(bias))
            node.backward_done(iteration, unused)
            node.step_done(1, math.nan, {})
            assert node.wait_all(iteration, 60)
            return list(node.value(0)), list(node.value(2)), node.wait_verdict(iteration, 60)

        heard[rank] = [step(1, floats(1, 2 * rank), [2]), step(2, floats(rank, 1), [2] if rank else []), step(3, floats(math.inf if rank else 1, 1), [])]
        assert list(node.value(1)) == [4, 5, 6]
        node.finish(60)
        node.close(1)

    assert on_threads(lambda: life(0), lambda: life(1)) == []
    assert repr(heard[0]) == repr(heard[1])
    first, second, third = heard[0]
    assert first == ([1, 1], [7], Verdict(2.0, None, frozenset({2})))
    assert second == ([0.5, 1], [1], Verdict(0.25 + 1 + 1, None, frozenset()))
    assert third[2].non_finite == (1, 0) and not math.isfinite(third[2].square_sum)
    coordinator.finish(60)
    coordinator.close(1)


def test_what_one_member_fails_with_all_raise():
    coordinator = _library_node.Coordinator(2, 2)
    said = {}

    def life(rank):
        node = join(coordinator, rank)
        with pytest.raises(PacelineError) as raised:
            for iteration in range(1, 1000):
                train(node, iteration)
                if rank == 1:
                    node.fail("rank 1: ValueError: no more data")
        said[rank] = raised.value
        node.close(1)

    assert on_threads(lambda: life(0), lambda: life(1)) == []
    assert {str(said[0]), str(said[1])} == {"rank 1: ValueError: no more data"}
    assert said[0].kind == "peer-lost" and said[0].exit_code == 1
    with pytest.raises(PacelineError, match="rank 1: ValueError: no more data"):
        coordinator.finish(60)
    coordinator.close(1)


def test_members_that_disagree_are_told_the_first_difference():
    coordinator = _library_node.Coordinator(2, 2)
    problems = on_threads(*(lambda rank=rank: join(coordinator, rank, settings={**SETTINGS, "momentum": str(rank / 2)}) for rank in range(2)))
    assert len(problems) == 2
    for problem in problems:
        assert isinstance(problem, PacelineError) and problem.kind == "bad-request" and problem.exit_code == 2
        assert "momentum" in str(problem)
    coordinator.close(1)


@pytest.mark.parametrize(
    "settings, words, subject",
    [({"momentun": "1"}, "did you mean 'momentum'?", "--momentun"), ({"deadline": "5"}, "needs a unit", "--deadline"), ({"momentum": "2"}, "--momentum is 2", "--momentum")],
)
def test_a_wrong_setting_is_named_before_anybody_is_asked(settings, words, subject):
    with pytest.raises(PacelineError) as raised:
        _library_node.join(TENSORS, [0, 0], settings, Place(coordinator="127.0.0.1:1"))
    assert raised.value.subject == subject and raised.value.exit_code == 2
    assert words in str(raised.value) or subject == "--deadline"


def test_a_phase_or_role_that_there_is_not_is_named():
    with pytest.raises(PacelineError, match="role 'boss'; legal: worker, both, server"):
        _library_node.join(TENSORS, [0, 0], {}, Place(role="boss", coordinator="127.0.0.1:1"))
    with pytest.raises(PacelineError, match="2 tensors, but 1 addresses"):
        _library_node.join(TENSORS, [0], {}, Place(coordinator="127.0.0.1:1"))


WAITS = """
import signal
from paceline import _library, _library_node
from paceline._node import Place, TensorSpec, Verdict
signal.signal(signal.SIGINT, signal.default_int_handler)
coordinator = _library_node.Coordinator(2, 1)
wait, told = _library.wait_joined, []
def wait_and_tell(node, seconds):
    if not told:
        told.append(print("waiting", flush=True))
    return wait(node, seconds)
_library.wait_joined = wait_and_tell
try:
    _library_node.join([TensorSpec("a", (3,))], [0], {}, Place(coordinator=coordinator.address))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_a_wait_inside_the_library():
    with subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[0] == "interrupted\n"
        assert process.returncode == 0


def test_a_forked_child_touches_nothing_of_its_parent_s():
    coordinator = _library_node.Coordinator(1, 1)
    node = join(coordinator, 0)
    train(node, 1)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            node.wait_all(1, 0)
        except PacelineError as problem:
            code = 0 if "before fork()" in str(problem) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    train(node, 2)
    node.finish(60)
    node.close(1)
    coordinator.finish(60)
    coordinator.close(1)
