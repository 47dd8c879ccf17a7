"""Training scripts for loops.py."""

import contextlib

import torch
import torch.nn.functional as F
from loops import bits
from nets import words


def everything(steps=5, schedule=None, schedule_first=None, accumulate=1, clip=None, branch=lambda iteration, rank: 0, average=False, scale=None, at_end=True):
    """The usual loop over nets.Everything, with what scripts usually add."""

    def script(model, optimizer, rank, job, log):
        scheduler = schedule(optimizer) if schedule else getattr(optimizer, "schedule_made_before", None)
        mean = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)) if average else None
        scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=2) if scale else None
        for iteration in range(steps):
            if not at_end:
                optimizer.zero_grad()
            for part in range(accumulate):
                x, y = words(iteration, rank, part)
                with job.no_sync() if part < accumulate - 1 else contextlib.nullcontext():
                    loss = F.cross_entropy(model(x, branch(iteration, rank)), y) / accumulate
                    (scaler.scale(loss) if scaler else loss).backward()
            yield
            if clip:
                if scaler:
                    scaler.unscale_(optimizer)
                log.append(torch.nn.utils.clip_grad_norm_(model.parameters(), clip).item())
            if scaler:
                scaler.step(optimizer)
                scaler.update()
                log.append(scaler.get_scale())
            else:
                optimizer.step()
            if scheduler:
                scheduler.step()
            if at_end:
                optimizer.zero_grad()
            if mean:
                mean.update_parameters(model)
        if mean:
            log.append(bits(mean.state_dict()))

    return script
