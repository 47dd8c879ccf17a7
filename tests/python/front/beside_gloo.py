"""How a rank of a test's script ends, where the same script runs on gloo for its results."""

import os
import sys

import torch.distributed as dist


def leave():
    """Ends this process when all ranks have come here, with nothing taken down."""
    store = dist.distributed_c10d._get_default_store()
    store.set(f"left {dist.get_rank()}", "")
    store.wait([f"left {rank}" for rank in range(dist.get_world_size())])
    sys.stdout.flush()
    os._exit(0)


def end():
    """Destroys the groups. Of gloo only the results count: where a variable still holds one of its groups, the interpreter's end may abort."""
    if dist.get_backend() == "gloo":
        leave()
    dist.destroy_process_group()
