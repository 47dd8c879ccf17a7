"""What goes wrong with one rank ends every other rank's script within the deadline, with an exception that names it: whole processes over libpaceline."""

import os
import signal

import pytest
from processes import Members

from jobs import full, is_running, wait_until

RANKS = 3
DEADLINE = 5  # seconds of silence
NEVER = 3600  # so that whatever is noticed was noticed by something else
TRAIN = """
import os, signal, sys, torch, nets, paceline, paceline.torch as pt
torch.set_num_threads(1)
rank = int(os.environ["RANK"])
folder = sys.argv[1]
def say(text):
    with open(f"{folder}/{rank}.new", "w") as file:
        file.write(text)
    os.rename(f"{folder}/{rank}.new", f"{folder}/{rank}")
PREPARE
model = nets.mlp()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
try:
    job = pt.attach(model, optimizer, settings={"deadline": "DEADLINEs"})
    for iteration in range(100000):
        x, y = nets.numbers(iteration, rank, (5, 4))
        loss = torch.nn.functional.cross_entropy(model(x), y)
        AT
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if iteration == 3:
            say("trains")
except paceline.PacelineError as error:
    say(f"{error.kind}: {error.message}")
    sys.exit(7)
say("done")
"""


def script(at, prepare="", deadline=DEADLINE):
    return TRAIN.replace("PREPARE", prepare).replace("AT\n", at.replace("\n", "\n        ") + "\n").replace("DEADLINE", str(deadline))


def told(members, lost):
    """All others have ended with an exception that names the lost rank."""
    others = [rank for rank in range(RANKS) if rank != lost]
    codes = members.end(*others)
    said = [members.said(rank) for rank in others]
    assert codes == [7] * len(others), (codes, said, members.errors)
    names = (f"worker {lost}", f"server {lost}", f"rank {lost}", *(["coordinator"] if lost == 0 else []))
    assert all(any(name in sentence for name in names) for sentence in said), said
    return said


def said_by(members, which, words):
    """Waits until these ranks have said it."""

    def there():
        assert all(process.poll() is None for process in members.processes), members.end()
        return all(members.said(rank) == words for rank in which)

    wait_until(words, there)


@pytest.mark.parametrize("lost", (2, full(0)))
def test_a_rank_that_is_stopped_ends_the_others_with_its_name(tmp_path, lost):
    with Members(tmp_path, script("pass"), RANKS, fresh=True) as members:
        said_by(members, range(RANKS), "trains")
        os.kill(members.processes[lost].pid, signal.SIGSTOP)
        told(members, lost)


KILLED_IN_BACKWARD = """
if rank == LOST and iteration == 5:
    model[2].register_full_backward_hook(lambda *_: os.kill(os.getpid(), signal.SIGKILL))
"""


@pytest.mark.parametrize("lost", (0, full(1)))
def test_a_rank_that_is_killed_within_backward_ends_the_others_with_its_name(tmp_path, lost):
    with Members(tmp_path, script(KILLED_IN_BACKWARD.replace("LOST", str(lost)), deadline=NEVER), RANKS) as members:
        told(members, lost)


RAISES_IN_BACKWARD = """
def refuse(*_):
    raise ValueError("no such layer\\n  of this name\\n")
if rank == 1 and iteration == 5:
    model[2].register_full_backward_hook(refuse)
"""


def test_an_exception_within_backward_is_what_all_ranks_print(tmp_path):
    with Members(tmp_path, script(RAISES_IN_BACKWARD), RANKS) as members:
        said = told(members, 1)
        assert all("rank 1: ValueError: no such layer | of this name" in sentence for sentence in said), said
        assert members.end(1) == [1] and "ValueError: no such layer" in members.errors[0], members.errors


EVALUATES = """
if rank == 1 and iteration == 5:
    say("evaluates")
    while not os.path.exists(f"{folder}/evaluated"):
        time.sleep(0.02)
"""


@pytest.mark.parametrize("way", ({}, {"collective": "loop3-overlap"}), ids=("servers", "collectives"))
def test_a_rank_that_is_late_is_named_with_the_iteration_that_waits_for_it(tmp_path, way):
    """In the others' error and in its own, which says what a script can give. That the warning does too: exchange/gatehouse_test.cc."""
    text = script(EVALUATES, "import time").replace("settings={", f"settings={{**{way}, 'stall-deadline': '3s', ")
    with Members(tmp_path, text, RANKS) as members:
        assert members.end(0, 2) == [7, 7], members.errors
        (tmp_path / "evaluated").touch()
        assert members.end(1) == [7], members.errors
        for said in (members.said(rank) for rank in range(RANKS)):
            assert "which waits for rank 1: its gradients of iteration 6 are missing" in said and 'settings={"stall-deadline": ...} of attach is 3.0 s' in said, said


ENDS_EARLY = """
if rank == 1 and iteration == 6:
    job.close()
    break
"""


