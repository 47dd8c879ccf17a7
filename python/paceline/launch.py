"""Who this process is, in which job, and where its members meet. No line of a script says it: the launcher's variables do.

            rank                   workers                members meet
  Paceline  PACELINE_RANK          PACELINE_WORKERS       at PACELINE_COORDINATOR=HOST:PORT
  torchrun  RANK                   WORLD_SIZE             in the store at MASTER_ADDR:MASTER_PORT
  mpirun    OMPI_COMM_WORLD_RANK   OMPI_COMM_WORLD_SIZE   in the store, if MASTER_* are set; else a file, when all are on one machine
  Hydra     PMI_RANK               PMI_SIZE               as with mpirun (mpiexec of MPICH and of Intel MPI)
  srun      SLURM_PROCID           SLURM_NTASKS           in a store on the step's first host

`paceline run` sets Paceline's own, and PACELINE_SERVERS: so many servers, and the coordinator, are processes that it has started already;
on one machine also PACELINE_STORE, a file in which the ranks of a script's later jobs meet.
A pod on Kubernetes has torchrun's or Paceline's from its manifest (examples/kubernetes), where the rank is its index in the Job.
In this order, since mpirun and torchrun are started by srun too; where the numbers of two do not go together, a warning says whose count.
PACELINE_COORDINATOR with any of them says where rank 0 runs the coordinator (with PACELINE_SERVERS: where it runs already); otherwise it takes
a free port and tells the others. Without any of these a process is a job of its own, unless the script has a process group of torch
(frameworks that start ranks themselves). The shell of an sbatch script, where srun has not been called, is no rank.
"""

from __future__ import annotations

import dataclasses
import os
import re
import stat
import tempfile
import time
import warnings
import zlib
from collections.abc import Mapping
from pathlib import Path

from paceline._errors import PacelineError

