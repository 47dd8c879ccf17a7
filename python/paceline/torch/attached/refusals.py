"""What a running script may not do, in one sentence each: the parameter, what is wrong, what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from torch import Tensor

from paceline._errors import PacelineError
from paceline.torch import memory
from paceline.torch.attached.ledger import Ledger
from paceline.torch.attached.table import Entry, Table, held_as, unlearnable

NOTHING_FINISHED = (
    "no gradient was finished before optimizer.step(): backward() did not reach a parameter of the attached model. A loop that uses "
    "torch.autograd.grad must store its result in parameter.grad"
)
SEVERAL = "Put all backward passes but the last into `with job.no_sync():`, or use attach(..., accumulate=N) or attach(..., expect='counted')"
HOOKED = (
    "a hook of this parameter (register_post_accumulate_grad_hook) has used it, as one that steps within backward() does. It has this rank's own part only, and ranks would "
    "train apart; remove the hook and let optimizer.step() step"
)
COUNTED = "attach(..., expect='counted') needs each gradient finished as often in every iteration as in the first"


def stale(entry: Entry) -> PacelineError:
    return PacelineError(
        f"parameter {entry.name} was used in this forward pass before its update was applied: something reads it past the module that owns it, by a "
        f"reference of its own or in a graph compiled before attach. Read it as an attribute of its module, compile after attach, or use attach(..., apply='at-step')",
        subject=entry.name,
    )


def touched_in_backward(entry: Entry, ledger: Ledger) -> PacelineError:
    return PacelineError(
        f"the gradient of {entry.name} was touched in backward() after it had been sent: a second backward pass before optimizer.step(), or a hook "
        f"that reads .grad. {COUNTED if ledger.counts else SEVERAL}",
        subject=entry.name,
    )


def gone_in_backward(entry: Entry) -> PacelineError:
    return PacelineError(
        f"the gradient of {entry.name} was gone when backward() had finished it: {HOOKED}",
        subject=entry.name,
    )


def stepped_in_backward(entry: Entry) -> PacelineError:
    return PacelineError(
        f"parameter {entry.name} was written to while backward() finished its gradient: {HOOKED}",
        subject=entry.name,
    )


def after_the_end(entry: Entry, ledger: Ledger) -> PacelineError:
    return PacelineError(
        f"the gradient of {entry.name} was finished after the script had looked at gradients of this iteration, which ends its backward passes. "
        f"{COUNTED if ledger.counts else SEVERAL}. To throw gradients away, call optimizer.zero_grad()",
        subject=entry.name,
    )


def saw_nothing(entry: Entry, iteration: int) -> PacelineError:
    return PacelineError(
        f"the script looked at .grad of {entry.name} in iteration {iteration}, where no backward pass of this rank had reached it, and found nothing; other ranks have a "
        f"gradient, whose mean it did not see. Call backward() in every iteration, of a loss without samples as 0.0 * sum(p.sum() for p in model.parameters()), "
        f"or clip with attach(clip_norm=...) or torch.nn.utils.clip_grad_norm_",
        subject=entry.name,
    )


def uncounted() -> PacelineError:
    return PacelineError("attach(average='samples') weights gradients by samples: call job.samples(len(x)) before backward()", subject="samples")


def compiled_autograd() -> PacelineError:
    return PacelineError(
        "compiled autograd traces the whole backward pass, and attach sends each gradient as it is finished; leave torch._dynamo.compiled_autograd, or "
        "torch._dynamo.config.compiled_autograd, out. torch.compile of the model, of a step and of optimizer.step() works without it",
        subject="compiled_autograd",
    )


def thawed(entry: Entry) -> PacelineError:
    if not entry.is_learnable:
        return PacelineError(f"parameter {entry.name} was frozen when attach ran, and learns now; it {unlearnable(entry)}, before attach", subject=entry.name)
    return PacelineError(
        f"parameter {entry.name} was frozen and in no optimizer when attach ran, and learns now; attach(..., may_thaw=True) keeps a place for it", subject=entry.name
    )


def readable(what: str, tensor: Tensor, read: Callable[[Tensor], Tensor] = memory.bytes_as_floats) -> Tensor:
    """What `read` gives of the tensor. `what`: a parameter or buffer, with its name."""
    try:
        return read(tensor)
    except (memory.Unreadable, RuntimeError, TypeError) as error:
        why = str(error).splitlines()[0]
        raise PacelineError(
            f"{what} is {memory.described(tensor)}; attach gives all ranks rank 0's, and {why}; or keep it in an attribute that is neither parameter nor buffer",
            subject=what.partition(" ")[2],
        ) from None


def moved(entry: Entry, device: object) -> PacelineError:
    return PacelineError(f"parameter {entry.name} was on {entry.device} when attach ran and is on {device} now; move the model before attach", subject=entry.name)


def broken_off(ended_by: str) -> PacelineError:
    """`ended_by`: the rank and its exception."""
    return PacelineError(
        f"{ended_by}, within the step of an optimizer, which may have updated some parameters and not others; ranks would train apart. Start again from a checkpoint, "
        f"with what made it fail mended",
        kind="peer-lost",
    )


def check_shape(entry: Entry) -> None:
    if entry.is_strided and entry.parameter.shape != entry.shape:
        raise PacelineError(
            f"parameter {entry.name} was of shape {tuple(entry.shape)} when attach ran and is of {tuple(entry.parameter.shape)} now; give it its size before attach", subject=entry.name
        )


def check_gradient(entry: Entry, grad: Tensor) -> None:
    parameter = entry.parameter
    if grad.device != entry.device:
        raise moved(entry, grad.device)
    check_shape(entry)
    if grad.dtype != parameter.dtype or grad.shape != parameter.shape:
        raise PacelineError(f"the gradient of {entry.name} is {grad.dtype} {tuple(grad.shape)}, the parameter {parameter.dtype} {tuple(parameter.shape)}", subject=entry.name)


def check_counts(table: Table, ledger: Ledger) -> None:
    tensor = ledger.miscounted()
    if tensor is not None and ledger.expected is not None:
        name = table.entries[tensor].name
        raise PacelineError(
            f"the gradient of {name} was finished {ledger.finishes[tensor]} times in this iteration and {ledger.expected[tensor]} times in the first; "
            f"attach(..., expect='counted') needs the same number in every iteration",
            subject=name,
        )


def check_parameters(table: Table, stepped: Iterable[Tensor]) -> None:
    """That model and optimizer still have the parameters of the table."""
    for entry in table.entries:
        if held_as(entry.owner._parameters, entry.key) is not entry.parameter:
            raise PacelineError(
                f"parameter {entry.name} is another object than when attach ran (load_state_dict(assign=True), a parametrization, or an assignment); "
                f"change the model first, then make the optimizer, then attach",
                subject=entry.name,
            )
        check_shape(entry)
        if entry.parameter.dtype != entry.dtype:
            raise PacelineError(f"parameter {entry.name} was {entry.dtype} when attach ran and is {entry.parameter.dtype} now; convert the model before attach", subject=entry.name)
    known = table.ids
    for parameter in stepped:
        if id(parameter) not in known:
            raise PacelineError(f"the optimizer steps a parameter of shape {tuple(parameter.shape)} that the model had not when attach ran; attach a model that holds it")
