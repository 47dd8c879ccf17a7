"""Who a process is, from the variables of every launcher; and the meeting of ranks in torch's stores."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import warnings
from contextlib import closing

import pytest
from paceline import PacelineError, _addresses, _joining
from paceline.launch import Launch, check_alone, derived_port, first_host, launched
from processes import LIMIT, alone, variables

from jobs import keep_port, wait_until

HERE = pathlib.Path(__file__).resolve().parent
TORCHRUN = {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "node1", "MASTER_PORT": "29500", "TORCHELASTIC_RESTART_COUNT": "2"}
MPIRUN = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": "90695.2705"}
SRUN = {"SLURM_PROCID": "2", "SLURM_NTASKS": "3", "SLURM_JOB_NODELIST": "gpu[07-09]", "SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "1"}
HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2"}
OURS = {"PACELINE_RANK": "1", "PACELINE_WORKERS": "2", "PACELINE_COORDINATOR": "10.0.0.1:4100"}


def test_each_launcher_is_understood():
    assert launched({}) == Launch("nobody", 0, 1)
    assert launched({"RANK": "1"}) == Launch("nobody", 0, 1)
    assert launched(TORCHRUN) == Launch("torchrun", 1, 4, store="node1:29500", attempt="2")
    assert launched({**TORCHRUN, "LOCAL_WORLD_SIZE": "2"}).one_machine is False
    mpirun = launched(MPIRUN)
    assert (mpirun.launcher, mpirun.rank, mpirun.workers, mpirun.one_machine) == ("mpirun", 0, 2, True)
    assert mpirun.store.endswith(f"paceline-{os.getuid()}-90695_2705")
    assert launched({**MPIRUN, "MASTER_ADDR": "node1", "MASTER_PORT": "1"}).store == "node1:1"
    srun = launched(SRUN)
    assert (srun.rank, srun.workers, srun.one_machine, srun.store) == (2, 3, False, f"gpu07:{derived_port('slurm 4711 1')}")
    assert launched({**SRUN, "SLURM_STEP_NODELIST": "gpu08", "SLURM_STEP_RESV_PORTS": "13001-13004", "SLURM_RESTART_COUNT": "1"}) == Launch(
        "srun", 2, 3, store="127.0.0.1:13001", attempt="1"
    )
    assert launched({**HYDRA, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}) == Launch("Hydra", 1, 2, store="127.0.0.1:29500")
    assert launched({**SRUN, "PMI_RANK": "2", "PMI_SIZE": "3", "PMI_JOBID": "4711.1"}) == launched(SRUN)  # srun --mpi=pmi2
    assert launched(OURS) == Launch("Paceline", 1, 2, coordinator="10.0.0.1:4100", one_machine=False)
    started = launched({**OURS, "PACELINE_SERVERS": "1"})
    assert started == Launch("Paceline", 1, 2, coordinator="10.0.0.1:4100", one_machine=False, servers=1)
    assert started.sentence() == "rank 1 of 2, started by Paceline; coordinator 10.0.0.1:4100 and 1 server, which run already"
    here = {**OURS, "PACELINE_SERVERS": "1", "PACELINE_STORE": "/tmp/paceline-x/store"}  # of `paceline run` on one machine
    assert launched(here) == Launch("Paceline", 1, 2, coordinator="10.0.0.1:4100", store="/tmp/paceline-x/store", servers=1)
    assert launched({**TORCHRUN, "PACELINE_SERVERS": "1"}).servers is None  # of a job around this one
    assert launched({**TORCHRUN, "PACELINE_STORE": "/tmp/paceline-x/store"}) == launched(TORCHRUN)
    beside = launched({**SRUN, "PACELINE_COORDINATOR": "n0:4100", "PACELINE_SERVERS": "2"})
    assert (beside.servers, beside.coordinator, beside.store) == (2, "n0:4100", srun.store)


@pytest.mark.parametrize("bind", ("0.0.0.0", "::", "[::]"))
def test_rank_0_tells_ranks_of_other_machines_no_address_that_leads_each_to_itself(bind):
    with pytest.raises(PacelineError, match="names no host that the other ranks can connect to") as refused:
        _joining.check_told(bind, Launch("srun", 0, 2, one_machine=False))
    assert (refused.value.kind, refused.value.code) == ("bad-request", "address")
    _joining.check_told(bind, Launch("srun", 0, 2))
    _joining.check_told("10.0.0.1", Launch("srun", 0, 2, one_machine=False))
    _joining.check_told("node1", Launch("srun", 0, 2, one_machine=False))


def test_the_innermost_launcher_counts_and_a_named_coordinator_wins():
    node = {**SRUN, "SLURM_PROCID": "1", "SLURM_NTASKS": "2"}  # one task on each of two nodes, and in it what starts the ranks there
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert launched({**node, **MPIRUN, "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}).launcher == "mpirun"
        assert launched({**node, **TORCHRUN, "GROUP_WORLD_SIZE": "2"}).launcher == "torchrun"
        assert launched({**node, **TORCHRUN, "GROUP_WORLD_SIZE": "2", "WORLD_SIZE": "2", "RANK": "0"}).launcher == "torchrun"  # which numbers nodes as they come
        assert launched({**TORCHRUN, **OURS, "WORLD_SIZE": "2"}).launcher == "Paceline"
        assert launched({**node, **OURS}).launcher == "Paceline"
        assert launched({**node, **HYDRA, "PACELINE_COORDINATOR": "n0:4100"}).launcher == "Hydra"
        assert launched({**SRUN, **OURS, "RAY_JOB_ID": "02000000"}).launcher == "Paceline"  # Ray's daemons were started by srun
        assert launched({**SRUN, "ENVIRONMENT": "BATCH"}).launcher == "srun"
        assert launched({"ENVIRONMENT": "BATCH", **{key: value for key, value in SRUN.items() if key != "SLURM_STEP_ID"}}).launcher == "nobody"  # its shell
    for variables in (TORCHRUN, MPIRUN, SRUN):
        found = launched({**variables, "PACELINE_COORDINATOR": "127.0.0.1:4100"})
        assert (found.coordinator, found.store) == ("127.0.0.1:4100", "")
    assert launched(TORCHRUN).sentence() == "rank 1 of 4, started by torchrun; members meet at node1:29500"


LEFT_OVER = {"RANK": "0", "WORLD_SIZE": "1"}
TWO_LAUNCHERS = {
    "torchrun --standalone in each task of srun": ({**TORCHRUN, "GROUP_WORLD_SIZE": "1", **SRUN}, "torchrun's RANK=1 and WORLD_SIZE=4 count, and srun's SLURM_PROCID=2.*--nnodes=3"),
    "variables that are left over, below srun": ({**LEFT_OVER, **SRUN}, "RANK=0 and WORLD_SIZE=1 count, and srun's SLURM_PROCID=2 and SLURM_NTASKS=3 do not; unset RANK and WORLD_SIZE"),
    "variables of a job as large that are left over, below srun": (
        {**SRUN, "RANK": "0", "WORLD_SIZE": "3", "PACELINE_COORDINATOR": "a:1"},
        "RANK=0 and WORLD_SIZE=3 count, and srun's SLURM_PROCID=2",
    ),
    "variables that are left over, below mpirun": ({**LEFT_OVER, **MPIRUN}, "RANK=0 and WORLD_SIZE=1 count, and mpirun's OMPI_COMM_WORLD_RANK=0 and OMPI_COMM_WORLD_SIZE=2 do not"),
    "mpirun by some tasks of srun": ({**MPIRUN, **SRUN}, "mpirun's OMPI_COMM_WORLD_RANK=0 .*=2 count, and srun's"),
    "Hydra in a job of mpirun": ({**MPIRUN, "OMPI_COMM_WORLD_SIZE": "1", **HYDRA}, "mpirun's .*=1 count, and Hydra's PMI_RANK=1 and PMI_SIZE=2 do not"),
    "paceline run in each task of srun": ({**OURS, **SRUN}, "Paceline's PACELINE_RANK=1 and PACELINE_WORKERS=2 count, and srun's"),
}


@pytest.mark.parametrize("variables, said", TWO_LAUNCHERS.values(), ids=TWO_LAUNCHERS.keys())
def test_a_warning_says_which_of_two_launchers_counts_where_their_numbers_do_not_go_together(variables, said):
    with pytest.warns(UserWarning, match=said):
        launched(variables)


def test_a_process_without_a_rank_says_so_where_something_tells_that_it_is_one_of_several():
    told = {
        "JOB_COMPLETION_INDEX=0: this pod is one of an Indexed Job.*RANK=0 and WORLD_SIZE=1 to let each train alone": {"JOB_COMPLETION_INDEX": "0"},
        "WORLD_SIZE=4 in the environment, and no RANK": {"JOB_COMPLETION_INDEX": "2", "WORLD_SIZE": "4", "MASTER_ADDR": "pod-0"},
        "RANK=1 in the environment, and no WORLD_SIZE": {"RANK": "1"},
        "PACELINE_COORDINATOR is set, and nothing says which rank": {"PACELINE_COORDINATOR": "node0:4100"},
    }
    for said, variables in told.items():
        assert launched(variables).launcher == "nobody"  # a process group of the script may know
        with pytest.raises(PacelineError, match=said) as caught:
            check_alone(variables)
        assert caught.value.exit_code == 2
    for variables in ({"SLURM_NTASKS": "3", "SLURM_JOB_ID": "1"}, {"SLURM_JOB_NUM_NODES": "3", "SLURM_PROCID": "0", "ENVIRONMENT": "BATCH"}):
        with pytest.warns(UserWarning, match="room for 3 ranks, and this process trains alone"):
            check_alone(variables)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for variables in ({}, {"RANK": "0"}, {"WORLD_SIZE": "1"}, {"SLURM_NTASKS": "1"}, {"MASTER_ADDR": "node0"}):
            check_alone(variables)
        assert launched({"JOB_COMPLETION_INDEX": "2", **LEFT_OVER}) == Launch("torchrun", 0, 1, one_machine=True)


def test_attach_in_a_pod_of_an_indexed_job_is_refused_and_in_one_that_wants_to_be_alone_it_is_not(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import torch, paceline.torch as pt\nm = torch.nn.Linear(2, 2)\nprint(pt.attach(m, torch.optim.SGD(m.parameters(), lr=0.1)).workers)\n")
    ran = alone(script, JOB_COMPLETION_INDEX="1")
    assert ran.returncode != 0 and "PacelineError: JOB_COMPLETION_INDEX=1: this pod is one of an Indexed Job" in ran.stderr, ran.stderr
    ran = alone(script, JOB_COMPLETION_INDEX="1", **LEFT_OVER)
    assert (ran.returncode, ran.stdout) == (0, "1\n"), ran.stderr


@pytest.mark.parametrize(
    "variables, named",
    [
        ({**TORCHRUN, **OURS}, "PACELINE_WORKERS=2 and torchrun's WORLD_SIZE=4.*unset PACELINE_RANK"),
        ({**TORCHRUN, "RANK": "4"}, "RANK=4.*0 to 3"),
        ({**TORCHRUN, "RANK": "-1"}, "RANK=-1"),
        ({**TORCHRUN, "WORLD_SIZE": "many"}, "WORLD_SIZE=many"),
        ({**TORCHRUN, "MASTER_PORT": "70000"}, "MASTER_PORT=70000"),
        ({key: value for key, value in TORCHRUN.items() if key != "MASTER_PORT"}, "did not set MASTER_PORT"),
        ({key: value for key, value in TORCHRUN.items() if key != "MASTER_ADDR"}, "torchrun started 4 ranks.*MASTER_ADDR"),
        ({**MPIRUN, "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, "mpirun started 2 ranks.*PACELINE_COORDINATOR"),
        ({key: value for key, value in SRUN.items() if key != "SLURM_JOB_ID"}, "SLURM_JOB_ID"),
        ({key: value for key, value in SRUN.items() if key != "SLURM_JOB_NODELIST"}, "SLURM_STEP_NODELIST"),
        ({**HYDRA, "MPI_LOCALNRANKS": "1"}, "Hydra started 2 ranks and does not say where rank 0 is; set PACELINE_COORDINATOR=HOST:PORT"),
        ({**TORCHRUN, "PACELINE_RANK": "1"}, "PACELINE_RANK=1 in the environment, and no PACELINE_WORKERS; set both, or unset PACELINE_RANK"),
        ({key: value for key, value in OURS.items() if key != "PACELINE_COORDINATOR"}, "PACELINE_COORDINATOR=HOST:PORT is not"),
        ({**OURS, "PACELINE_SERVERS": "some"}, "PACELINE_SERVERS=some"),
        ({**OURS, "PACELINE_COORDINATOR": "nonsense"}, "PACELINE_COORDINATOR=nonsense is no HOST:PORT"),
        ({**OURS, "PACELINE_COORDINATOR": "127.0.0.1:0"}, "127.0.0.1:0"),
    ],
)
def test_variables_that_make_no_sense_are_named(variables, named):
    with pytest.raises(PacelineError, match=named) as caught:
        launched(variables)
    assert caught.value.exit_code == 2


def test_jobs_side_by_side_have_ports_in_a_row_where_one_is_given():
    assert [_joining.nth("127.0.0.1:4100", job) for job in range(2)] == ["127.0.0.1:4100", "127.0.0.1:4101"]
    assert [_joining.nth("unix:/run/job.sock", job) for job in range(2)] == ["unix:/run/job.sock", "unix:/run/job.sock-1"]
    assert _joining.nth("[::1]:4100", 1) == "[::1]:4101" and _joining.nth("", 1) == ""
    with pytest.raises(PacelineError, match="PACELINE_COORDINATOR=host:65535 leaves no port for job 2"):
        _joining.nth("host:65535", 1)


def test_the_first_host_of_a_node_list():
    lists = {"gpu07": "gpu07", "a,b": "a", "gpu[03-07,9],login": "gpu03", "rack[2,4]n[1-3]": "rack2n1", "n[5]-ib,x": "n5-ib", "": ""}
    assert {hosts: first_host(hosts) for hosts in lists} == lists


def test_ports_are_below_those_of_connections():
    ports = {derived_port(f"slurm {job} 0") for job in range(1000)}
    assert min(ports) >= 12_000 and max(ports) < 30_000 and len(ports) > 900


def test_addresses_of_this_machine(monkeypatch):
    here = Launch("torchrun", 0, 2, store="127.0.0.1:29500", one_machine=False)
    assert _addresses.bound(here, "") == "127.0.0.1"
    monkeypatch.setenv("PACELINE_INTERFACE", "lo")
    assert _addresses.bound(here, "") == "127.0.0.1"
    monkeypatch.setenv("PACELINE_INTERFACE", "ib7")
    with pytest.raises(PacelineError, match="PACELINE_INTERFACE=ib7.*there are .*lo"):
        _addresses.bound(here, "")


MEET = """
import json, sys
from paceline import _joining
from paceline.launch import launched
class Hosted:
    address = f"127.0.0.1:{4000 + int(sys.argv[1])}"
