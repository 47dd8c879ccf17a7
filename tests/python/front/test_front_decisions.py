"""The decisions alone: the ledger, the order of need, memory, the account."""

import random

import pytest
import torch
from paceline._errors import PacelineError
from paceline._node import texts
from paceline.torch import memory
from paceline.torch.attached import summary
from paceline.torch.attached.account import Account
from paceline.torch.attached.attach import job_settings, server_settings
from paceline.torch.attached.exchange import Exchange
from paceline.torch.attached.ledger import COUNTED, Finish, Ledger, Order
from paceline.torch.attached.samples import Samples
from paceline.torch.attached.table import Table


def test_a_gradient_is_sent_when_it_was_finished_as_often_as_expected():
    ledger = Ledger([0, 0, 1], 5, 2)
    assert [ledger.finished(1, True), ledger.finished(1, False)] == [Finish.HOLD, Finish.SEND]
    ledger.on_sent(1)
    assert ledger.unsent() == [0, 2]


def test_a_cleared_gradient_is_counted_anew():
    ledger = Ledger([0], 0, 2)
    assert [ledger.finished(0, True), ledger.finished(0, True), ledger.finished(0, False)] == [Finish.HOLD, Finish.HOLD, Finish.SEND]


def test_a_gradient_of_a_layer_that_is_due_was_computed_from_old_values():
    ledger = Ledger([0, 1], 0, 1)
    ledger.conclude()
    ledger.step()
    ledger.opened([0])
    assert [ledger.finished(0, True), ledger.finished(1, True)] == [Finish.SEND, Finish.STALE]
    assert ledger.iteration == 1


def test_a_gradient_after_the_last_restarts():
    ledger = Ledger([0, 1], 0, 1)
    ledger.on_sent(0)
    assert ledger.finished(0, True) is Finish.RESTART
    ledger.conclude()
    assert ledger.finished(1, True) is Finish.RESTART
    ledger.drop()
    assert (ledger.finished(1, True), ledger.due, ledger.iteration) == (Finish.SEND, set(), 1)


def test_counts_are_learned_in_the_first_iteration():
    ledger = Ledger([0, 0, 0], 0, COUNTED)
    for tensor, fresh in ((0, True), (0, False), (1, True)):
        assert ledger.finished(tensor, fresh) is Finish.HOLD
    ledger.conclude()
    ledger.step()
    ledger.opened([0])
    assert ledger.expected == [2, 1, 1]
    assert [ledger.finished(0, True), ledger.finished(1, True)] == [Finish.HOLD, Finish.SEND]
    assert ledger.miscounted() == 0


def test_samples_of_all_passes_of_an_iteration_count_once():
    samples = Samples()

    def passes(*numbers):
        for number in numbers:
            samples.tell(number)
            for _ in range(2):
                samples.on_gradient()

    def ended():
        samples.conclude()
        samples.next()
        return samples.total

    passes(3, 4)
    assert ended() == 7
    samples.tell(9)  # and its pass was left out
    passes(5)
    assert samples.so_far == 5 and ended() == 5
    assert ended() == 5, "nothing was told"
    passes(2, 2)
    samples.forget()
    passes(1)
    assert ended() == 1
    samples.tell(6)
    assert ended() == 6, "a gradient may be made without a backward pass"
    passes(4)
    samples.tell(8.0)  # of the next iteration, which begins before this one has ended
    assert ended() == 4
    samples.on_gradient()
    assert ended() == 8 and isinstance(samples.total, int)
    samples.tell(torch.tensor([True, False, True]).sum())
    assert ended() == 2
    for wrong in (2.5, float("nan"), float("inf"), -1, "12", None, torch.ones(2)):
        with pytest.raises(PacelineError, match="a number of samples is a whole one of at least 0"):
            samples.tell(wrong)


def test_what_has_left_is_not_weighted_anew():
    samples = Samples()
    samples.tell(4)
    samples.on_gradient()
    samples.on_sent()
    samples.tell(4)
    samples.on_gradient()
    assert samples.so_far == 4, "another loss of the same samples"
    samples.tell(5)
    with pytest.raises(PacelineError, match=r"job.samples\(5\): gradients of this iteration have left, weighted by 4; .*job.no_sync\(\)"):
        samples.on_gradient()


def test_the_order_of_need_is_seen_once_and_then_now_and_then():
    order = Order(4)
    for layer in (2, 0, 2, 3):
        order.passed(layer)
    assert order.stepped() == [2, 0, 3, 1]
    order.passed(1)
    assert order.stepped() is None and not order.watching
    for _ in range(98):
        order.stepped()
    assert order.watching
    order.passed(1)
    assert order.stepped() == [1, 2, 0, 3]


