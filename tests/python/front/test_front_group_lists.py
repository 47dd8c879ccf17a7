"""init_process_group("paceline"): the group's own calls, with several tensors, in their shorter forms, and with what cannot be."""

import json

import pytest
from processes import pythons, torchrun

BEGIN = """
import json, os, sys, beside_gloo, torch, torch.distributed as dist
if sys.argv[1] == "paceline":
    import paceline.torch
dist.init_process_group(sys.argv[1])
n, r = dist.get_world_size(), dist.get_rank()
group, found, op = dist.group.WORLD, {}, dist.ReduceOp
def tensors(*values):
    return [torch.tensor([float(value), 1.0]) for value in values]
def told(name, *lists):
    found[name] = [[tensor.to_dense().tolist() for tensor in tensors] for tensors in lists]
"""
END = """
open(os.path.join(sys.argv[2], f"{sys.argv[1]}-{r}"), "w").write(json.dumps(found))
dist.barrier()
beside_gloo.end()
"""
SEVERAL = """
for name in ("SUM", "PRODUCT", "MIN", "MAX"):
    options = dist.AllreduceOptions()
    options.reduceOp = getattr(op, name)
    both = tensors(r + 1, 10 * r + 2)
    result = group.allreduce(both, options).get_future().wait()
    told(f"allreduce {name}", both, result)
sparse = [torch.sparse_coo_tensor([[r, k]], [float(r + 1), 5.0], (4,)) for k in (2, 3)]
group.allreduce(sparse).wait()
told("allreduce of sparse ones", sparse)
for root in range(n):
    options = dist.BroadcastOptions()
    options.rootRank, options.rootTensor = root, 1
    both = tensors(r, 10 * r)
    group.broadcast(both, options).wait()
    told(f"broadcast from {root}", both)
both = tensors(r, 10 * r)
outputs = [[torch.zeros(2) for _ in range(2 * n)] for _ in both]
group.allgather(outputs, both).wait()
told("allgather", *outputs)
same = torch.tensor([r, 3])
group.allreduce_coalesced([same, same]).wait()
told("allreduce_coalesced of one tensor twice", [same])
parts = [torch.full((k,), r + 1.0) for k in range(n)]
dist.reduce_scatter(output := torch.empty(r), parts)
told("reduce_scatter of parts of several sizes", [output])
"""
SHORTER = """
for name, call in {
    "allreduce": lambda one: group.allreduce(one),
    "allreduce, op": lambda one: group.allreduce(one, op.MAX),
    "allreduce of a list, op": lambda one: group.allreduce([one], op=op.PRODUCT),
    "broadcast": lambda one: group.broadcast(one, root=1),
    "broadcast, by place": lambda one: group.broadcast(one, 1),
    "allgather": lambda one: group.allgather(gathered, one),
    "gather": lambda one: group.gather(gathered if r == 1 else [], one, 1),
    "scatter": lambda one: group.scatter(one, tensors(*range(n)) if r == 1 else [], 1),
    "reduce_scatter": lambda one: group.reduce_scatter(one, tensors(*range(n)), op.SUM),
}.items():
    one, gathered = torch.tensor([r + 1.0, 2.0]), [torch.zeros(2) for _ in range(n)]
    call(one).wait()
    told(name, [one], gathered)
one = torch.tensor([r + 1.0])
group.reduce(one, 0, op=op.SUM).wait()
told("reduce", [one] if r == 0 else [])
"""


@pytest.mark.parametrize("script", (SEVERAL, SHORTER), ids=("several tensors", "shorter forms"))
@pytest.mark.parametrize("python", pythons())
def test_the_groups_own_calls_give_what_gloos_give(script, python, tmp_path):
    file = tmp_path / "calls.py"
    file.write_text(BEGIN + script + END)
    for backend in ("gloo", "paceline"):
        ran = torchrun(file, backend, tmp_path, ranks=3, python=python())
        assert ran.returncode == 0, f"{backend}: {ran.stderr[-3000:]}"
    for rank in range(3):
        theirs, ours = (json.loads((tmp_path / f"{backend}-{rank}").read_text()) for backend in ("gloo", "paceline"))
        assert len(ours) >= 10 and ours == theirs


