"""The servers' optimizers as scripts make them, and the plain loop with the servers' arithmetic."""

import copy
import types

import torch
from loops import Plain, same_mean
from paceline.torch.attached import server_rules
from steps import Steps

CosineAnnealingLR = torch.optim.lr_scheduler.CosineAnnealingLR


def two_groups(kind, **options):
    def make(model):
        decayed = [parameter for parameter in model.parameters() if parameter.dim() > 1]
        others = [parameter for parameter in model.parameters() if parameter.dim() <= 1]
        return kind([{"params": decayed, "weight_decay": 0.1}, {"params": others, "lr": 0.02, "weight_decay": 0.0}], **options)

    return make


def one_group(kind, **options):
    return lambda model: kind(model.parameters(), **options)


OPTIMIZERS = {
    "SGD": (one_group(torch.optim.SGD, lr=0.1), None),
    "SGD with momentum": (one_group(torch.optim.SGD, lr=0.05, momentum=0.9, weight_decay=1e-3), lambda o: CosineAnnealingLR(o, 4)),
    "Nesterov, groups": (two_groups(torch.optim.SGD, lr=0.05, momentum=0.8, nesterov=True), lambda o: torch.optim.lr_scheduler.StepLR(o, 2, 0.5)),
    "Adam": (one_group(torch.optim.Adam, lr=0.01, betas=(0.8, 0.95), weight_decay=0.01), None),
    "AdamW, groups": (two_groups(torch.optim.AdamW, lr=0.01), lambda o: CosineAnnealingLR(o, 4)),
    "OneCycle without momentum": (one_group(torch.optim.AdamW, lr=0.01), lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.02, total_steps=10, cycle_momentum=False)),
    "a tensor as learning rate": (lambda m: torch.optim.Adam(m.parameters(), lr=torch.tensor(0.01)), None),
    "Adagrad": (one_group(torch.optim.Adagrad, lr=0.05, eps=1e-8), lambda o: CosineAnnealingLR(o, 4)),
}


class ServerSteps:
    """Stands where each rank's optimizer stands, and makes the servers' steps."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.steps = Steps(server_rules.settings_of(optimizer))
        self.held = {}

    def step(self):
        for group, (rate, decay) in zip(self.optimizer.param_groups, server_rules.rates_of(self.optimizer.param_groups)):
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                planes, count = self.held.setdefault(parameter, ([torch.zeros(parameter.numel()) for _ in range(self.steps.planes)], [0]))
                count[0] += 1
                with torch.no_grad():
                    value = parameter.detach().reshape(-1).clone()
                    self.steps.step(value, parameter.grad.reshape(-1), planes, count[0], rate, decay)
                    parameter.copy_(value.view(parameter.shape))


def plain_on_servers(workers, template, make, script):
    """loops.plain with the servers' arithmetic: [(model, optimizer, log)] of each rank."""
    models = [copy.deepcopy(template) for _ in range(workers)]
    optimizers = [make(model) for model in models]
    for optimizer in optimizers:
        steps = ServerSteps(optimizer)
        optimizer.held = steps.held
        optimizer.step = types.MethodType(lambda self, steps=steps: steps.step(), optimizer)  # a scheduler wraps it
    jobs, logs = [Plain() for _ in models], [[] for _ in models]
    running = [script(*parts) for parts in zip(models, optimizers, range(workers), jobs, logs)]
    while "end" not in [next(one, "end") for one in running]:
        for parameters in zip(*(model.parameters() for model in models)):
            mean = same_mean([parameter.grad for parameter in parameters])
            for parameter in parameters:
                parameter.grad = None if mean is None else mean.clone()
    return list(zip(models, optimizers, logs))