def test_memory_keeps_the_order_of_elements():
    generator = random.Random(1)
    for _ in range(200):
        shape = [generator.randint(1, 4) for _ in range(generator.randint(0, 4))]
        order = list(range(len(shape)))
        generator.shuffle(order)
        tensor = torch.randn([shape[i] for i in order]).permute([order.index(i) for i in range(len(shape))])
        assert memory.dense(tensor)
        strides = memory.strides_of(tensor)
        assert torch.equal(memory.in_place(memory.as_sent(tensor, strides).clone(), tensor, strides), tensor)
        other = memory.as_sent(tensor.contiguous(), strides)
        assert torch.equal(other, memory.as_sent(tensor, strides))
    assert not memory.dense(torch.zeros(4, 4)[:, ::2]) and not memory.dense(torch.zeros(1, 4).expand(3, 4))


def test_a_sum_of_bits_tells_what_is_written():
    generator = torch.Generator().manual_seed(2)
    writes = (lambda t: t.mul_(2), lambda t: t.add_(1e-3), lambda t: t.clamp_(-1e-3, 1e-3), lambda t: t.zero_(), lambda t: t[:3].mul_(1.001) if t.dim() else t.mul_(1.001))
    for shape in ((), (1,), (3,), (1024, 512), (5, 7), (0, 3)):
        tensor = torch.randn(shape, generator=generator)
        beside = torch.cat([torch.zeros(1), tensor.reshape(-1)])[1:].view(shape)
        for one in (tensor, beside):
            assert memory.sum_of_bits(one) == memory.sum_of_bits(one.detach())
            for write in writes if one.numel() else ():
                before = memory.sum_of_bits(one)
                kept = one.clone()
                write(one)
                assert memory.sum_of_bits(one) != before, shape
                one.copy_(kept)
                assert memory.sum_of_bits(one) == before, shape
    for kind in (torch.bool, torch.uint8, torch.bfloat16, torch.int64, torch.float64, torch.complex64):
        tensor = torch.ones(3, dtype=kind)
        before = memory.sum_of_bits(tensor)
        tensor[1] = 0
        assert memory.sum_of_bits(tensor) != before, kind
    columns = torch.randn(6, 4, generator=generator).t()
    assert memory.sum_of_bits(columns) == memory.sum_of_bits(columns.t())


def test_bytes_survive_the_journey():
    for kind in (torch.int64, torch.bool, torch.float64, torch.bfloat16, torch.uint8):
        tensor = torch.arange(7).to(kind)
        target = torch.zeros_like(tensor)
        memory.floats_as_bytes(memory.bytes_as_floats(tensor) / 3 * 3.0, target)
        assert torch.equal(tensor, target)


def exchange_of(model, frozen=(), rows=(), by_samples=False):
    exchange = Exchange(Table(model), by_samples, set(frozen))
    for frozen_row in rows:
        exchange.add("row", torch.zeros(1), frozen=frozen_row)
    return exchange


def test_what_travels_is_as_short_as_changes_no_bit():
    wire = lambda exchange, **given: job_settings(given, exchange, None)["wire"]  # noqa: E731
    mixed = torch.nn.Sequential(torch.nn.Linear(2, 2, dtype=torch.bfloat16), torch.nn.LayerNorm(2))
    for kind, name in ((torch.float32, "float32"), (torch.bfloat16, "bfloat16"), (torch.float16, "float16")):
        assert wire(exchange_of(torch.nn.Linear(2, 2, dtype=kind), rows=[True])) == name
    assert wire(exchange_of(mixed)) == "float32"
    assert wire(exchange_of(mixed, frozen=(2, 3))) == "bfloat16"
    half = torch.nn.Linear(2, 2, dtype=torch.bfloat16)
    for more in ({"rows": [False]}, {"by_samples": True}):
        assert wire(exchange_of(half, **more)) == "float32"
        with pytest.raises(PacelineError, match="'wire'.='float16' would round more than gradients"):
            wire(exchange_of(half, **more), wire="float16")
    assert wire(exchange_of(half), wire="float32") == "float32" and wire(exchange_of(mixed), wire="bfloat16") == "bfloat16"
    assert "wire" not in job_settings({"collective": "loop3"}, exchange_of(half), None)


def test_gradients_go_first_where_means_wait_for_the_norm():
    exchange = exchange_of(torch.nn.Linear(2, 2))
    assert job_settings({}, exchange, 1.0)["verdict-first"] == "1"
    assert "verdict-first" not in job_settings({}, exchange, None)
    assert "verdict-first" not in job_settings({"collective": "loop3-overlap"}, exchange, 1.0)
    with pytest.raises(PacelineError, match="'verdict-first'. is attach's own"):
        job_settings({"verdict-first": "1"}, exchange, None)


def test_what_the_optimizer_decides_is_no_setting_of_a_job_whose_means_come_back():
    exchange = exchange_of(torch.nn.Linear(2, 2))
    for name in ("learning-rate", "momentum", "adam-beta1"):
        with pytest.raises(PacelineError, match=rf"settings\['{name}'\]: the script's optimizer makes the steps; give it to that, or attach with update='server'"):
            job_settings({name: "0.1"}, exchange, None)


