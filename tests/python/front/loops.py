"""A training script written once and run twice: attached, ranks as threads; and plain, as one process that sums in rank order.

A script is a generator: it yields where the gradients of all ranks would be exchanged (after its last backward pass) and does nothing else
for the comparison. Attached, nobody cares about the yields. Plain, there is a replica for each rank, so that buffers are each rank's own.
"""

import copy
import hashlib
import contextlib

import paceline.torch as pt
import standin
import torch


def same_mean(gradients):
    """Sum in rank order in float32, times float32(1/W); None if nobody has one."""
    if all(gradient is None for gradient in gradients):
        return None
    total = torch.zeros_like(next(g for g in gradients if g is not None), dtype=torch.float32)
    for gradient in gradients:
        if gradient is not None:
            total += gradient.to(torch.float32)
    return total * (1.0 / len(gradients))


class Plain:
    """Stands where a job stands in the script."""

    workers = 1
    stopping = False

    def no_sync(self):
        return contextlib.nullcontext()

    def samples(self, count):
        self.count = count

    def synchronize(self):
        pass

    def close(self):
        pass


def plain(workers, template, make, script, weigh=None):
    """[(model, optimizer, log)] of each rank."""
    models = [copy.deepcopy(template) for _ in range(workers)]
    optimizers = [make(model) for model in models]
    jobs, logs = [Plain() for _ in models], [[] for _ in models]
    running = [script(*parts) for parts in zip(models, optimizers, range(workers), jobs, logs)]
    while running:
        rests = [next(one, "end") for one in running]
        assert all(rest == rests[0] for rest in rests), "all ranks of a script have as many exchanges"
        if rests[0] == "end":
            break
        for parameters in zip(*(model.parameters() for model in models)):
            mean = (weigh or (lambda gradients, jobs: same_mean(gradients)))([p.grad for p in parameters], jobs)
            for parameter in parameters:
                parameter.grad = None if mean is None else mean.to(parameter.dtype).clone(memory_format=torch.preserve_format)
    return list(zip(models, optimizers, logs))


def attached(workers, template, make, script, seed=0, prepare=None, **choices):
    """The same by attach(); other ranks start from other numbers, which must not matter."""

    def body(rank, join):
        model = copy.deepcopy(template)
        if rank:
            with torch.no_grad():
                for tensor in [*model.parameters(), *model.buffers()]:
                    tensor.zero_()
        if prepare:
            prepare(model)
        optimizer = make(model)
        log = []
        job = pt.attach(model, optimizer, join=join, **choices)
        for _ in script(model, optimizer, rank, job, log):
            pass
        job.close()
        return model, optimizer, log

    return standin.run(workers, body, seed)


def bits(value):
    """A hash of everything that is a number in a nest of containers."""
    digest = hashlib.sha256()

    def add(part):
        if isinstance(part, torch.Tensor):
            digest.update(f"{part.dtype}{tuple(part.shape)}".encode())
            digest.update(part.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes() if part.numel() else b"")
        elif isinstance(part, dict):
            for key, inner in part.items():
                digest.update(repr(key).encode())
                add(inner)
        elif isinstance(part, (list, tuple)):
            for inner in part:
                add(inner)
        else:
            digest.update(repr(part).encode())

    add(value)
    return digest.hexdigest()[:16]


def state_of(model, optimizer):
    return {
        **{name: bits(tensor) for name, tensor in model.state_dict().items()},
        **{f"state {key}": bits(part) for key, part in optimizer.state_dict()["state"].items()},
        "groups": bits([{k: v for k, v in g.items()} for g in optimizer.state_dict()["param_groups"]]),
    }


def compare(template, make, script, workers=2, seed=0, weigh=None, **choices):
    """Parameters, buffers, optimizer state, groups and log of every rank, to the last bit."""
    reference = plain(workers, template, make, script, weigh)
    result = attached(workers, template, make, script, seed, **choices)
    for rank, (one, other) in enumerate(zip(reference, result)):
        expected, found = state_of(*one[:2]), state_of(*other[:2])
        assert found == expected, f"rank {rank}, seed {seed}: {[name for name in expected if found.get(name) != expected[name]]} differ"
        assert one[2] == other[2], f"rank {rank}, seed {seed}: what the script has seen differs"
    return result
