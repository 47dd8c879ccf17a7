"""Where ranks meet for a script's second job, and what killed jobs leave where Hydra's ranks meet."""

import os
import signal
import socket
import subprocess
from contextlib import closing

import pytest
from paceline import PacelineError, _addresses, _joining
from paceline.launch import Launch, address, process_of
from processes import LIMIT, alone, interpreter_and_variables

from jobs import keep_port

SECOND = """
import os, sys, torch, paceline, paceline.torch as pt
paceline._joining._attached = 1  # this process's first job runs at the launcher's coordinator, with the launcher's servers
torch.manual_seed(int(os.environ["PACELINE_RANK"]))
model = torch.nn.Linear(2, 1)
try:
    with pt.attach(model, optimizer := torch.optim.SGD(model.parameters(), lr=0.1), security="none") as job:
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    said = f"{job.workers} {[p.tolist() for p in model.parameters()]}"
except paceline.PacelineError as error:
    said = str(error)
open(f"{os.path.dirname(sys.argv[0])}/{os.environ['PACELINE_RANK']}", "w").write(said)
"""
# Who runs the tests in the background may have interrupts ignored, which children inherit.
WAITS = """
import signal, torch, paceline.torch as pt
signal.signal(signal.SIGINT, signal.default_int_handler)
pt.attach(model := torch.nn.Linear(2, 1), torch.optim.SGD(model.parameters(), lr=0.1))
"""
ELSEWHERE = {"PACELINE_WORKERS": "2", "PACELINE_SERVERS": "2", "PACELINE_COORDINATOR": "192.0.2.1:4100", "PACELINE_INTERFACE": "lo"}  # no address of this machine


def test_a_scripts_second_job_has_its_coordinator_at_rank_0_also_where_the_launchers_is_on_another_host(tmp_path):
    (tmp_path / "train.py").write_text(SECOND)
    with closing(keep_port()) as kept:
        met = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(kept.getsockname()[1])}
        interpreter, environment = interpreter_and_variables(False, {**ELSEWHERE, **met})
        started = [subprocess.Popen([interpreter, tmp_path / "train.py"], env={**environment, "PACELINE_RANK": str(rank)}) for rank in range(2)]
        for process in started:
            assert process.wait(LIMIT) == 0
    said = [(tmp_path / str(rank)).read_text() for rank in range(2)]
    assert said[0].startswith("2 [[[") and said[1] == said[0], said


def test_where_nothing_says_where_the_ranks_meet_for_it_rank_0_says_what_to_set(tmp_path):
    (tmp_path / "train.py").write_text(SECOND)
    assert alone(tmp_path / "train.py", PACELINE_RANK="0", **ELSEWHERE).returncode == 0
    said = (tmp_path / "0").read_text()
    assert "192.0.2.1:4101" in said and "give all ranks MASTER_ADDR, that host, and MASTER_PORT, a free port there" in said, said


@pytest.mark.parametrize("rank, said", ((1, "paceline: rank 1 waits for rank 0 at 127.0.0.1:"), (0, "paceline: rank 0 waits for the other ranks to join")))
def test_a_rank_that_waits_for_others_says_so_and_hears_an_interrupt(tmp_path, rank, said):
    (tmp_path / "train.py").write_text(WAITS)
    with closing(keep_port()) as kept:
        interpreter, environment = interpreter_and_variables(True, {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(kept.getsockname()[1])})
        with subprocess.Popen([interpreter, tmp_path / "train.py"], stderr=subprocess.PIPE, text=True, env=environment) as process:
            try:
                heard = next(line for line in process.stderr if line.startswith("paceline: rank"))
                assert heard.startswith(said), heard
                process.send_signal(signal.SIGINT)
                rest = process.communicate(timeout=LIMIT)[1]
            finally:
                process.kill()
    assert process.returncode == -signal.SIGINT and rest.rstrip().endswith("KeyboardInterrupt"), (process.returncode, rest)


def test_files_of_hydras_jobs_that_were_killed_are_removed_when_the_next_one_meets(tmp_path):
    with subprocess.Popen(["true"]) as ended:
        pass
    own, began = os.getpid(), process_of(os.getpid())[2]
    name = f"paceline-{os.getuid()}-hydra"
    stale = {f"{name}_{ended.pid}_1", f"{name}_{own}_{int(began) + 1}"}  # gone, and its number is another's now
    todays = f"{name}_{ended.pid}_2"
    kept = {f"{name}_{own}_{began}", f"paceline-{os.getuid()}-90695_2705", f"paceline-{os.getuid() + 1}-hydra_{ended.pid}_1", f"{name}_x_y", f"{name}_1"}
    for file in stale | kept | {todays}:
        (tmp_path / file).write_text("")
        os.utime(tmp_path / file, None if file == todays else (0, 0))
    _joining.store_of(Launch("Hydra", 0, 2, store=str(tmp_path / "store")), "a job").set("told", "yes")
    assert {path.name for path in tmp_path.iterdir()} == kept | {todays, "store"}


def test_ranks_do_not_meet_in_a_file_that_is_somebody_elses(tmp_path):
    theirs, link = tmp_path / "theirs", tmp_path / "link"
    theirs.write_text("")
    os.chown(theirs, os.getuid() + 1, -1)
    link.symlink_to(tmp_path / "own")
    for file, said in ((theirs, "is another user's"), (link, "cannot be opened")):
        with pytest.raises(PacelineError, match=f"{file}, where the ranks meet, {said}"):
            _joining.store_of(Launch("Hydra", 0, 2, store=str(file)), "a job")
    assert not (tmp_path / "own").exists()


def test_a_port_is_kept_for_who_listens_there_in_a_moment():
    with _addresses.reserved_port("127.0.0.1") as port:
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(("127.0.0.1", port))
        with socket.socket() as ours:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            ours.bind(("127.0.0.1", port))
            ours.listen()
    assert (address("10.0.0.1", port), address("fd00::5", 4100)) == (f"10.0.0.1:{port}", "[fd00::5]:4100")
