"""A Slurm of three nodes on this machine, over the loopback: slurmctld and three slurmd, for as long as a test needs them."""

import contextlib
import os
import socket
import subprocess
import time

from jobs import keep_port

CONF = """
ClusterName=test
FirstJobId={ports[0]}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/ctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
SchedulerParameters=sched_min_interval=0,sched_interval=1,bf_interval=1
KillWait=2
NodeName=n[0-2] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{ports[1]}-{ports[3]}] CPUs=2 State=UNKNOWN
PartitionName=p Nodes=n[0-2] Default=YES State=UP MaxTime=INFINITE
"""


def four_ports_in_a_row():
    """Kept sockets; the last three follow each other, as slurmd's range has them."""
    while True:
        kept = [keep_port()]
        first = kept[0].getsockname()[1]
        try:
            kept += [keep_port(first + k) for k in (1, 2, 3)]
            return kept
        except OSError:
            for one in kept:
                one.close()


class Cluster:
    def __init__(self, folder):
        self.folder = folder

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            kept = [stack.enter_context(contextlib.closing(one)) for one in four_ports_in_a_row()]
            (self.folder / "state").mkdir(parents=True)
            conf = self.folder / "slurm.conf"
            conf.write_text(CONF.format(host=socket.gethostname(), folder=self.folder, ports=[one.getsockname()[1] for one in kept]))
            self.variables = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "RANK", "WORLD_SIZE", "MASTER_", "OMPI_", "PMIX_"))}
            self.variables["SLURM_CONF"] = str(conf)
            log = stack.enter_context(open(self.folder / "out.log", "w"))
            self.daemons = []
            stack.callback(self.end)
            # The nodes' names lead to this machine for what runs on them: a hosts file of their own.
            hosts = self.folder / "hosts"
            hosts.write_text("127.0.0.1 localhost n0 n1 n2\n")
            node = ["unshare", "--mount", "sh", "-c", f'mount --bind {hosts} /etc/hosts && exec slurmd -D -N "$0"']
            for command in (["slurmctld", "-D"], *([*node, f"n{k}"] for k in range(3))):
                self.daemons.append(subprocess.Popen(command, env=self.variables, stdout=log, stderr=log))
            self.wait_until_up()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self._stack.close()

    def wait_until_up(self):
        limit = time.monotonic() + 60
        while (said := self.run("sinfo", "-h", "-o", "%T %D", check=False).stdout.strip()) != "idle 3":
            assert time.monotonic() < limit, f"{said}\n{(self.folder / 'ctld.log').read_text()[-2000:]}"
            time.sleep(0.2)

    def end(self):
        for daemon in self.daemons:
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def run(self, *command, check=True, limit=200, **variables):
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=limit, env={**self.variables, **variables}, cwd=self.folder)
        assert not check or done.returncode == 0, (command, done.stdout, done.stderr)
        return done
