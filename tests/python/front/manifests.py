"""Checks Kubernetes manifests against two collections of schemas, in the environment of `scripts/setup kubernetes`: manifests.py FILE...

kubernetes-validate knows what Kubernetes itself takes, and refuses unknown keys; of a kind that it does not know it only warns, which counts
as refused here. The models of kubeflow-trainer-api know JobSet, TrainJob and runtimes: types and what is required. They drop keys that they
do not know, so what comes back has to be what went in. The Jobs inside a JobSet or a runtime are looked at by the former too.
"""

import contextlib
import io
import sys
from pathlib import Path

import kubeflow_trainer_api.models as models
import yaml
from kubernetes_validate.utils import validate_resource
from pydantic import ValidationError

VERSION = "1.37"
MODELS = {
    "jobset.x-k8s.io/v1alpha2 JobSet": models.JobsetV1alpha2JobSet,
    "trainer.kubeflow.org/v1alpha1 ClusterTrainingRuntime": models.TrainerV1alpha1ClusterTrainingRuntime,
    "trainer.kubeflow.org/v1alpha1 TrainJob": models.TrainerV1alpha1TrainJob,
}


def by_kubernetes(document):
    """What is wrong with it, "" if nothing is."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = validate_resource(resource=document, filename="", version=VERSION, strict=True, quiet=True, no_warn=False)
    return said.getvalue().strip() or ("refused" if code else "")


def by_model(model, document):
    try:
        back = model.from_dict(document).to_dict()
    except (ValidationError, AttributeError, TypeError) as problem:
        return str(problem)
    return difference(document, back, "")


def difference(given, back, where):
    """The first place where they are not the same."""
    if isinstance(given, dict) and isinstance(back, dict):
        for key in sorted(given.keys() | back.keys()):
            if key not in back or key not in given:
                return f"{where}.{key} is no key there"
            if found := difference(given[key], back[key], f"{where}.{key}"):
                return found
        return ""
    if isinstance(given, list) and isinstance(back, list) and len(given) == len(back):
        pairs = enumerate(zip(given, back, strict=True))
        return next(filter(None, (difference(one, other, f"{where}[{at}]") for at, (one, other) in pairs)), "")
    return "" if given == back else f"{where} is {given!r}, and {back!r} for the model"


def jobs_of(document):
    """The Jobs that a JobSet, or a runtime's, is made of."""
    spec = document["spec"]
    inner = spec["template"]["spec"] if document["kind"] == "ClusterTrainingRuntime" else spec
    return [{"apiVersion": "batch/v1", "kind": "Job", **job["template"]} for job in inner.get("replicatedJobs", ())]


def problem_of(document):
    model = MODELS.get(f"{document['apiVersion']} {document['kind']}")
    if model is None:
        return by_kubernetes(document)
    return by_model(model, document) or "".join(by_kubernetes(job) for job in jobs_of(document))


def main():
    refused = 0
    for file in map(Path, sys.argv[1:]):
        for document in yaml.safe_load_all(file.read_text()):
            problem = problem_of(document)
            refused += bool(problem)
            print(f"{file.name} {document['kind']}: {f'refused: {problem}' if problem else 'as its schema says'}".replace("\n", " "))
    sys.exit(1 if refused else 0)


if __name__ == "__main__":
    main()
