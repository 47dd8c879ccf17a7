"""examples/kubernetes: the schemas take the manifests, and what their pods start trains. No Kubernetes runs (pods.py)."""

import re
import runpy
import signal
import subprocess

import pytest
import torch
from paceline.launch import Launch, launched
from pods import MANIFESTS, Pods, as_trainer, documents, jobset_of, secret
from processes import HERE, ROOT, environment_of, torchrun

from jobs import PROGRAM, wait_until
from test_lab import rights

RESUMED = ROOT / "examples/torch/resumed.py"
STEPS = 60
SLOW = ("--steps", STEPS, "--seconds", 0.1)
NAMED = r"PacelineError: .*\b(worker|server) 1\b"


@pytest.fixture
def volumes(tmp_path):
    subprocess.run([PROGRAM, "key", "new", tmp_path / "job.key"], check=True)
    secret(tmp_path / "key", tmp_path / "job.key")
    (tmp_path / "checkpoints").mkdir()
    return {"key": tmp_path / "key", "checkpoints": tmp_path / "checkpoints"}


def has_the_bits_of_torchrun(volumes, tmp_path):
    (tmp_path / "undisturbed").mkdir()
    ran = torchrun(RESUMED, tmp_path / "undisturbed", "--steps", STEPS, ranks=3)
    assert ran.returncode == 0, ran.stderr
    ours, theirs = (torch.load(folder / "checkpoint.pt")["model"] for folder in (volumes["checkpoints"], tmp_path / "undisturbed"))
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in theirs)


def wait_for_a_save(pods, volumes):
    def saved():
        assert all(pod.process.poll() is None for pod in pods.all()), pods.said()
        return (volumes["checkpoints"] / "checkpoint.pt").exists()

    wait_until("something is saved", saved)


def steps_of(pods):
    """(first, last) as rank 0 says when it leaves."""
    found = re.search(r"3 ranks, steps (\d+) to (\d+)", pods.jobs["worker"][0].said())
    assert found, pods.said()
    return int(found[1]), int(found[2])


def test_told_to_end_pods_leave_after_a_step_and_those_of_the_next_attempt_end_with_the_bits_of_torchrun(tmp_path, volumes):
    if not rights():
        return  # test_lab holds how that is refused
    with Pods(tmp_path / "first", jobset_of("jobset.yaml"), volumes, names_late=True, more={"worker": SLOW}) as first:
        wait_until("rank 0 listens, while no name has an address", first.all()[0].listens)
        assert not any(pod.ready() for pod in first.all())
        first.publish()
        wait_until("all are ready", lambda: all(pod.ready() for pod in first.all()))
        wait_for_a_save(first, volumes)
        first.terminate()
        assert first.end() == [75] * 3, first.said()
        begun, left = steps_of(first)
    assert begun == 1 and 20 <= left < STEPS
    with Pods(tmp_path / "second", jobset_of("jobset.yaml"), volumes, more={"worker": ("--steps", STEPS)}) as second:
        assert second.end() == [0] * 3, second.said()
        assert steps_of(second) == (left + 1, STEPS)
    assert has_the_bits_of_torchrun(volumes, tmp_path)


@pytest.mark.full
def test_of_a_killed_pod_the_others_name_the_rank(tmp_path, volumes):
    if not rights():
        return
    with Pods(tmp_path / "pods", jobset_of("jobset.yaml"), volumes, more={"worker": ("--steps", 10**6, "--seconds", 0.1)}) as pods:
        wait_for_a_save(pods, volumes)
        pods.all()[1].signal(signal.SIGKILL)
        assert 0 not in pods.end(), pods.said()
        for pod in (pods.all()[0], pods.all()[2]):
            assert re.search(NAMED, pod.said()), pods.said()


@pytest.mark.full
def test_servers_and_a_coordinator_in_pods_of_their_own(tmp_path, volumes):
    if not rights():
        return
    with Pods(tmp_path / "first", jobset_of("servers.yaml"), volumes, more={"worker": SLOW}) as first:
        wait_for_a_save(first, volumes)
        assert all(pod.ready() for pod in first.all())
        first.terminate()
        assert first.end() == [130] * 3 + [75] * 3, first.said()
        _, left = steps_of(first)
    with Pods(tmp_path / "second", jobset_of("servers.yaml"), volumes, more={"worker": ("--steps", STEPS)}) as second:
        assert second.end() == [0] * 6, second.said()
        assert steps_of(second) == (left + 1, STEPS)
        assert "3 workers, 2 servers" in second.jobs["coordinator"][0].said(), second.said()
    assert has_the_bits_of_torchrun(volumes, tmp_path)


@pytest.mark.full
def test_a_trainjob_is_torchrun_in_every_pod(tmp_path, volumes):
    if not rights():
        return
    with Pods(tmp_path / "pods", as_trainer("trainjob.yaml"), volumes, more={"node": ("--steps", STEPS)}) as pods:
        assert pods.end() == [0] * 3, pods.said()
    assert has_the_bits_of_torchrun(volumes, tmp_path)


def test_a_script_finds_in_the_manifests_who_it_is():
    store = "train-worker-0-0.train:29500"
    assert launched({**plain("jobset.yaml"), "RANK": "2"}) == Launch("torchrun", 2, 3, store=store, one_machine=False)
    assert launched({**plain("servers.yaml"), "PACELINE_RANK": "2"}) == Launch(
        "Paceline", 2, 3, coordinator="train-coordinator-0-0.train:4100", servers=2, one_machine=False
    )


