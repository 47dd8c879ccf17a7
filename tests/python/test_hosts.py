"""Jobs of several machines, started by one command over a real ssh: two names of this machine, and in the full run hosts of a lab."""

import os
import signal
import sys

import binding  # noqa: F401 (which says where this build's library is)
import pytest
from chaos_hosts import Hosts
from jobs import BRIEF, ERROR, ROOT, Process, keep_port, reference, stat_of, wait_until, words_of
from ssh_hosts import Sshd, ssh_command
from test_lab import rights

JOB = (*BRIEF, "--iterations", 6)
NAMES = {"alpha": "127.0.0.1", "beta": "127.0.0.1"}
OWN = """
import os, sys, time, torch, paceline.torch as pt
torch.set_num_threads(1)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
job = pt.attach(model, optimizer)
iterations = 0
while not job.stopping and iterations < int(sys.argv[1]):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    iterations += 1
    if iterations == 5:
        print("trains in", os.path.basename(os.getcwd()), os.environ["COLOUR"])
        open(f"trains {job.rank}", "w").close()
        time.sleep(float(sys.argv[2]))
job.close()
print("left after", iterations)
"""


@pytest.fixture(scope="module")
def sshd(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ssh")
    with Sshd(folder) as server:
        server.ssh = ssh_command(folder, NAMES, server.port)
        yield server
        wait_until("nothing is left there", lambda: not server.descendants())


@pytest.mark.parametrize("more", [("--servers", 1), ("--security", "psk"), ("--role", "both"), ("--collective", "loop3-overlap")], ids=["servers", "key", "both", "collective"])
def test_a_job_on_two_machines_has_the_bits_of_the_reference(sshd, more):
    with Process("train", "--json", "--hosts", "alpha,beta", "--ssh", sshd.ssh, *JOB, *more) as job:
        assert job.finish() == 0, job.err
        report = job.report()
    assert report["workers"] == 2 and report["parameters_hash"] == reference("--workers", 2, *JOB)["parameters_hash"]
    wait_until("nothing is left there", lambda: not sshd.descendants())


class Own(Process):
    """A script with attach() on both names, in the folder where it lies."""

    def __init__(self, folder, sshd, iterations, *options, asleep=0):
        (folder / "train.py").write_text(OWN)
        os.environ["COLOUR"] = "blue"
        passed = {"PYTHONPATH": str(ROOT / "python"), "PACELINE_LIBRARY": os.environ["PACELINE_LIBRARY"], "OMP_NUM_THREADS": "1"}
        prefix = ["env", *(f"{name}={value}" for name, value in passed.items())]
        words = ("--hosts", "alpha,beta", "--ssh", sshd.ssh, "--pass", ",".join([*passed, "COLO*"]), *options)
        super().__init__("run", *words, "--", sys.executable, "train.py", iterations, asleep, prefix=prefix, cwd=folder)
        self.folder = folder

    def wait_until_it_trains(self):
        def both():
            assert self.process.poll() is None, self.process.communicate()
            return all((self.folder / f"trains {rank}").exists() for rank in range(2))

        wait_until("both train", both)


def test_a_script_runs_in_the_same_folder_with_the_variables_that_are_passed(tmp_path, sshd):
    with Own(tmp_path, sshd, 20) as job:
        assert job.finish() == 0, job.err
    for rank, host in enumerate(NAMES):
        assert f"[worker {rank} on {host}] trains in {tmp_path.name} blue\n" in job.out and f"[worker {rank} on {host}] left after 20\n" in job.out
    assert "2 workers, 2 servers" in job.out


def test_an_interrupt_ends_all_after_the_same_iteration(tmp_path, sshd):
    with Own(tmp_path, sshd, 10**9) as job:
        job.wait_until_it_trains()
        job.signal(signal.SIGINT)
        assert job.finish() == 130, job.err
    left = {line.partition("] ")[2] for line in job.out.splitlines() if "left after" in line}
    assert len(left) == 1
    wait_until("nothing is left there", lambda: not sshd.descendants())


def test_a_second_interrupt_ends_at_once_who_is_busy(tmp_path, sshd):
    with Own(tmp_path, sshd, 10**9, asleep=600) as job:
        job.wait_until_it_trains()
        job.signal(signal.SIGINT)
        job.signal(signal.SIGTERM)  # two of one kind may count as one
        assert job.finish() == 130, job.err
    wait_until("nothing is left there", lambda: not sshd.descendants())


def hosted(sshd, word):
    """Processes there that hold `word` in their command line, and are not the shell or the ssh around them."""
    return [pid for pid in sshd.descendants() if word in words_of(pid) and "-c" not in words_of(pid)]


def test_whoever_starts_a_job_takes_it_along_when_it_is_killed(tmp_path, sshd):
    with Own(tmp_path, sshd, 10**9) as job:
        job.wait_until_it_trains()
        assert len(hosted(sshd, "train.py")) == 2
        job.signal(signal.SIGKILL)
        wait_until("nothing is left there", lambda: not sshd.descendants())


@pytest.mark.parametrize("lost", ["process", "connection"])
def test_a_worker_that_is_lost_there_is_named(tmp_path, sshd, lost):
    with Own(tmp_path, sshd, 10**9) as job:
        job.wait_until_it_trains()
        victim = next(pid for pid in hosted(sshd, "train.py") if b"PACELINE_RANK=1\0" in open(f"/proc/{pid}/environ", "rb").read())
        if lost == "connection":
            parents = [victim]
            while not words_of(parents[-1])[0].startswith("sshd"):
                parents.append(stat_of(parents[-1])[1])
            victim = parents[-1]
        os.kill(victim, signal.SIGKILL)
        assert job.finish() == 1
    assert f"[worker 1 on beta] trains in {tmp_path.name} blue\n" in job.out  # what it printed before it was lost
    error = next(line for line in job.err.splitlines() if line.startswith(ERROR))
    assert error.startswith(f"{ERROR}worker 1 (127.0.0.1:") or error.startswith(f"{ERROR}worker 1 on beta exited with code 255"), job.err
    if lost == "process":
        assert error.endswith("worker 1 on beta was killed by signal 9 [paceline help PL-PEER-LOST]")
    wait_until("nothing is left there", lambda: not sshd.descendants())


def test_the_key_is_in_no_command_line_and_no_environment(tmp_path, sshd):
    key = tmp_path / "job.key"
    with Process("key", "new", key) as made:
        assert made.finish() == 0
    secret = key.read_bytes()
    with Own(tmp_path, sshd, 10**9, "--job-key-file", key) as job:
        job.wait_until_it_trains()
        everywhere = [*job.family(), *sshd.descendants()]
        shown = [open(f"/proc/{pid}/{what}", "rb").read() for pid in everywhere for what in ("cmdline", "environ")]
        assert len(everywhere) > 10 and not any(secret in text or secret.hex().encode() in text for text in shown)
        job.signal(signal.SIGINT)
        assert job.finish() == 130, job.err


@pytest.mark.parametrize(
    "words, code, said",
    [
        (("train", "--hosts", "alpha,nobody.invalid", *JOB), 2, "--hosts nobody.invalid: nobody.invalid is no host: "),
        (("train", "--hosts", "", *JOB), 2, "--hosts: '' is no host's name"),
        (("train", "--hosts=-oProxyCommand=x", *JOB), 2, "--hosts: '-oProxyCommand=x' is no host's name"),
        (("train", "--hosts", "alpha", "--join", "127.0.0.1:1", *JOB), 2, "--hosts starts a whole job, and --join takes part in one; leave one out"),
        (("train", "--hosts", "alpha", "--reference", *JOB), 2, "--reference trains alone, in one process here; leave --hosts out"),
        (("train", "--hosts", "alpha", "--bind", "unix:/tmp/x", *JOB), 2, "--bind unix:/tmp/x is a file of this machine, which --hosts cannot reach"),
        (("train", "--hosts", "alpha", "--pass", "NO_SUCH", *JOB), 2, "--pass NO_SUCH: this process has no variable of that name"),
        (("run", "--hosts", "alpha", "--", "sh", "-c", "exit 255"), 1, "worker 0 on alpha exited with code 255, which is ssh's when it does not reach a machine"),
        (("run", "--hosts", "alpha", "--pass", "NO_SUCH", "--", "true"), 2, "--pass NO_SUCH: this process has no variable of that name"),
        (("run", "--hosts", "alpha", "--", "true"), 1, "worker 0 on alpha ended without joining the job; a program that 'paceline run' starts joins by"),
        (("run", "--hosts", "alpha", "--", "./no-such-program"), 1, "cannot start ./no-such-program: No such file or directory"),
        (("train", "--hosts", "alpha", "--remote", "/no/such/paceline", *JOB), 1, " on alpha exited with code 127: no such program there; --remote says where paceline lies"),
    ],
    ids=["no host", "empty", "an option", "join", "reference", "a file", "pass to train", "code of ssh", "pass", "no job", "no program", "no paceline"],
)  # fmt: skip
def test_what_is_wrong_is_said(sshd, words, code, said):
    command, *rest = words
    with Process(command, "--ssh", sshd.ssh, *rest) as job:
        assert job.finish() == code, job.err
        assert said in job.the_error()
    wait_until("nothing is left there", lambda: not sshd.descendants())


@pytest.mark.parametrize("words", [("--ssh", "ssh"), ("--remote", "x"), ("--pass", "HOME")], ids=lambda words: words[0])
def test_options_of_hosts_without_hosts_are_refused(words):
    with Process("train", *words, *JOB) as job:
        assert job.finish() == 2
        assert job.the_error() == f"{words[0]} is for --hosts; give it, or leave {words[0]} out"


def test_a_machine_that_ssh_does_not_reach_is_named(tmp_path, sshd):
    held = keep_port()
    ssh = f"ssh -F {ssh_command_to(tmp_path, held.getsockname()[1])} -o BatchMode=yes"
    with Process("train", "--hosts", "gamma", "--ssh", ssh, *JOB) as job:
        assert job.finish() == 1
        assert " on gamma exited with code 255, which is ssh's when it does not reach a machine" in job.the_error()
        assert "on gamma] ssh: connect to host" in job.err or "on gamma] kex_exchange" in job.err, job.err


def test_an_ssh_that_fails_is_named_too():
    with Process("train", "--hosts", "localhost", "--ssh", "false", *JOB) as job:
        assert job.finish() == 1
        assert job.the_error().endswith(" on localhost exited with code 1")


def ssh_command_to(folder, port):
    config = folder / "config"
    config.write_text(f"Host gamma\n  HostName 127.0.0.1\n  Port {port}\n")
    return config


def test_who_asks_paceline_hosted_by_hand_is_told():
    with Process("hosted", prefix=["sh", "-c", '"$@" </dev/null', "sh"]) as asked:
        assert asked.finish() == 2
        assert asked.the_error() == "'paceline hosted' is for 'paceline run --hosts' and 'paceline train --hosts'"


@pytest.mark.parametrize("more, reachable", [((), True), (("--remote", "/no/such/paceline"), False)], ids=["there", "no paceline"])
def test_doctors_are_started_by_ssh_and_end_with_it(sshd, more, reachable):
    with keep_port() as held:
        words = [f"{name}:{held.getsockname()[1]}" for name in NAMES][:1]
        with Process("doctor", "--json", "--start", "--ssh", sshd.ssh, *more, *words) as doctor:
            assert doctor.finish() == (0 if reachable else 1), doctor.err
    (host,) = doctor.report()["hosts"]
    assert host["reachable"] == reachable and host["way"]["address"] == "127.0.0.1"
    if not reachable:
        assert f"the doctor on {words[0]} exited with code 127: " in host["reason"] and "no answer: the doctor on" in host["findings"][0]["what"], host
    wait_until("nothing is left there", lambda: not sshd.descendants())


@pytest.mark.full
def test_hosts_of_a_lab_train_together_by_one_command(tmp_path):
    if not rights():
        return  # test_lab holds how that is refused
    with Hosts(3) as hosts:
        servers = [Sshd(tmp_path / "ssh", address, 22, hosts.at(number)) for number, address in enumerate(hosts.addresses)]
        try:
            ssh = ssh_command(tmp_path / "ssh", {f"node{number}": address for number, address in enumerate(hosts.addresses)}, 22)
            with Process("train", "--json", "--hosts", "node0,node1,node2", "--ssh", ssh, *JOB, prefix=[str(word) for word in hosts.at(0)]) as job:
                assert job.finish() == 0, job.err
                report = job.report()
            assert report["servers"] == 3 and report["parameters_hash"] == reference("--workers", 3, *JOB)["parameters_hash"]
            assert report["security"] == "psk"
        finally:
            for server in servers:
                server.__exit__()