@pytest.mark.parametrize("way", ({}, {"collective": "loop3-overlap"}), ids=("servers", "collectives"))
def test_a_rank_that_has_fewer_mini_batches_ends_all_with_both_numbers(tmp_path, way):
    text = script(ENDS_EARLY).replace("settings={", f"settings={{**{way}, ")
    with Members(tmp_path, text, RANKS) as members:
        assert members.end(*range(RANKS)) == [7] * RANKS, members.errors
        said = [members.said(rank) for rank in range(RANKS)]
        goes_on = ("goes on with iteration 7, but worker 1 has ended after iteration 6", "give each as many mini-batches")
        assert all(word in sentence for word in goes_on for sentence in said), said
        assert len({sentence.split(": ", 1)[1] for sentence in said}) == 1, said


@pytest.mark.parametrize("how", ("sys.exit(0)", "sys.exit(3)", "exit(3)", "raise ValueError('bad sample')"))
def test_all_other_ranks_say_the_same_of_one_that_ends_early(tmp_path, how):
    with Members(tmp_path, script(f"if rank == 1 and iteration == 6:\n    {how}", "from _sitebuiltins import Quitter\nexit = Quitter('exit', '')"), RANKS) as members:
        assert members.end(0, 2) == [7, 7], members.errors
        said = {members.said(rank) for rank in (0, 2)}
        words = "worker 1 has ended after iteration 6" if "(0)" in how else f"rank 1: {'SystemExit: 3' if '(3)' in how else 'ValueError: bad sample'}"
        assert len(said) == 1 and words in said.pop(), (members.said(0), members.said(2))


def test_a_job_that_fails_after_its_script_is_over_has_a_status_that_says_so(tmp_path):
    prepare = "import atexit\natexit.register(say, 'over')"
    with Members(tmp_path, script("if rank == 1 and iteration == 6: break", prepare), RANKS) as members:
        assert members.end(1) == [2] and members.said(1) == "over", (members.said(1), members.errors)
        assert members.errors[0].splitlines()[-1].startswith("paceline: error: ") and "has ended after iteration 6" in members.errors[0], members.errors


LOADERS = """
class Data(torch.utils.data.Dataset):
    def __len__(self): return 10**9
    def __getitem__(self, index): return index
loader = iter(torch.utils.data.DataLoader(Data(), num_workers=8, persistent_workers=True, multiprocessing_context="fork"))
"""
AFTER = """
if iteration == 0:
    exec(LOADERS, globals())
next(loader)
if rank == 1 and iteration == 5:
    say(" ".join(str(worker.pid) for worker in loader._workers))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_rank_that_is_killed_beside_the_workers_of_its_data_loader(tmp_path):
    """They hold descriptors of its connections: its peers must see its end all the same. Those of the others end with them."""
    with Members(tmp_path, script(AFTER, f"LOADERS = {LOADERS!r}", NEVER), RANKS) as members:
        told(members, 1)


FORKED = """
if rank == 1 and iteration == 5:
    child = os.fork()
    if child == 0:
        signal.pause()
    say(str(child))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_rank_that_is_killed_and_leaves_a_child_that_lives_on(tmp_path):
    """A child that has its parent's sockets would hide for as long as it lives that the parent has ended."""
    with Members(tmp_path, script(FORKED, deadline=NEVER), RANKS) as members:
        wait_until("the child is there", lambda: members.said(1).isdigit())
        child = int(members.said(1))
        try:
            told(members, 1)
            assert is_running(child)
        finally:
            os.kill(child, signal.SIGKILL)


CHILDREN = """
if rank == 0 and iteration in (3, 4, 5):
    if os.fork() == 0:
        sys.exit(iteration - 3)
    os.wait()
if iteration == 8:
    job.close()
    break
"""


def test_children_of_the_rank_that_hosts_servers_end_as_scripts_do_and_the_job_goes_on(tmp_path):
    with Members(tmp_path, script(CHILDREN, deadline=60), RANKS) as members:
        assert members.end(*range(RANKS)) == [0] * RANKS, members.errors
        assert [members.said(rank) for rank in range(RANKS)] == ["done"] * RANKS


def test_a_rank_whose_script_exits_in_the_middle(tmp_path):
    """With a status that says that something is wrong: the others are told it."""
    with Members(tmp_path, script("if rank == 1 and iteration == 5:\n    sys.exit(3)"), RANKS) as members:
        said = told(members, 1)
        assert all("rank 1: SystemExit: 3" in sentence for sentence in said), said
        assert members.end(1) == [3], members.errors


INTERRUPTED = """
if rank == 1 and iteration == 5:
    say("waits")
    signal.pause()
"""


def test_ctrl_c_in_a_gate_is_seen_though_the_mean_never_comes(tmp_path):
    """Rank 0 waits for a mean that rank 1 does not send; SIGINT ends it as it ends any script, and the others are told."""
    prepare = "signal.signal(signal.SIGINT, signal.default_int_handler)"
    with Members(tmp_path, script(INTERRUPTED, prepare), RANKS) as members:
        said_by(members, [1], "waits")
        os.kill(members.processes[0].pid, signal.SIGINT)
        codes = members.end(0, 2)
        assert codes == [-2, 7], (codes, members.errors)
        assert "KeyboardInterrupt" in members.errors[0] and "rank 0: KeyboardInterrupt" in members.said(2), members.said(2)
