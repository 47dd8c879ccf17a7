"""torchrun that restarts: a worker killed, or a whole node, and what comes of it. docs/engines/torchrun.md says what its user sees."""

import json
import subprocess
import sys

import pytest
from processes import passes, torchrun, variables

from jobs import keep_port

TRAIN = """
import json, os, signal, sys, torch, torch.nn as nn, torch.nn.functional as F
import paceline.torch as pt
folder, lost = sys.argv[1:]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
first, path = 0, os.path.join(folder, "checkpoint.pt")
if os.path.exists(path):
    saved = torch.load(path)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    first = saved["step"]
job = pt.attach(model, optimizer, settings={"deadline": "3s"})
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
for step in range(first, 20):
    draw = torch.Generator().manual_seed(100 * step + job.rank)
    F.cross_entropy(model(torch.randn(4, 8, generator=draw)), torch.arange(4) % 3).backward()
    optimizer.step()
    optimizer.zero_grad()
    if job.rank == 0 and step % 3 == 2:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}, path + ".new")
        os.rename(path + ".new", path)
    mortal = os.environ.get("MORTAL", str(job.rank == job.workers - 1)) == "True"
    if step == 10 and first == 0 and mortal and lost != "nothing":
        if lost == "node":
            os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
job.close()
with open(os.path.join(folder, f"{job.rank} of {job.workers}"), "w") as file:
    json.dump({"attempt": attempt, "first": first, "bits": [p.detach().double().sum().item().hex() for p in model.parameters()]}, file)
"""


@pytest.fixture
def script(tmp_path):
    file = tmp_path / "train.py"
    file.write_text(TRAIN)
    return file


def told(folder, rank, ranks):
    return json.loads((folder / f"{rank} of {ranks}").read_text())


@pytest.mark.full
def test_a_killed_worker_restarts_all_which_end_with_the_bits_of_a_job_that_lost_nobody(script, tmp_path):
    folders = {lost: tmp_path / lost for lost in ("nothing", "worker")}
    for lost, folder in folders.items():
        folder.mkdir()
        ran = torchrun(script, folder, lost, ranks=3, fresh=True, options=["--max-restarts=1"])
        assert ran.returncode == 0, ran.stderr[-3000:]
    for rank in range(3):
        ours, undisturbed = (told(folder, rank, 3) for folder in (folders["worker"], folders["nothing"]))
        assert (ours["attempt"], ours["first"]) == (1, 9) and (undisturbed["attempt"], undisturbed["first"]) == (0, 0)
        assert ours["bits"] == undisturbed["bits"]


@pytest.mark.full
def test_a_lost_node_leaves_a_smaller_job_that_goes_on_from_the_checkpoint(script, tmp_path):
    kept = keep_port()
    how = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1:2", "--nproc-per-node=1", "--max-restarts=3", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{kept.getsockname()[1]}"]
    how += ["--rdzv-id=7", "--local-addr=127.0.0.1"]
    agents = []
    for hosts in (True, False):  # the rendezvous itself: the job cannot lose the node that does
        conf = f"--rdzv-conf=is_host={str(hosts).lower()},last_call_timeout=5,keep_alive_interval=1,keep_alive_max_attempt=3"
        agents.append(subprocess.Popen([*how, conf, str(script), str(tmp_path), "node"], env=variables(MORTAL=str(not hosts)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    try:
        output = [agent.communicate(timeout=200) for agent in agents]
    finally:
        for agent in agents:
            agent.kill()
        kept.close()
    assert [agent.returncode for agent in agents] == [0, -9], output
    alone = told(tmp_path, 0, 1)
    assert alone["first"] == 9 and not (tmp_path / "0 of 2").exists()


STOPPED = """
import sys, torch, paceline.torch as pt
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
job = pt.attach(model, optimizer)
for step in range(10**6):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == 5:
        job.stop()  # on every rank; twice is once
        job.stop()
    if job.stopping:
        break
values = [p.detach().double().sum().item().hex() for p in model.parameters()]
job.close()
open(f"{sys.argv[1]}/{job.rank}", "w").write(f"{step} {values} {job.iteration}")
"""


def test_asked_to_stop_all_ranks_leave_after_the_same_iteration_and_close(tmp_path):
    passes(tmp_path, STOPPED, tmp_path, ranks=3)
    said = {(tmp_path / str(rank)).read_text() for rank in range(3)}
    assert len(said) == 1 and int(said.pop().split()[0]) >= 5