def plain(file):
    """The variables of its workers whose values are written there."""
    job = jobset_of(file)["spec"]["replicatedJobs"][-1]
    (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
    return {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}


def test_as_many_pods_as_ranks_and_servers():
    jobs = {job["name"]: job["template"]["spec"] for job in jobset_of("servers.yaml")["spec"]["replicatedJobs"]}
    words = jobs["coordinator"]["template"]["spec"]["containers"][0]["command"]
    assert jobs["worker"]["completions"] == jobs["worker"]["parallelism"] == int(plain("servers.yaml")["PACELINE_WORKERS"])
    assert jobs["server"]["completions"] == jobs["server"]["parallelism"] == int(plain("servers.yaml")["PACELINE_SERVERS"])
    assert {f"--workers={jobs['worker']['completions']}", f"--servers={jobs['server']['completions']}"} <= set(words)
    spec = jobset_of("jobset.yaml")["spec"]["replicatedJobs"][0]["template"]["spec"]
    budget = next(document for document in documents("jobset.yaml") if document["kind"] == "PodDisruptionBudget")
    assert spec["completions"] == spec["parallelism"] == int(plain("jobset.yaml")["WORLD_SIZE"]) == budget["spec"]["minAvailable"]


def test_the_image_brings_the_wheel_which_has_the_libraries_that_the_program_and_the_library_need():
    text = (MANIFESTS / "Containerfile").read_text()
    assert "RUN scripts/setup run && scripts/wheel dist && .venv/bin/pip install dist/*.whl" in text
    libraries = runpy.run_path(str(ROOT / "scripts/wheel"))["LIBRARIES"]
    library = ROOT / "build/release/src/library/libpaceline.so"
    linked = subprocess.run(["ldd", PROGRAM, library], capture_output=True, text=True, check=True).stdout
    files = {name for path in re.findall(r"=> (/\S+)", linked) for name in (path, f"/usr{path}")}
    owners = subprocess.run(["dpkg", "-S", *files], capture_output=True, text=True).stdout
    needed = {line.partition(":")[0] for line in owners.splitlines()}
    always = {"libc6", "libgcc-s1", "libstdc++6", "zlib1g"}  # apt and dpkg need them
    assert "libssl3" in needed and needed - always <= {package for package, _ in libraries.values()}
    for copied in re.findall(r"COPY --from=build /opt/paceline/(\S+)", text):
        assert copied == ".venv" or (ROOT / copied).exists(), copied


def checked(*files):
    """What the schemas say of manifests: kubernetes-validate's, and those of Kubeflow's Trainer."""
    return subprocess.run([environment_of("kubernetes"), HERE / "manifests.py", *files], capture_output=True, text=True)


@pytest.mark.full
def test_the_manifests_are_what_the_schemas_say():
    files = sorted(MANIFESTS.glob("*.yaml"))
    done = checked(*files)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(line.partition(":")[0] for line in done.stdout.splitlines()) == sorted(
        ["jobset.yaml JobSet", "jobset.yaml PersistentVolumeClaim", "jobset.yaml PodDisruptionBudget", "servers.yaml JobSet"]
        + ["trainjob.yaml ClusterTrainingRuntime", "trainjob.yaml TrainJob"]
    )


MISTAKES = (
    ("jobset.yaml", "maxRestarts: 10", "maxRestart: 10"),
    ("jobset.yaml", "maxRestarts: 10", 'maxRestarts: "10"'),
    ("jobset.yaml", "backoffLimit: 0", "backofLimit: 0"),
    ("jobset.yaml", "restartPolicy: Never", "restartPolicy: 1"),
    ("jobset.yaml", "defaultMode: 0400", "mode: 0400"),
    ("jobset.yaml", "minAvailable: 3", "minAvailable: [3]"),
    ("jobset.yaml", "unhealthyPodEvictionPolicy", "unhealthyEvictionPolicy"),
    ("jobset.yaml", "kind: PodDisruptionBudget", "kind: PodBudget"),
    ("servers.yaml", "status: Ready }]", "state: Ready }]"),
    ("servers.yaml", "seconds: 30", "second: 30"),
    ("trainjob.yaml", "numProcPerNode: 1", "procPerNode: 1"),
    ("trainjob.yaml", "runtimeRef: { name: paceline }", "runtimeRef: paceline"),
    ("trainjob.yaml", "claimName: train-checkpoints", "claim: train-checkpoints"),
)


@pytest.mark.full
def test_a_manifest_with_an_unknown_key_a_wrong_type_or_an_unknown_kind_is_refused(tmp_path):
    for number, (file, right, wrong) in enumerate(MISTAKES):
        text = (MANIFESTS / file).read_text()
        assert right in text
        (tmp_path / f"{number:02}-{file}").write_text(text.replace(right, wrong, 1))
    done = checked(*sorted(tmp_path.glob("*.yaml")))
    assert done.returncode == 1 and not done.stderr, done.stderr
    refused = [line[:2] for line in done.stdout.splitlines() if ": refused: " in line]
    assert refused == [f"{number:02}" for number in range(len(MISTAKES))], done.stdout
