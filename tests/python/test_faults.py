"""What happens to a job when a process dies, freezes, is interrupted, or a gradient is not finite."""

import json
import os
import re
import signal
import time

import pytest

from jobs import DEADLINE, LENET, SLACK, Job, Process, full, is_running, reference, wait_until, words_of

REAL = ("--model", "vgg-19-32", "--dataset", "synthetic:3x32x32,samples=1200,test=10")
FOREVER = (*LENET, "--iterations", 1_000_000)
ENDLESS = (*FOREVER, "--deadline", f"{DEADLINE:g}s")
# Who is frozen is only silent. Who is killed is noticed by something else, long before.
LOST = {signal.SIGKILL: (*FOREVER, "--deadline", "1h"), signal.SIGSTOP: ENDLESS}
MEMBERS = ("worker 1", "worker 0", "server 0", "coordinator")


def seconds_to_end(job):
    began = time.monotonic()
    code = job.finish(60)
    return code, time.monotonic() - began


def names(message, culprit):
    assert culprit in message, message
    # Nobody else is accused.
    for other in re.findall(r"\b(?:worker|server) \d+\b", message.split(" waited for ")[0]):
        assert other == culprit, message


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_a_lost_process_that_is_worker_and_server_is_named_as_one(number, tmp_path):
    with Job(tmp_path, *LOST[number], "--workers", 3, "--role", "both") as job:
        job.wait_for_iterations(3)
        assert len(job.family()) == 5  # launcher, coordinator, three that are both
        os.kill(job.children()["worker 1"], number)
        code, took = seconds_to_end(job)
        assert code == 1, (code, job.err)
        assert took < DEADLINE + 2 + SLACK, job.err
        assert job.the_error().startswith("worker 1 with server 1 "), job.err


@pytest.mark.parametrize("culprit", MEMBERS)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_a_lost_process_ends_the_job_within_the_deadline_and_is_named(number, culprit, tmp_path):
    with Job(tmp_path, *LOST[number], "--workers", 2, "--servers", 2) as job:
        job.wait_for_iterations(3)
        os.kill(job.children()[culprit], number)
        code, took = seconds_to_end(job)
        assert code == 1, (code, job.err)
        assert took < DEADLINE + 2 + SLACK, job.err
        names(job.the_error(), culprit)
        if culprit.startswith("worker"):
            assert re.search(r"at layer \S+ of iteration \d+|after it had told of iteration \d+", job.the_error()), job.err
        assert job.out == ""


def test_when_the_coordinator_is_killed_the_error_says_how_to_go_on(tmp_path):
    saved = tmp_path / "saved"
    with Job(tmp_path, *LOST[signal.SIGKILL], "--workers", 2, "--checkpoint", saved, "--checkpoint-every", 5) as job:
        wait_until("a checkpoint is whole", lambda: list(saved.glob("0*/manifest.json")))
        os.kill(job.children()["coordinator"], signal.SIGKILL)
        assert seconds_to_end(job)[0] == 1, job.err
        assert re.search(rf"\. The last checkpoint is {saved}/\d+; go on with --checkpoint {saved} --resume", job.the_error()), job.err


def test_when_the_launcher_is_killed_nothing_is_left(tmp_path):
    with Job(tmp_path, *ENDLESS, "--workers", 2, "--servers", 2) as job:
        job.wait_for_iterations(3)
        assert len(job.family()) == 6
        job.signal(signal.SIGKILL)
        wait_until("all children are gone", lambda: not job.family(), 2 + SLACK)


@pytest.mark.parametrize("workers", [1, 2])
def test_lists_of_processes_say_who_a_worker_is_and_not_what_it_does(workers, tmp_path):
    with Job(tmp_path, *ENDLESS, "--workers", workers) as job:
        job.wait_for_iterations(1)
        children = job.children()
        assert [f"worker {rank}" in children for rank in range(workers)] == [True] * workers
        assert not [word for name, pid in children.items() if name.startswith("worker") for word in words_of(pid) if "mini-batch" in word]


def test_a_program_that_is_killed_before_it_joins_ends_the_job_at_once_and_not_at_the_deadline():
    with Process("run", "--workers", 2, "--servers", 1, "--deadline", "1000s", "--", "sh", "-c", "kill -9 $$") as job:
        assert job.finish(10 + SLACK) == 1, job.err
        assert re.search(r"worker [01] \(process \d+\) was killed by signal 9", job.the_error()), job.err


@pytest.mark.parametrize("program", [("/bin/true",), ("sh", "-c", "test $PACELINE_RANK = 1 || exec sleep 600")], ids=["all", "one"])
def test_a_program_that_ends_without_joining_ends_the_job_at_once(program):
    with Process("run", "--workers", 2, "--servers", 1, "--", *program) as job:
        assert job.finish(10 + SLACK) == 1, job.err
        assert re.search(r"worker [01] \(process \d+\) ended without joining the job", job.the_error()), job.err
        assert not job.family()