def test_a_script_saves_its_state_dicts_and_not_the_job():
    optimizer = torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.1)
    for name in ("checkpoint", "checkpoint-every", "resume"):
        with pytest.raises(PacelineError, match=rf"settings\['{name}'\]: the job knows parameters alone; save the script's state dicts"):
            server_settings({name: "1"}, optimizer, None, "bsp", None)


def test_settings_may_be_numbers_and_flags():
    assert texts({"slice": 50000, "clip-norm": 0.5, "verdict": True, "wire": "bfloat16"}) == {"slice": "50000", "clip-norm": "0.5", "verdict": "1", "wire": "bfloat16"}
    with pytest.raises(PacelineError, match=r"settings\['slice'\] is \[1\]; legal: a text, a number, True or False"):
        texts({"slice": [1]})


def test_the_report_says_what_would_help():
    now = [0.0]
    account = Account(lambda: now[0])
    account.stepped()
    for _ in range(4):
        with account.timed("clip_grad_norm_"), account.timed("inner"):
            now[0] += 0.03
        with account.timed("forward"):
            now[0] += 0.001
        now[0] += 0.069
        account.stepped()
    lines = account.report()
    assert lines["iterations"] == 4 and lines["seconds"] == pytest.approx(0.1)
    assert lines["waited: clip_grad_norm_"] == pytest.approx(0.03) and "waited: inner" not in lines
    assert lines["exposed"] == pytest.approx(0.031) and lines["computing"] == pytest.approx(0.069)
    assert summary.advice(lines, 1.0) == "your script calls clip_grad_norm_, which waits 30.0 ms each iteration; attach(clip_norm=1) in its place waits for a mean where the next forward pass needs it"
    assert summary.advice({**lines, "link": 0.081}, 1.0).endswith("; attach(clip_norm=1) in its place waits 12.0 ms at best")
    assert summary.advice({**lines, "waited: parameters()": 0.04}, None).startswith("your script waits 40.0 ms each iteration in parameters(): it goes through all parameters")
    assert summary.advice({**lines, "waited: clip_grad_norm_": 0.001}, None) == ""


def test_several_jobs_of_a_script_have_names():
    assert summary.name_of(["Net"], 0) == ""
    assert [summary.name_of(["Generator", "Critic"], number) for number in range(2)] == ["Generator", "Critic"]
    assert [summary.name_of(["Sequential", "Critic", "Sequential"], number) for number in range(3)] == ["Sequential 1", "Critic", "Sequential 2"]


TOLD = {
    "role": "both", "workers": 4, "iterations": 10, "bytes_pushed": 4 * 10 * 5e6, "bytes_pulled": 4 * 10 * 3e6, "overlapped": {"push": 0.002, "pull": 0.001}, "collective": None,
    "link": {"bandwidth": None}, "tuned": {"bandwidth": 100e6},
}  # fmt: skip


def test_the_end_says_what_was_hidden_and_what_the_bound_is():
    """5 MB that a rank pushes and 3 that its server answers, of which 3/4 leave the process, by a link of 100 MB/s: 60 ms."""
    lines = {"iterations": 9.0, "seconds": 0.1, "computing": 0.05, "exposed": 0.05, "waited: forward": 0.05}
    complete = summary.complete(lines, summary.exchanged(TOLD))
    assert (complete["hidden"], complete["link"], complete["bound"]) == pytest.approx((0.003, 0.06, 0.06))
    assert summary.sentence(complete, 4) == "4 ranks, 10 iterations of 100.0 ms: computing 50.0 ms, exposed 50.0 ms (forward 50.0 ms), hidden 3.0 ms; bound 60.0 ms, by the link"
    assert "computing takes 50.0 ms, the bytes 60.0 ms on the link; settings={'wire': 'bfloat16'}" in summary.advice(complete, None)
    assert "wire" not in summary.advice(complete, None, is_narrow=True)
    assert summary.advice({**complete, "link": 0.001}, None).endswith("the bytes 1.0 ms on the link, so it is another rank that is late")
    assert summary.advice(lines, None).endswith("the link is slower than computing, or another rank is")
    assert summary.sentence({**complete, "computing": 0.08, "bound": 0.08}, 4).endswith("bound 80.0 ms, by computing")


def test_rings_are_told_by_what_they_sent_and_links_that_nobody_measured_have_no_bound():
    told = summary.exchanged({**TOLD, "collective": {"beta": 1e-8}, "tuned": None})
    assert told.seconds == pytest.approx(0.05)
    assert summary.exchanged({**TOLD, "role": "separate"}).seconds == pytest.approx(0.05)  # servers elsewhere: a link has two directions
    unknown = summary.exchanged({**TOLD, "tuned": None})
    assert unknown.seconds is None and "bound" not in summary.complete({"computing": 1.0}, unknown)