here = launched()
met = [_joining.meet(here, f"paceline/{here.attempt}/{job}", Hosted() if here.rank == 0 else None) for job in range(2)]
open(f"{sys.argv[2]}/{here.rank}", "w").write(json.dumps(met))
"""


def test_ranks_meet_under_torchrun(tmp_path):
    (tmp_path / "meet.py").write_text(MEET)
    result = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(tmp_path / "meet.py"), "7", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(HERE.parents[2] / "python"), "OMP_NUM_THREADS": "1"},
    )
    assert result.returncode == 0, result.stderr
    assert [json.loads((tmp_path / str(rank)).read_text()) for rank in range(2)] == [["127.0.0.1:4007"] * 2] * 2


def test_a_rank_that_does_not_meet_rank_0_says_where_it_looked_and_rank_0_that_its_port_is_taken(monkeypatch):
    class Hosted:
        address = "127.0.0.1:4001"

    monkeypatch.setattr(_joining, "MEETING", 0.5)
    with closing(keep_port()) as kept:  # nobody listens there
        store = f"127.0.0.1:{kept.getsockname()[1]}"
        with pytest.raises(PacelineError, match=f"rank 1 has not heard of rank 0 at {store} within .* s: "):
            _joining.meet(Launch("srun", 1, 2, store=store), "paceline/0/0", None)
        kept.listen()
        with pytest.raises(PacelineError, match=f"rank 0 cannot tell the others at {store} where it is: .*EADDRINUSE"):
            _joining.meet(Launch("srun", 0, 2, store=store), "paceline/0/0", Hosted())


REFUSED = """
import os, sys, time, torch, paceline, paceline.torch as pt
paceline._joining.HEARD = 200.0
model = torch.nn.Linear(2, 2)
rank = int(os.environ["RANK"])
folder = os.path.dirname(sys.argv[0])
while any(not os.path.exists(f"{folder}/{before} has heard") for before in range(1, rank)):
    time.sleep(0.01)