REFUSED = """
def refused(name, call, *words, **options):
    kind = getattr(torch._C._distributed_c10d, name.split()[0] + "Options")()
    for word, value in options.items():
        setattr(kind, word, value)
    try:
        call(*words, kind)
        found[name] = "nothing"
    except RuntimeError as error:
        found[name] = str(error)
one, other, long, flat = torch.zeros(1), torch.zeros(1, dtype=torch.float64), torch.zeros(2), torch.zeros(2).to_sparse()
refused("Broadcast root", group.broadcast, [one], rootRank=n)
refused("Broadcast tensor", group.broadcast, [one], rootTensor=1)
refused("Broadcast type", group.broadcast, [one, other])
refused("Allreduce nothing", group.allreduce, [])
refused("Allreduce size", group.allreduce, [one, long])
refused("Allreduce layout", group.allreduce, [long, flat])
refused("AllreduceCoalesced type", group.allreduce_coalesced, [one, other])
refused("AllreduceCoalesced layout", group.allreduce_coalesced, [flat, flat])
refused("Reduce two", group.reduce, [one, one])
refused("Gather list", group.gather, [[one] * (n + 1)], [one], rootRank=r)
refused("Gather elsewhere", group.gather, [[one] * n], [one], rootRank=(r + 1) % n)
refused("Scatter type", group.scatter, [one], [[other] * n], rootRank=r)
refused("Scatter elsewhere", group.scatter, [one], [[one] * n], rootRank=(r + 1) % n)
refused("Allgather lists", group.allgather, [[one] * n, [one] * n], [one])
refused("Allgather output", group.allgather, [[one] * (n + 1)], [one])
dist.all_reduce(one)  # nothing was harmed
"""
SAID = {
    "Broadcast root": "invalid root rank 2; legal: 0 to 1",
    "Broadcast tensor": "invalid root tensor 1 of 1",
    "Broadcast type": "invalid tensor type, float64, of the tensor at index 1",
    "Allreduce nothing": "requires non-empty tensor list",
    "Allreduce size": "invalid tensor size, 2 elements, of the tensor at index 1",
    "Allreduce layout": "invalid tensor layout, sparse_coo",
    "AllreduceCoalesced type": "tensors must all have the same type",
    "AllreduceCoalesced layout": "unsupported layout sparse_coo",
    "Reduce two": "requires a single-element tensor list, and has 2",
    "Gather list": "Incorrect output list size 3. Output list size should be 2",
    "Gather elsewhere": "requires empty output on non-root ranks",
    "Scatter type": "invalid tensor type",
    "Scatter elsewhere": "requires empty input on non-root ranks",
    "Allgather lists": "input/output tensor lists to have the same length",
    "Allgather output": "invalid output tensor list, with 3 tensors for 2 ranks",
}


def test_lists_that_cannot_be_are_refused_in_gloos_words_before_anything_begins(tmp_path):
    file = tmp_path / "refused.py"
    file.write_text(BEGIN + REFUSED + END)
    ran = torchrun(file, "paceline", tmp_path)
    assert ran.returncode == 0, ran.stderr[-3000:]
    for rank in range(2):
        found = json.loads((tmp_path / f"paceline-{rank}").read_text())
        assert {name: said for name, said in found.items() if SAID[name] not in said} == {} and found.keys() == SAID.keys()


