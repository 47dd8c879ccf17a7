"""Pods without a Kubernetes: what a JobSet's manifest says of variables, arguments, volumes, probes and names, on hosts of a lab.

Each pod has a network, files and process numbers of its own, and its container's process is number 1 there, as in a cluster: a signal that
it has no handler for does nothing to it. What controllers add to a pod this adds too: its index, its name, its address; and it waits as they
do for those that have to be ready before.
"""

import itertools
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import yaml
from chaos_hosts import Hosts
from processes import ROOT, variables

from jobs import PROGRAM, wait_until

MANIFESTS = ROOT / "examples/kubernetes"
INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
# What stands for the image: its PATH, and where the package and its library are.
PLACES = f"{Path(sys.executable).parent}:{Path(PROGRAM).resolve().parent}:/usr/sbin:/usr/bin:/sbin:/bin"
IMAGE = {"PATH": PLACES, "HOME": "/root", "PYTHONUNBUFFERED": "1"}
IMAGE |= {name: value for name, value in variables().items() if name in ("PYTHONPATH", "PACELINE_LIBRARY", "OMP_NUM_THREADS")}


def documents(file):
    return list(yaml.safe_load_all((MANIFESTS / file).read_text()))


def jobset_of(file):
    return next(document for document in documents(file) if document["kind"] == "JobSet")


def as_trainer(file):
    """The JobSet that Kubeflow's Trainer makes of a runtime and a TrainJob with torchrun."""
    runtime, job = documents(file)
    jobset = {"metadata": {"name": job["metadata"]["name"]}, **runtime["spec"]["template"]}
    (node,) = jobset["spec"]["replicatedJobs"]
    spec, name = node["template"]["spec"], f"{job['metadata']['name']}-node-0-0.{job['metadata']['name']}"
    (container,) = spec["template"]["spec"]["containers"]
    wanted = job["spec"]["trainer"]
    spec.update(completionMode="Indexed", completions=wanted["numNodes"], parallelism=wanted["numNodes"])
    container["command"] = wanted["command"]
    told = {"PET_NNODES": wanted["numNodes"], "PET_NPROC_PER_NODE": wanted["numProcPerNode"]}
    told |= {"PET_MASTER_ADDR": name, "PET_MASTER_PORT": 29400}
    container["env"] += [{"name": key, "value": str(value)} for key, value in told.items()]
    container["env"] += [{"name": "PET_NODE_RANK", "valueFrom": {"fieldRef": {"fieldPath": INDEX}}}]
    return jobset


def secret(folder, key):
    """A Secret's volume, as a kubelet lays it out: the files are links into a folder that is exchanged as a whole."""
    held = folder / "..2026_11_27_00_00_00.000000001"
    held.mkdir(parents=True)
    (folder / "..data").symlink_to(held.name)
    (held / key.name).write_bytes(key.read_bytes())
    (folder / key.name).symlink_to(f"..data/{key.name}")