@pytest.mark.parametrize("how", [("--servers", 2), full(("--collective", "loop3"))], ids=["servers", "collective"])
def test_a_signal_to_any_worker_lets_the_job_end_as_one_to_the_launcher_does(how, tmp_path):
    with Job(tmp_path, *ENDLESS, *how, "--workers", 2, "--json", "--checkpoint", tmp_path / "c") as job:
        job.wait_for_iterations(2)
        os.kill(job.children()["worker 1"], signal.SIGTERM)
        assert job.finish(10 + SLACK) == 130, job.err
        report = json.loads(job.out)
        assert len({worker["iterations"] for worker in report["per_worker"]}) == 1 and report["checkpoint"], report


def forking(job):
    """The process that loads LibTorch and then forks the workers, while it is there."""
    for pid in job.family():
        words = words_of(pid)
        if words[0].endswith("paceline-trainer") and words[1].startswith("["):
            return pid


@pytest.mark.parametrize("moment", ["loading", "forked"])
def test_when_the_launcher_is_killed_while_workers_start_nothing_is_left(moment, tmp_path):
    with Job(tmp_path, *ENDLESS, "--workers", 4) as job:
        wait_until("workers are started", (lambda: forking(job)) if moment == "loading" else (lambda: "worker 0" in job.children()))
        job.signal(signal.SIGKILL)
        wait_until("all children are gone", lambda: not job.family(), 2 + SLACK)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_a_trainer_lost_while_it_loads_ends_the_job(number, tmp_path):
    with Job(tmp_path, *ENDLESS, "--workers", 3) as job:
        os.kill(wait_until("workers are started", lambda: forking(job)), number)
        if number == signal.SIGSTOP:  # nobody waits for a member that has not joined yet, but the user may end it
            job.signal(signal.SIGINT)
        code, took = seconds_to_end(job)
        assert code == (1 if number == signal.SIGKILL else 130), (code, job.err)
        assert took < DEADLINE + 3 + SLACK
        assert number == signal.SIGSTOP or "the trainer" in job.the_error()


@pytest.mark.parametrize("culprit", ["worker 0", "server 1", "coordinator"])
def test_a_process_lost_before_the_job_begins_is_named(culprit, tmp_path):
    with Job(tmp_path, *ENDLESS, "--workers", 3, "--servers", 2) as job:
        os.kill(wait_until(culprit, lambda: job.children().get(culprit)), signal.SIGKILL)
        code, took = seconds_to_end(job)
        assert code == 1, (code, job.err)
        assert took < DEADLINE + 3 + SLACK
        assert culprit in job.the_error()


@pytest.mark.parametrize("frozen", ["worker 1", full("server 0"), full("coordinator"), "launcher"])
def test_a_short_freeze_changes_no_bit(frozen, tmp_path):
    task = (*LENET, "--iterations", 60)
    with Job(tmp_path, *task, "--workers", 2, "--servers", 1, "--deadline", "10s") as job:
        job.wait_for_iterations(3)
        pid = job.pid if frozen == "launcher" else job.children()[frozen]
        os.kill(pid, signal.SIGSTOP)
        time.sleep(1)  # the length of the freeze, not a way to wait for something
        os.kill(pid, signal.SIGCONT)
        assert job.finish() == 0, job.err
        assert job.report()["parameters_hash"] == reference(*task, "--workers", 2)["parameters_hash"]


SYNCS = (("bsp",), ("asp",), ("ssp", "--staleness", 0), ("elastic-bsp",))
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize("sync, number", [(sync, number) if (i + j) % 2 == 0 else full(sync, number) for i, sync in enumerate(SYNCS) for j, number in enumerate(SIGNALS)])
def test_the_first_interrupt_finishes_the_iteration_and_reports(number, sync, tmp_path):
    with Job(tmp_path, *ENDLESS, "--workers", 3, "--servers", 2, "--sync", *sync) as job:
        job.wait_for_iterations(3)
        job.signal(number)
        code, took = seconds_to_end(job)
        assert code == 130, (code, job.err)
        assert took < DEADLINE + 2 + SLACK
        assert "interrupted" in job.the_error()
        report = job.report()
        assert report["iterations"] >= (3 if sync[0] == "bsp" else 1)
        if sync[0] == "bsp":
            done = report["iterations"]
            assert [worker["iterations"] for worker in report["per_worker"]] == [done] * 3
            assert report["parameters_hash"] == reference(*LENET, "--iterations", done, "--workers", 3)["parameters_hash"]


# Quick iterations and many workers: some are told to stop an iteration earlier than others, and none may wait for one that stands still.
@pytest.mark.parametrize("attempt", [0, full(1), full(2)])
def test_an_interrupt_between_short_iterations_leaves_nobody_waiting(attempt, tmp_path):
    task = ("--model", "mlp", "--dataset", "synthetic:1x28x28", "--mini-batch", 1, "--iterations", 1_000_000)
    with Job(tmp_path, *task, "--workers", 4, "--servers", 1, "--deadline", "10s") as job:
        job.wait_for_iterations(2 + 3 * attempt)
        job.signal(signal.SIGINT)
        code, took = seconds_to_end(job)
        assert code == 130, (code, job.err)
        assert took < 2 + SLACK
        assert len({worker["iterations"] for worker in job.report()["per_worker"]}) == 1


