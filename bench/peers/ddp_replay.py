"""PyTorch's DistributedDataParallel over gloo, replaying a table of layers: a peer that `paceline bench schedules` measures beside.

Computing is slept (replayed.py); everything else is DDP as it comes: buckets filled in order of the backward pass, each reduced as soon as
it is full, under the backward pass. Bucket sizes are divided by the scale like all other bytes, or else a scaled model would have fewer
buckets than the real one.
"""

import replayed

arguments = replayed.parsed(__doc__.splitlines()[0])

import torch  # noqa: E402  (the environment must be set before)
import torch.distributed as dist  # noqa: E402
import torch.nn.parallel.distributed as ddp  # noqa: E402


def main():
    ddp._DEFAULT_BUCKET_CAP_MB = ddp._DEFAULT_BUCKET_CAP_MB / arguments.scale
    dist._DEFAULT_FIRST_BUCKET_BYTES = int(dist._DEFAULT_FIRST_BUCKET_BYTES / arguments.scale)
    replayed.join_over_gloo(arguments)
    replay = replayed.Replay(arguments)
    model = ddp.DistributedDataParallel(torch.nn.Sequential(*replay.layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)

    def step():
        if arguments.clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1e30)
        optimizer.step()

    dist.barrier()
    replay.train(model, optimizer, step)
    dist.barrier()
    replay.report(bucket_bytes=int(ddp._DEFAULT_BUCKET_CAP_MB * 2**20))
    dist.destroy_process_group()


main()