class Pod:
    def __init__(self, jobset, job, index):
        self.job, self.index = job["name"], index
        self.name = f"{jobset['metadata']['name']}-{self.job}-0-{index}"
        self.spec = job["template"]["spec"]["template"]["spec"]
        (self.container,) = self.spec["containers"]

    def start(self, folder, host, address, names, volumes, more):
        self.address, self.log = address, folder / f"{self.name}.log"
        env = {**IMAGE, "HOSTNAME": self.name, "KUBERNETES_SERVICE_HOST": "10.96.0.1", "JOB_COMPLETION_INDEX": str(self.index)}
        fields = {INDEX: str(self.index), "status.podIP": address}
        for variable in self.container["env"]:
            value = variable["value"] if "value" in variable else fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
            env[variable["name"]] = self.expanded(value, env)
        words = [self.expanded(word, env) for word in (*self.container["command"], *self.container.get("args", ()), *more)]
        places = {volume["name"]: volumes[volume["name"]] for volume in self.spec["volumes"]}
        for volume in self.spec["volumes"]:
            if "secret" in volume:
                os.chmod((places[volume["name"]] / "job.key").resolve(), volume["secret"]["defaultMode"])
        steps = ["mount --make-rprivate /", f"mount --bind {shlex.quote(str(names))} /etc/hosts"]
        steps += ["mount -t tmpfs none /run", "mount -t tmpfs none /mnt"]
        for mount in self.container["volumeMounts"]:
            there = mount["mountPath"]
            steps += [f"mkdir -p {there}", f"mount --bind {shlex.quote(str(places[mount['name']]))} {there}"]
            steps += [f"mount -o remount,bind,ro {there}"] if mount.get("readOnly") else []
        alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        command = [*map(str, host), *alone, "sh", "-c", " && ".join([*steps, 'exec "$@"']), "sh", *words]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command, env=env, cwd=ROOT, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def expanded(self, text, env):
        """As Kubernetes does it: $(NAME) of a variable that is known."""
        return re.sub(r"\$\((\w+)\)", lambda found: env.get(found[1], found[0]), str(text))

    @property
    def first(self):
        """Process number 1 of the pod, as this machine counts; None: there is none yet, or no more."""
        try:
            children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
            return int(children[0]) if children else None
        except FileNotFoundError:
            return None

    def ready(self):
        assert self.process.poll() is None, (self.name, self.said())
        time.sleep(0.2)  # as probes are not asked all the time either
        first, probe = self.first, self.container["readinessProbe"]["exec"]["command"]
        return first is not None and subprocess.run(["nsenter", "-t", str(first), "-m", "-n", "-p", *probe], env=IMAGE).returncode == 0

    def listens(self):
        """Whether it has a TCP port of its own."""
        assert self.process.poll() is None, (self.name, self.said())
        first = self.first
        return first is not None and any(line.split()[3] == "0A" for line in Path(f"/proc/{first}/net/tcp").read_text().splitlines()[1:])

    def signal(self, number):
        os.kill(self.first, number)

    def end(self, limit=120):
        """Its exit code."""
        return self.process.wait(timeout=limit)

    def said(self):
        return self.log.read_text()


class Pods:
    """All pods of a JobSet. Their names have addresses as soon as they have been started, or with `names_late` when `publish` is called.

    more: {name of a replicated job: words behind its command}, to try things out.
    """

    def __init__(self, folder, jobset, volumes, names_late=False, more=None):
        folder.mkdir()
        self.folder, self.volumes, self.more = folder, volumes, more or {}
        self.subdomain = jobset["metadata"]["name"]
        jobs = jobset["spec"]["replicatedJobs"]
        counts = {job["name"]: job["template"]["spec"].get("completions", 1) for job in jobs}
        self.jobs = {job["name"]: [Pod(jobset, job, index) for index in range(counts[job["name"]])] for job in jobs}
        self.names = folder / "hosts"
        self.names.write_text("127.0.0.1 localhost\n")
        self.hosts = Hosts(len(self.all()))
        try:
            self.start(jobs, names_late)
        except BaseException:
            self.__exit__()
            raise

    def start(self, jobs, names_late):
        free = itertools.count()
        for job in jobs:
            for awaited in job.get("dependsOn", ()):
                assert awaited["status"] == "Ready"
                wait_until(f"{awaited['name']} is ready", lambda name=awaited["name"]: all(pod.ready() for pod in self.jobs[name]))
            for pod in self.jobs[job["name"]]:
                host, more = next(free), self.more.get(pod.job, ())
                pod.start(self.folder, self.hosts.at(host), self.hosts.addresses[host], self.names, self.volumes, more)
            if not names_late:
                self.publish()

    def publish(self):
        with open(self.names, "a") as file:
            for pod in self.all():
                if hasattr(pod, "process") and f" {pod.name}." not in self.names.read_text():
                    file.write(f"{pod.address} {pod.name}.{self.subdomain}\n")

    def all(self):
        return [pod for pods in self.jobs.values() for pod in pods]

    def terminate(self):
        """As when the JobSet is deleted or suspended: all at once. Who has a preStop hook would hear of it after that: here, never."""
        for pod in self.all():
            if "preStop" not in pod.container.get("lifecycle", {}):
                pod.signal(15)

    def end(self):
        return [pod.end() for pod in self.all()]

    def said(self):
        return "".join(f"--- {pod.name}\n{pod.said()}" for pod in self.all())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pod in self.all():
            if hasattr(pod, "process"):
                pod.process.kill()  # and what it has started, by --kill-child
                pod.process.wait()
        self.hosts.__exit__()