LIMITS = """
import datetime
assert group._get_backend(torch.device("cpu")) is group
begun = group._get_sequence_number_for_group()
dist.all_reduce(torch.ones(1))
dist.broadcast(torch.ones(1), 0)
if r == 0:
    dist.send(torch.ones(1), 1)  # not all ranks call it
else:
    dist.recv(torch.ones(1), 0)
assert group._get_sequence_number_for_group() == begun + 2
assert group.options._timeout == datetime.timedelta(minutes=30)
group.set_timeout(datetime.timedelta(seconds=1))
assert group.options._timeout == datetime.timedelta(seconds=1)
try:
    group.set_timeout(datetime.timedelta(hours=1))
except RuntimeError as error:
    found["longer"] = str(error)
store = dist.distributed_c10d._get_default_store()
if r == 0:
    try:
        dist.all_reduce(torch.ones(1))
    except RuntimeError as error:
        found["over"] = str(error)
    store.set("over", "")
store.wait(["over"])
"""


def test_a_group_counts_its_operations_and_is_given_another_limit_but_none_beyond_its_first(tmp_path):
    file = tmp_path / "limits.py"
    file.write_text(BEGIN + LIMITS + END.partition("dist.barrier")[0] + "beside_gloo.leave()\n")
    ran = torchrun(file, "paceline", tmp_path)
    assert ran.returncode == 0, ran.stderr[-3000:]
    found = [json.loads((tmp_path / f"paceline-{rank}").read_text()) for rank in range(2)]
    assert all("init_process_group was given 1800 s, and nothing waits longer" in each["longer"] for each in found)
    assert "was not over within its timeout of 1 s" in found[0]["over"], found


OWN_LIMITS = """
import datetime
second, whole = datetime.timedelta(seconds=1), [torch.zeros(2) for _ in range(n)]
def one():
    return torch.ones(2)
short = {
    "allreduce": lambda: group.allreduce(one(), timeout=second), "broadcast": lambda: group.broadcast(one(), root=1, timeout=second), "reduce": lambda: group.reduce(one(), 0, timeout=second),
    "allgather": lambda: group.allgather(whole, one(), timeout=second), "gather": lambda: group.gather(whole, one(), 0, second), "scatter": lambda: group.scatter(one(), [], 1, second),
    "reduce_scatter": lambda: group.reduce_scatter(one(), [one() for _ in range(n)], timeout=second), "barrier": lambda: group.barrier(timeout=second),
    "alltoall": lambda: group.alltoall([one() for _ in range(n)], [one() for _ in range(n)], timeout=second),
}
def long(name, *lists, **more):
    options = getattr(torch._C._distributed_c10d, name)()
    for word, value in {"timeout": second, **more}.items():
        setattr(options, word, value)
    return options
short |= {
    "allreduce, options": lambda: group.allreduce([one()], long("AllreduceOptions")), "allgather, options": lambda: group.allgather([whole], [one()], long("AllgatherOptions")),
    "allreduce_coalesced": lambda: group.allreduce_coalesced([one()], long("AllreduceCoalescedOptions")),
    "all_gather_single": lambda: group.all_gather_single(torch.zeros(2 * n), one(), long("AllgatherOptions")),
    "reduce_scatter_single": lambda: group.reduce_scatter_single(torch.zeros(1), one(), long("ReduceScatterOptions")),
    "all_to_all_single": lambda: group.all_to_all_single(one(), one(), [], [], long("AllToAllOptions")),
}
store, begun = dist.distributed_c10d._get_default_store(), []
for name, call in short.items():
    if r == 0:
        begun.append(call())
        try:
            begun[-1].wait()
            found[name] = "nothing"
        except RuntimeError as error:
            found[name] = str(error)
if r == 0:
    try:
        group.allreduce(one(), timeout=datetime.timedelta(hours=1))
    except RuntimeError as error:
        found["longer"] = str(error)
    store.set("over", "")
store.wait(["over"])
"""


