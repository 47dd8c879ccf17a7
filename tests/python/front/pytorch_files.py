"""PyTorch's tests that do not come with it: files of its test/distributed in a folder, with another backend where they ask for gloo by name.

No text of theirs is changed: functions of torch.distributed that take a backend's name are given this one, and c10d.ProcessGroupGloo, whose
tests ask what its operations do, makes a group of this backend.
"""

import functools
import importlib
import inspect
import multiprocessing
import sys
import types
import unittest


class Name(str):
    """Of a backend, for which every test is meant that is meant for gloo, or for MPI: neither lacks what PyTorch says that only MPI has."""

    def __eq__(self, other):
        return str(other) in (str(self), "gloo", "mpi")

    def __ne__(self, other):
        return not self == other

    __hash__ = staticmethod(lambda: hash("gloo"))


def in_folder(folder, files, backend, gpus):
    """By file, class and name."""
    sys.path.insert(0, folder)
    instead_of_names(backend, ("gloo", "nccl") if gpus else ("gloo",))
    if backend != "gloo":
        instead_of_gloo(backend)
    found = {}
    for file in files:
        module = importlib.import_module(file)
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, unittest.TestCase) and kind.__module__ == file:
                for name in unittest.defaultTestLoader.getTestCaseNames(kind):
                    found[f"{file}.{kind.__name__}.{name}"] = (kind, name)
    return found


def instead_of_names(backend, theirs):
    """Where torch.distributed is asked for one of them, it is asked for the backend. Processes that a test starts by itself are forked, so
    that this is so in them."""
    import torch
    import torch.distributed as dist
    from torch.distributed import distributed_c10d as c10d

    def asking(function):
        takes = inspect.signature(function)

        @functools.wraps(function)
        def ask(*given, **named):
            bound = takes.bind(*given, **named)
            if bound.arguments.get("backend") in theirs:
                bound.arguments["backend"] = backend
            return function(*bound.args, **bound.kwargs)

        return ask

    for name in ("init_process_group", "new_group", "new_subgroups", "new_subgroups_by_enumeration"):
        asked = asking(getattr(c10d, name))
        setattr(c10d, name, asked)
        setattr(dist, name, asked)
    torch.multiprocessing.get_context = lambda method=None: multiprocessing.get_context("fork")


def instead_of_gloo(backend):
    import torch.distributed as dist
    from paceline.torch.backend import process_group
    from torch.distributed import distributed_c10d as c10d

    gloo = c10d.ProcessGroupGloo

    class Standin(process_group.Group):
        """What is asked of a ProcessGroupGloo besides its operations."""

        _Options = gloo._Options
        create_device, create_default_device = gloo.create_device, gloo.create_default_device

        def __new__(cls, store, rank, size, opts=None):
            timeout = getattr(opts, "_timeout", opts) or dist.default_pg_timeout
            ask = types.SimpleNamespace(group_rank=rank, group_size=size, global_ranks_in_group=[], store=store, timeout=timeout)
            return process_group.create(ask, None)

        def __init__(self, *given):
            pass

    for place in (dist, c10d):
        place.ProcessGroupGloo = Standin
    process_group.Group.create_device = staticmethod(gloo.create_device)
    named = c10d.get_backend
    c10d.get_backend = dist.get_backend = functools.wraps(named)(lambda group=None: Name(named(group)) if named(group) == backend else named(group))