try:
    pt.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
except paceline.PacelineError as error:
    open(f"{folder}/{rank}", "w").write(f"{error.page} {error.kind} {error.subject} {error.exit_code}\\n{error}")
    open(f"{folder}/{rank} has heard", "w")
"""


@pytest.mark.parametrize("meeting", ("store", pytest.param("file", marks=pytest.mark.full)))
def test_all_ranks_hear_why_rank_0_cannot_start_the_job(meeting, tmp_path):
    """Also those that come when others have ended: each waits for the one before it."""
    (tmp_path / "train.py").write_text(REFUSED)
    with closing(keep_port()) as kept:
        port = kept.getsockname()[1]
        met = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "3"} if meeting == "store" else {"OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_LOCAL_SIZE": "3", "PMIX_NAMESPACE": "x"}
        started = [
            subprocess.Popen(
                [sys.executable, tmp_path / "train.py"],
                env=variables(RANK=str(rank), OMPI_COMM_WORLD_RANK=str(rank), TMPDIR=str(tmp_path), PACELINE_JOB_KEY_FILE=f"{tmp_path}/none", **met),
            )
            for rank in range(3)
        ]
        for process in started:
            assert process.wait(LIMIT) == 0
    codes, said = zip(*((tmp_path / str(rank)).read_text().split("\n") for rank in range(3)))
    assert f"{tmp_path}/none cannot be opened" in said[0]
    assert list(said[1:]) == [f"rank 0 could not start the job: {said[0]}"] * 2
    assert codes[0].startswith("PL-KEY bad-request ") and codes[1:] == (codes[0],) * 2, codes
    assert not list(tmp_path.glob("paceline-*"))


def test_an_address_of_an_earlier_attempt_does_not_count(tmp_path):
    class Hosted:
        address = "127.0.0.1:4001"

    ranks = [Launch("mpirun", rank, 2, store=str(tmp_path / "store"), attempt="1") for rank in range(2)]
    _joining.meet(ranks[0], "paceline/0/0", Hosted())
    Hosted.address = "127.0.0.1:4002"
    _joining.meet(ranks[0], "paceline/1/0", Hosted())
    assert _joining.meet(ranks[1], "paceline/1/0", None) == "127.0.0.1:4002"
    _joining._stores.clear()


def test_the_script_for_slurm_requeues_also_when_its_step_ends_before_the_shell_has_run_on(tmp_path):
    stand_ins = {
        "srun": f"trap 'exit 75' USR1\necho $$ > {tmp_path}/new && mv {tmp_path}/new {tmp_path}/step\nwhile :; do sleep 0.05; done",
        "scontrol": f'echo "$@" > {tmp_path}/requeued',
    }
    for name, body in stand_ins.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / name).chmod(0o700)
    script = HERE.parents[2] / "examples/torch/slurm.sbatch"
    found = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "4711"}
    with subprocess.Popen(["bash", script, tmp_path], env=found) as shell:
        wait_until("the step has begun", (tmp_path / "step").exists)
        step = (tmp_path / "step").read_text().strip()
        shell.send_signal(signal.SIGSTOP)
        shell.send_signal(signal.SIGUSR1)
        os.kill(int(step), signal.SIGUSR1)
        wait_until("the step has ended", lambda: pathlib.Path(f"/proc/{step}/stat").read_text().split()[2] == "Z")
        shell.send_signal(signal.SIGCONT)
        assert shell.wait() == 75
    assert (tmp_path / "requeued").read_text() == "requeue 4711\n"