def test_an_operation_ends_at_the_timeout_that_it_was_given_in_every_form(tmp_path):
    file = tmp_path / "limits.py"
    file.write_text(BEGIN + OWN_LIMITS + END.partition("dist.barrier")[0] + "beside_gloo.leave()\n")
    ran = torchrun(file, "paceline", tmp_path)
    assert ran.returncode == 0, ran.stderr[-3000:]
    found = json.loads((tmp_path / "paceline-0").read_text())
    assert "init_process_group was given 1800 s, and nothing waits longer" in found.pop("longer")
    assert len(found) == 15 and {name: said for name, said in found.items() if "within its timeout of 1 s" not in said} == {}


KINDS = """
def refused(name, call):
    try:
        call()
        found[name] = "nothing"
    except RuntimeError as error:
        found[name] = str(error)
flag, short, small = torch.ones(4, dtype=torch.bool), torch.ones(4, dtype=torch.uint16), torch.ones(4).to(torch.float8_e5m2)
refused("mean of bool", lambda: dist.all_reduce(flag, op.AVG))
refused("mean of bool to one", lambda: dist.reduce(flag, 0, op.AVG))
refused("mean of bool in parts", lambda: dist.reduce_scatter_tensor(flag[:2], flag, op.AVG))
for name, tensor in {"uint16": short, "float8": small}.items():
    for reduction in ("SUM", "MIN", "MAX"):
        refused(f"{reduction} of {name}", lambda: dist.all_reduce(tensor.clone(), getattr(op, reduction), async_op=True))  # by the call, not by wait()
refused("sparse", lambda: dist.all_reduce(torch.ones(2).to_sparse(), op.MAX, async_op=True))
refused("sparse rows", lambda: dist.all_reduce(torch.ones(2, 2).to_sparse_csr(), async_op=True))
refused("all_to_all of two types", lambda: group.alltoall([torch.ones(1), torch.ones(1).double()], [torch.ones(1)] * 2))

bytes = bytearray(41)
unaligned = torch.frombuffer(bytes, dtype=torch.float32, count=10, offset=1).fill_(r + 1)
dist.all_reduce(unaligned)
found["unaligned"] = unaligned.tolist()
dist.broadcast(unaligned.fill_(r), 1)
found["unaligned broadcast"] = unaligned.tolist()
outputs = [unaligned[:2], unaligned[2:4]]
dist.all_gather(outputs, unaligned[4:6])
found["unaligned gather"] = [output.tolist() for output in outputs]
expanded = torch.full((1,), r + 1.0).expand(3)
dist.all_reduce(expanded)
found["expanded"] = expanded.tolist()
refused("expanded, elements that differ", lambda: dist.all_reduce(torch.ones(1).expand(3) if r == 0 else torch.arange(3.0)))
dist.all_reduce(flag)
found["flag"] = flag.tolist()
"""


def test_what_has_no_such_arithmetic_is_refused_before_anything_is_sent_and_odd_memory_is_taken(tmp_path):
    file = tmp_path / "kinds.py"
    file.write_text(BEGIN + KINDS + END)
    ran = torchrun(file, "paceline", tmp_path)
    assert ran.returncode == 0, ran.stderr[-3000:]
    for rank in range(2):
        found = json.loads((tmp_path / f"paceline-{rank}").read_text())
        assert found.pop("unaligned") == [3.0] * 10 and found.pop("unaligned broadcast") == [1.0] * 10 and found.pop("unaligned gather") == [[1.0] * 2] * 2
        assert found.pop("expanded") == [3.0] * 3 and found.pop("flag") == [True] * 4
        assert ("share memory" in found.pop("expanded, elements that differ")) == (rank == 0)
        words = {"mean": "no mean of truth values", "sparse": "of sparse ones there is the sum only", "sparse rows": "is sparse_csr; give a dense one", "all_to_all of two types": "invalid tensor type"}
        assert len(found) == 12
        for name, sentence in found.items():
            assert words.get(name, words.get(name.split()[0], "no such arithmetic")) in sentence, (name, sentence)