# Below the ports that Linux hands out to connections.
FIRST_PORT, PORTS = 12_000, 18_000
A_DAY = 86_400.0  # seconds
LAUNCHERS = (
    ("Paceline", "PACELINE_RANK", "PACELINE_WORKERS"),
    ("torchrun", "RANK", "WORLD_SIZE"),
    ("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("Hydra", "PMI_RANK", "PMI_SIZE"),
    ("srun", "SLURM_PROCID", "SLURM_NTASKS"),
)


@dataclasses.dataclass(frozen=True)
class Launch:
    launcher: str
    rank: int
    workers: int
    coordinator: str = ""  # HOST:PORT, if it is given
    store: str = ""  # HOST:PORT of a store of torch, or the path of a file, where members meet
    servers: int | None = None  # that the launcher has started, and the coordinator with them; None: the ranks host both
    attempt: str = "0"  # of a launcher that restarts: an earlier one's words do not count
    one_machine: bool = True

    def sentence(self) -> str:
        """What was chosen, for people."""
        where = f"coordinator {self.coordinator}" if self.coordinator else f"members meet at {self.store}" if self.store else "alone"
        if self.servers is not None:
            where += f" and {self.servers} server{'' if self.servers == 1 else 's'}, which run already"
        return f"rank {self.rank} of {self.workers}, started by {self.launcher}; {where}"


def launched(variables: Mapping[str, str] | None = None) -> Launch:
    """Raises PacelineError naming the variable that makes no sense, is missing, or would have to be set. Warns of launchers that contradict each other."""
    variables = os.environ if variables is None else variables
    refuse_two(variables)
    found = [names for names in LAUNCHERS if has_started(variables, *names)]
    if not found:
        return Launch("nobody", 0, 1)
    launcher, rank_name, size_name = found[0]
    workers = number(variables, size_name, 1, 100_000)
    here = met(variables, launcher, number(variables, rank_name, 0, workers - 1), workers)
    for other in found[1:]:
        warn_of(variables, here, other)
    return here


def has_started(variables: Mapping[str, str], launcher: str, rank: str, size: str) -> bool:
    """Whether this process is a rank of it."""
    if rank not in variables or size not in variables:
        return False
    if launcher == "Hydra":  # srun --mpi=pmi2 sets the same two
        return "MPI_LOCALNRANKS" in variables or "SLURM_STEP_ID" not in variables
    return launcher != "srun" or not is_sbatch_shell(variables)


def is_sbatch_shell(variables: Mapping[str, str]) -> bool:
    return variables.get("ENVIRONMENT") == "BATCH" and "SLURM_STEP_ID" not in variables


def refuse_two(variables: Mapping[str, str]) -> None:
    """Of Paceline's launcher and torchrun nobody knows which is the inner one; mpirun and srun start either of them, one for each machine."""
    (_, rank, size), (other, other_rank, other_size) = LAUNCHERS[:2]
    if (rank in variables) != (size in variables):
        given, missing = (rank, size) if rank in variables else (size, rank)
        raise PacelineError(f"{given}={variables[given]} in the environment, and no {missing}; set both, or unset {given}", subject=given)
    for ours, theirs in ((rank, other_rank), (size, other_size)):
        if {rank, size, other_rank, other_size} <= variables.keys() and variables[ours] != variables[theirs]:
            raise PacelineError(
                f"{ours}={variables[ours]} and {other}'s {theirs}={variables[theirs]}: two launchers started this process; start ranks by one of them, or unset {rank} and {size}",
                code="contradiction",
                subject=ours,
            )


def warn_of(variables: Mapping[str, str], here: Launch, other: tuple[str, str, str]) -> None:
    """A launcher around the one that counts has started one process for each machine, or for each rank. What tells of another number is left over
    in the environment, or somebody has started several jobs."""
    outer, rank_name, size_name = other
    rank, size = variables[rank_name], variables[size_name]
    groups = variables.get("GROUP_WORLD_SIZE", "") if here.launcher == "torchrun" else ""  # of processes torchrun
    if "RAY_JOB_ID" in variables or not (rank.isdecimal() and size.isdecimal() and (groups or "0").isdecimal()):
        return  # Ray numbers its workers whatever its daemons were started by
    if int(groups) >= int(size) if groups else here.workers > int(size) or (here.workers, here.rank) == (int(size), int(rank)):
        return
    _, inner_rank, inner_size = next(names for names in LAUNCHERS if names[0] == here.launcher)
    advice = f"give torchrun --nnodes={size} and one --rdzv-endpoint" if groups else f"unset {inner_rank} and {inner_size}"
    warnings.warn(
        f"paceline: {here.launcher}'s {inner_rank}={here.rank} and {inner_size}={here.workers} count, and {outer}'s {rank_name}={rank} and {size_name}={size} do not; "
        f"{advice} if all that {outer} started are to be one job",
        stacklevel=2,
    )


def check_alone(variables: Mapping[str, str] | None = None) -> None:
    """Of a process that nobody has given a rank: raises, or warns, where something says that it is one of several. It would train alone, and so would
    all others."""
    variables = os.environ if variables is None else variables
    for given, missing, alone in (("RANK", "WORLD_SIZE", "0"), ("WORLD_SIZE", "RANK", "1")):
        if variables.get(given, alone) != alone:
            raise PacelineError(f"{given}={variables[given]} in the environment, and no {missing}; set both, or unset {given} to train alone", subject=given)
    if "PACELINE_COORDINATOR" in variables:
        raise PacelineError(
            "PACELINE_COORDINATOR is set, and nothing says which rank this process is; set PACELINE_RANK and PACELINE_WORKERS, or unset it to train alone", subject="PACELINE_COORDINATOR"
        )
    if "JOB_COMPLETION_INDEX" in variables:
        raise PacelineError(
            f"JOB_COMPLETION_INDEX={variables['JOB_COMPLETION_INDEX']}: this pod is one of an Indexed Job, and nothing says how many there are and where they meet; give the pods RANK (their index), "
            "WORLD_SIZE, MASTER_ADDR and MASTER_PORT, or RANK=0 and WORLD_SIZE=1 to let each train alone",
            subject="JOB_COMPLETION_INDEX",
        )
    tasks = variables.get("SLURM_NTASKS", variables.get("SLURM_JOB_NUM_NODES", "1"))
    if tasks != "1":
        warnings.warn(f"paceline: Slurm's job has room for {tasks} ranks, and this process trains alone, as srun has not started it; start the script by srun", stacklevel=2)


def met(variables: Mapping[str, str], launcher: str, rank: int, workers: int) -> Launch:
    coordinator = variables.get("PACELINE_COORDINATOR", "")
    if coordinator:
        check_address("PACELINE_COORDINATOR", coordinator)
    servers = number(variables, "PACELINE_SERVERS", 0, 100_000) if coordinator and "PACELINE_SERVERS" in variables else None
    here = Launch(launcher, rank, workers, coordinator, one_machine=on_one_machine(variables, launcher, workers), servers=servers)
    file = file_store(variables, launcher)
    has_store = file or {"MASTER_ADDR", "MASTER_PORT"} <= variables.keys() or launcher == "srun"
    if workers == 1 or (coordinator and (servers is None or not has_store)):
        return here
    if launcher == "Paceline" and not coordinator:
        raise PacelineError("PACELINE_RANK and PACELINE_WORKERS are set and PACELINE_COORDINATOR=HOST:PORT is not", code="missing", subject="PACELINE_COORDINATOR")
    attempt = variables.get("TORCHELASTIC_RESTART_COUNT", variables.get("SLURM_RESTART_COUNT", "0"))
    if file:
        return dataclasses.replace(here, store=file)
    if "MASTER_ADDR" in variables:
        store = f"{variables['MASTER_ADDR']}:{number(variables, 'MASTER_PORT', 1, 65535)}"
        return dataclasses.replace(here, store=store, attempt=attempt)
    if launcher == "srun":
        return dataclasses.replace(here, store=slurm_store(variables), attempt=attempt)
    job = hydra_job() if launcher == "Hydra" else variables.get("PMIX_NAMESPACE", variables.get("OMPI_MCA_ess_base_jobid", "")) if launcher == "mpirun" else ""
    if here.one_machine and job:
        name = re.sub(r"\W", "_", job)
        return dataclasses.replace(here, store=os.path.join(tempfile.gettempdir(), f"paceline-{os.getuid()}-{name}"), attempt=attempt)
    raise PacelineError(
        f"{launcher} started {workers} ranks and does not say where rank 0 is; set PACELINE_COORDINATOR=HOST:PORT, or MASTER_ADDR and MASTER_PORT",
        code="missing",
        subject="PACELINE_COORDINATOR",
    )


def address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


def file_store(variables: Mapping[str, str], launcher: str) -> str:
    """Of `paceline run`; a launcher inside of it has ranks of its own."""
    return variables.get("PACELINE_STORE", "") if launcher == "Paceline" else ""


def on_one_machine(variables: Mapping[str, str], launcher: str, workers: int) -> bool:
    if launcher == "srun":
        hosts = variables.get("SLURM_STEP_NODELIST", variables.get("SLURM_JOB_NODELIST", ""))
        return not any(sign in hosts for sign in ",[")
    if file_store(variables, launcher):
        return True
    local = {"torchrun": "LOCAL_WORLD_SIZE", "mpirun": "OMPI_COMM_WORLD_LOCAL_SIZE", "Hydra": "MPI_LOCALNRANKS"}.get(launcher)
    if local is not None and local in variables:
        return variables[local] == str(workers)
    coordinator = variables.get("PACELINE_COORDINATOR", "127.0.0.1:0")
    return is_file(coordinator) or is_loopback(variables.get("MASTER_ADDR", coordinator.rpartition(":")[0]))


def hydra_job() -> str:
    """What no other job on this machine has: the process of Hydra that has started this one, or an ancestor, and when it began. "": none has."""
    process = os.getpid()
    try:
        while process > 1:
            name, parent, began = process_of(process)
            if name == "hydra_pmi_proxy":
                return f"hydra-{process}-{began}"
            process = parent
    except (OSError, ValueError):
        pass
    return ""


def process_of(number: int) -> tuple[str, int, str]:
    """Its name, its parent, and when it began, which tells it from a later one of the same number."""
    text = Path(f"/proc/{number}/stat").read_text()
    rest = text[text.rindex(")") + 2 :].split()
    return text[text.index("(") + 1 : text.rindex(")")], int(rest[1]), rest[19]


def is_gone(number: int, began: str) -> bool:
    try:
        return process_of(number)[2] != began
    except (FileNotFoundError, ProcessLookupError):
        return True


def left_behind(folder: str) -> list[Path]:
    """Files in which the ranks of this user's jobs under Hydra have met, and which nobody removed, for every rank was killed. The name says whose job it was.
    Only after a day: in another container with the same temporary folder that process may well be alive. Open MPI's names tell of no process."""
    found = []
    for file in Path(folder).glob(f"paceline-{os.getuid()}-hydra_*"):
        try:
            number, began = file.name.split("_")[1:]
            about = file.lstat()
            ours = stat.S_ISREG(about.st_mode) and about.st_uid == os.getuid()
            if ours and time.time() - about.st_mtime > A_DAY and is_gone(int(number), began):
                found.append(file)
        except (OSError, ValueError):  # not one of ours, or somebody else was quicker
            pass
    return found


def slurm_store(variables: Mapping[str, str]) -> str:
    hosts = variables.get("SLURM_STEP_NODELIST", variables.get("SLURM_JOB_NODELIST"))
    if not hosts:
        raise PacelineError("srun set SLURM_PROCID and no SLURM_STEP_NODELIST; set PACELINE_COORDINATOR=HOST:PORT", code="missing", subject="SLURM_STEP_NODELIST")
    job = variables.get("SLURM_JOB_ID")
    if not job:
        raise PacelineError("srun set SLURM_PROCID and no SLURM_JOB_ID; set PACELINE_COORDINATOR=HOST:PORT", code="missing", subject="SLURM_JOB_ID")
    reserved = variables.get("SLURM_STEP_RESV_PORTS", "")
    port = int(re.split(r"[-,]", reserved)[0]) if reserved else derived_port(f"slurm {job} {variables.get('SLURM_STEP_ID', '0')}")
    host = "127.0.0.1" if on_one_machine(variables, "srun", 0) else first_host(hosts)
    return f"{host}:{port}"


def first_host(hosts: str) -> str:
    """The first of Slurm's "gpu[03-07,9],login": "gpu03"."""
    found = re.match(r"[^,\[\]]*(\[[^\]]*\][^,\[\]]*)*", hosts)
    return re.sub(r"\[([^\],-]*)[^\]]*\]", r"\1", found.group(0)) if found else ""


def derived_port(job: str) -> int:
    """The same in every process of the job, another one in most other jobs."""
    return FIRST_PORT + zlib.crc32(job.encode()) % PORTS


def number(variables: Mapping[str, str], name: str, least: int, most: int) -> int:
    text = variables.get(name)
    if text is None:
        raise PacelineError(f"the launcher did not set {name}", code="missing", subject=name)
    if not re.fullmatch(r"\d{1,9}", text) or not least <= int(text) <= most:
        raise PacelineError(f"{name}={text} in the environment; legal: {least} to {most}", code="illegal", subject=name)
    return int(text)


def check_address(name: str, address: str) -> None:
    if is_file(address):
        return
    host, _, port = address.rpartition(":")
    if not host or not re.fullmatch(r"\d{1,5}", port) or not 1 <= int(port) <= 65535:
        raise PacelineError(f"{name}={address} is no HOST:PORT with a port from 1 to 65535", code="address", subject=name)


def is_file(address: str) -> bool:
    """Whether it is a file of this machine and no HOST:PORT; the library says more about it."""
    return address.startswith("unix:/")


def is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
