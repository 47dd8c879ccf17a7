"""Has PyTorch's tests that ask for GPUs run in the host's memory, the same way for every backend.

Most of them test what DistributedDataParallel does, for which the place of its tensors does not matter; one for which it does fails with
gloo too.
"""

import functools

import torch
from torch.overrides import TorchFunctionMode


def on_gpu(place):
    """Whether a device, or its number, is one that is not here."""
    if isinstance(place, (str, torch.device)):
        return torch.device(place).type == "cuda"
    return isinstance(place, int) and not isinstance(place, bool)


class InMemory(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), named=None):
        named = dict(named or {})
        if on_gpu(named.get("device")):
            named["device"] = "cpu"
        if function is torch.Tensor.cuda:
            return args[0]
        if function is torch.Tensor.to and len(args) > 1 and on_gpu(args[1]):
            args = (args[0], "cpu", *args[2:])
        return function(*args, **named)


def marked(test):
    test.for_gpus = True
    return test


def without_devices(init):
    @functools.wraps(init)
    def begin(self, module, device_ids=None, output_device=None, *given, **named):
        init(self, module, None, None, *given, **named)

    return begin


def instead_of_gpus(world):
    """Before any test is imported. Its tests for GPUs have `for_gpus`."""
    from torch.testing._internal import common_distributed as common

    common.skip_if_no_gpu = marked
    common.skip_if_lt_x_gpu = common.requires_nccl = common.requires_accelerator_dist_backend = lambda *_, **__: marked
    for name in ("set_device", "synchronize", "manual_seed", "manual_seed_all"):
        setattr(torch.cuda, name, lambda *_, **__: None)
    torch.cuda.device_count = lambda: world
    run = common.MultiProcessTestCase.run_test

    def run_in_memory(test, *given):
        with InMemory():
            run(test, *given)

    common.MultiProcessTestCase.run_test = run_in_memory
    kind = torch.nn.parallel.DistributedDataParallel
    kind.__init__ = without_devices(kind.__init__)
    to = torch.nn.Module.to
    torch.nn.Module.to = lambda self, *given, **named: to(self, *("cpu" if on_gpu(one) else one for one in given), **named)