@pytest.mark.parametrize("computing", ["replayed", full("real")])
@pytest.mark.parametrize("number", [signal.SIGINT, full(signal.SIGTERM)], ids=["SIGINT", "SIGTERM"])
def test_two_interrupts_end_at_once(number, computing, tmp_path):
    # One iteration takes longer than a second, so the first interrupt alone would not be enough.
    task = an_iteration_of(3, tmp_path) if computing == "replayed" else (*REAL, "--mini-batch", 64)
    with Job(tmp_path, *task, "--iterations", 1000, "--workers", 2) as job:
        job.wait_for_iterations(1)
        job.signal(number)
        time.sleep(0.1)  # two signals at the same moment may count as one
        job.signal(number)
        code, took = seconds_to_end(job)
        assert code == 130, (code, job.err)
        assert took < 1.5 + SLACK
        job.the_error()


def test_an_interrupt_while_workers_start_ends_the_job(tmp_path):
    with Job(tmp_path, *ENDLESS, "--workers", 2) as job:
        wait_until("the coordinator", lambda: job.children().get("worker 1"))
        job.signal(signal.SIGINT)
        code, took = seconds_to_end(job)
        assert code == 130, (code, job.err)
        assert took < 2 + SLACK
        assert "interrupted" in job.the_error()


def test_the_reference_can_be_interrupted():
    with Process("train", "--reference", "--json", *LENET, "--iterations", 1_000_000, "--workers", 2) as job:
        # It has no metrics to look at; a second of its own computing is behind the start.
        pid = wait_until("the trainer", lambda: [pid for pid in job.family() if pid != job.pid])[0]
        wait_until("it trains", lambda: cpu_seconds(pid) > 3)
        job.signal(signal.SIGINT)
        assert job.finish(10 + SLACK) == 130, job.err
        assert job.report()["iterations"] >= 1


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def an_iteration_of(seconds, folder):
    table = folder / "slow.json"
    table.write_text(json.dumps({"layers": [{"name": "slow", "parameters": 1000, "forward_s": seconds / 2, "backward_s": seconds / 2}]}))
    return ("--model", f"replay:{table}")


def test_an_iteration_longer_than_the_deadline_is_healthy(tmp_path):
    task = an_iteration_of(1.5 * DEADLINE, tmp_path)
    with Process("train", "--json", *task, "--deadline", f"{DEADLINE:g}s", "--iterations", 2, "--workers", 1, "--servers", 2) as job:
        assert job.finish() == 0, job.err
        assert job.report()["iteration_seconds"]["max"] > DEADLINE


@pytest.mark.full
def test_real_computing_longer_than_the_deadline_is_healthy():
    longest = 0
    for mini_batch in (192, 384, 768):  # as large as this machine needs it
        with Process("train", "--json", *REAL, "--deadline", f"{DEADLINE:g}s", "--mini-batch", mini_batch, "--iterations", 2, "--workers", 1, "--servers", 2) as job:
            assert job.finish() == 0, job.err
            longest = job.report()["iteration_seconds"]["max"]
        if longest > 1.2 * DEADLINE:
            return
    assert False, f"no iteration was longer than the deadline: {longest} s"


def test_a_gradient_that_is_not_finite_stops_the_job_and_is_named():
    with Process("train", "--json", *LENET, "--iterations", 30, "--learning-rate", 1e30, "--workers", 2, "--servers", 2) as job:
        assert job.finish() == 1, job.err
        message = job.the_error()
        assert re.search(r"worker [01]\b", message) and re.search(r"iteration [23]\b", message), message
        assert re.search(r"layer \d+", message) and "--non-finite" in message, message
        assert job.out == ""


@pytest.mark.parametrize("policy", ["apply", "skip"])
def test_other_policies_go_on(policy):
    with Process("train", "--json", *LENET, "--iterations", 6, "--learning-rate", 1e30, "--non-finite", policy, "--workers", 2) as job:
        assert job.finish() == 0, job.err
        report = job.report()
        assert report["iterations"] == 6
        assert report["loss_last"] is None, "a loss that is not finite is null in JSON"


@pytest.mark.full
def test_a_job_works_on_a_machine_that_is_busy():
    """The job gets what two greedier loops leave it."""
    busy = [os.spawnlp(os.P_NOWAIT, "sh", "sh", "-c", "while :; do :; done") for _ in range(2)]
    try:
        task = (*LENET, "--iterations", 10)
        with Process("train", "--json", *task, "--workers", 2, "--servers", 2, prefix=("nice", "-n", "5")) as job:
            assert job.finish() == 0, job.err
            assert job.report()["parameters_hash"] == reference(*task, "--workers", 2)["parameters_hash"]
    finally:
        for pid in busy:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    assert not any(map(is_running, busy))
