"""The servers' optimizers once more, plain: float32, each operation rounded by itself, in the order of src/tensor/optimizer.h."""

import numpy
import torch


def f32(value):
    return torch.tensor(value, dtype=torch.float64).to(torch.float32)


def root(values):
    """Exactly rounded, which torch's is not everywhere."""
    return torch.from_numpy(numpy.sqrt(values.numpy()))


def power(base, exponent):
    """By repeated squaring, in float64."""
    result = 1.0
    while exponent:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


class Steps:
    """One job's optimizer, by the options that the job was joined with."""

    PLANES = {"sgd": 0, "momentum": 1, "nesterov": 1, "adam": 2, "adamw": 2, "adagrad": 1}

    def __init__(self, settings):
        self.kind = settings["optimizer"]
        self.momentum = float(settings.get("momentum", 0))
        self.beta1 = float(settings.get("adam-beta1", 0.9))
        self.beta2 = float(settings.get("adam-beta2", 0.999))
        self.epsilon = float(settings.get("adam-epsilon", 1e-8))
        self.planes = self.PLANES[self.kind]

    def step(self, p, g, planes, count, rate, decay):
        """`p` and `planes` (flat float32) are changed in place; `count`: steps of these parameters, this one included."""
        if decay != 0 and self.kind != "adamw":
            g = g + f32(decay) * p
        if self.kind == "sgd":
            p -= f32(rate) * g
        elif self.kind in ("momentum", "nesterov"):
            m = planes[0].copy_(f32(self.momentum) * planes[0] + g)
            p -= f32(rate) * (g + f32(self.momentum) * m if self.kind == "nesterov" else m)
        elif self.kind == "adagrad":
            m = planes[0].copy_(planes[0] + g * g)
            p -= (f32(rate) * g) / (root(m) + f32(self.epsilon))
        else:
            if decay != 0 and self.kind == "adamw":
                p *= f32(1 - rate * decay)
            m = planes[0].copy_(f32(self.beta1) * planes[0] + f32(1 - self.beta1) * g)
            v = planes[1].copy_(f32(self.beta2) * planes[1] + (f32(1 - self.beta2) * g) * g)
            size = f32(rate / (1 - power(self.beta1, count)))
            correction = f32((1 - power(self.beta2, count)) ** 0.5)
            p -= (size * m) / (root(v) / correction + f32(self.epsilon))
