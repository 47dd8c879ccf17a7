"""The Python package on libpaceline: that it says what the headers say, that a job trains through it, and what a user's process does meanwhile."""

import array
import ctypes
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("PACELINE", SOURCE / "build/release/bin/paceline")).resolve()
LIBRARY = PROGRAM.parents[1] / "src/library/libpaceline.so"
os.environ.setdefault("PACELINE_LIBRARY", str(LIBRARY))
sys.path.insert(0, str(SOURCE / "python"))

import paceline  # noqa: E402
from paceline import PacelineError, _library, _library_node  # noqa: E402
from paceline.communicator import Link, part  # noqa: E402
from paceline._node import Place, TensorSpec  # noqa: E402

HEADERS = "\n".join(re.sub(r"/\*.*?\*/", "", (SOURCE / "include/paceline" / name).read_text(), flags=re.S) for name in ("error.h", "paceline.h", "communicator.h"))
SIMPLE = {"size_t": ctypes.c_size_t, "int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32, "int64_t": ctypes.c_int64, "double": ctypes.c_double, "float": ctypes.c_float}
OPAQUE = {"paceline_job", "paceline_node", "paceline_communicator", "paceline_request", "paceline_text", "void"}


def ctype(declared, stars):
    """What ctypes calls a type of the headers: `const char*` is a text, a pointer to an opaque struct a handle."""
    if stars == 0:
        return SIMPLE[declared]
    if declared == "char":
        text = ctypes.c_char_p
        return text if stars == 1 else ctypes.POINTER(text)
    if declared in OPAQUE:
        return ctypes.c_void_p if stars == 1 else ctypes.POINTER(ctypes.c_void_p)
    inner = _library.STRUCTS.get(declared) or SIMPLE[declared]
    for _ in range(stars):
        inner = ctypes.POINTER(inner)
    return inner


def declaration(text):
    """(type, stars, names with array lengths) of `const int64_t* shape` or `double alpha, beta`."""
    words = re.sub(r"\b(const|struct)\b", " ", text)
    kind, rest = re.match(r"\s*(\w+)(.*)", words, flags=re.S).groups()
    stars = rest.count("*")
    return kind, stars, [name.strip() for name in rest.replace("*", " ").split(",")]


def test_every_struct_has_the_fields_of_the_header():
    structs = dict(re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", HEADERS, flags=re.S))
    assert set(structs) == set(_library.STRUCTS)
    for name, body in structs.items():
        fields = []
        for line in filter(str.strip, body.split(";")):
            kind, stars, names = declaration(line)
            for field in names:
                length = re.fullmatch(r"(\w+)\[(\d+)\]", field)
                fields.append((length[1], ctypes.c_char * int(length[2])) if length else (field, ctype(kind, stars)))
        assert [(field[0], field[1]) for field in _library.STRUCTS[name]._fields_] == fields, name
        assert _library.load().paceline_struct_size(name.encode()) == ctypes.sizeof(_library.STRUCTS[name])


def test_every_function_has_the_arguments_of_the_header():
    found = dict(re.findall(r"int32_t (paceline_\w+)\(([^)]*)\);", HEADERS, flags=re.S))
    assert set(found) == set(_library.CALLS)
    for name, text in found.items():
        arguments = []
        for argument in text.split(","):
            kind, stars, names = declaration(argument)
            assert len(names) == 1
            arguments.append(ctype(kind, stars))
        assert arguments[-1] == ctypes.POINTER(_library.Error), name
        assert list(_library.CALLS[name]) == arguments[:-1], name
    others = set(re.findall(r"\b(paceline_\w+)\(", HEADERS)) - set(found)
    assert others == {"paceline_version", "paceline_struct_size", "paceline_after_fork"}


def test_every_constant_is_that_of_the_header():
    constants = {name: int(value) for name, value in re.findall(r"\bPACELINE_(\w+) = (\d+)", HEADERS)}
    assert len(constants) > 35
    for name, value in constants.items():
        assert getattr(_library, name) == value, name


def test_the_binding_is_of_the_library_s_release_and_knows_the_others(tmp_path):
    assert _library.version() == _library.RELEASE == _library.load().paceline_version().decode()
    other = tmp_path / "other.c"
    other.write_text('const char* paceline_version(void) { return "0.0.9"; }\n')
    subprocess.run(["gcc", "-shared", "-fPIC", other, "-o", tmp_path / "other.so"], check=True)
    for path, words in ((tmp_path / "other.so", "is of release 0.0.9, this package of"), (tmp_path / "none.so", "set PACELINE_LIBRARY to its path")):
        done = python("from paceline import _library, PacelineError\ntry: _library.load()\nexcept PacelineError as error: print(error)", PACELINE_LIBRARY=str(path))
        assert words in done.stdout, done


def python(code, *arguments, **environment):
    return subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": str(SOURCE / "python"), **environment})


def test_the_package_imports_no_framework_and_not_the_library():
    done = python("import sys, paceline; print([name for name in ('torch', 'numpy', 'ctypes', 'json', 'socket', 'asyncio') if name in sys.modules])")
    assert done.stdout == "[]\n", done
    done = python("import paceline; print(paceline.Communicator.__name__); paceline.Nobody")
    assert done.stdout == "Communicator\n" and "has no attribute 'Nobody'" in done.stderr


TENSORS = [TensorSpec("a.weight", (2, 2), layer=0), TensorSpec("b.bias", (), layer=1)]
SETTINGS = {"optimizer": "sgd", "learning-rate": "0.5"}


def floats(*values):
    return array.array("f", values)


def address(values):
    return values.buffer_info()[0]


def join(coordinator, rank, role="both", settings=SETTINGS):
    initial = [floats(0, 0, 0, 0), floats(1)]
    return _library_node.join(TENSORS, [address(values) for values in initial], settings, Place(role=role, rank=rank, coordinator=coordinator.address))


def train(node, iteration, *, unused=()):
    gradients = [floats(1, 2, 3, 4 + node.rank), floats(node.rank)]
    for tensor in (1, 0):
        if tensor not in unused:
            node.gradient_ready(tensor, address(gradients[tensor]))
    node.backward_done(iteration, list(unused))
    stopping = node.step_done(8, 0.5, {"forward": 0.25, "backward": 0.5})
    for layer in (0, 1):
        while not node.wait_layer(layer, iteration, 0.05):
            pass
    return stopping


def on_threads(*lives):
    problems = []

    def run(life):
        try:
            life()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(life,)) for life in lives]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return problems


@pytest.mark.parametrize("role, servers, settings", [("both", 2, SETTINGS), ("worker", 0, {**SETTINGS, "collective": "loop3-overlap"}), ("worker", 1, SETTINGS)])
def test_two_members_train_and_the_report_says_so(role, servers, settings):
    coordinator = _library_node.Coordinator(2, servers)
    server = _library_node.Server(Place(coordinator=coordinator.address)) if role == "worker" and servers else None
    values = {}

    def life(rank):
        node = join(coordinator, rank, role, settings)
        assert (node.rank, node.workers, node.first_iteration) == (rank, 2, 1)
        assert list(node.value(0)) == [0, 0, 0, 0] and list(node.value(1)) == [1]
        node.set_order([1, 0])
        for iteration in range(1, 6):
            train(node, iteration, unused=(1,) if iteration == 5 else ())
        assert node.wait_all(5, 10)
        values[rank] = list(node.value(0)), list(node.value(1))
        node.finish(60)
        node.close(1)
        node.close(1)

    assert on_threads(lambda: life(0), lambda: life(1)) == []
    assert values[0] == values[1] == ([-2.5, -5.0, -7.5, -11.25], [0.0])
    if server is not None:
        server.finish(60)
        server.close(1)
    coordinator.finish(60)
    report = coordinator.report()
    assert (report["workers"], report["servers"], report["iterations"], report["samples"]) == (2, servers, 5, 80)
    assert report["phases"]["backward"] == pytest.approx(0.5) and report["phases"]["forward"] == pytest.approx(0.25)
    coordinator.close(1)


def test_what_one_member_fails_with_all_raise():
    coordinator = _library_node.Coordinator(2, 2)
    said = {}

    def life(rank):
        node = join(coordinator, rank)
        train(node, 1)
        if rank == 1:
            node.fail("rank 1: ValueError: no more data")
        with pytest.raises(PacelineError) as raised:
            for iteration in range(2, 1000):
                train(node, iteration)
        said[rank] = raised.value
        node.close(1)

    assert on_threads(lambda: life(0), lambda: life(1)) == []
    assert {str(said[0]), str(said[1])} == {"rank 1: ValueError: no more data"}
    assert said[0].kind == "peer-lost" and said[0].exit_code == 1
    with pytest.raises(PacelineError, match="rank 1: ValueError: no more data"):
        coordinator.finish(60)
    coordinator.close(1)


def test_members_that_disagree_are_told_the_first_difference():
    coordinator = _library_node.Coordinator(2, 2)
    problems = on_threads(*(lambda rank=rank: join(coordinator, rank, settings={**SETTINGS, "momentum": str(rank / 2)}) for rank in range(2)))
    assert len(problems) == 2
    for problem in problems:
        assert isinstance(problem, PacelineError) and problem.kind == "bad-request" and problem.exit_code == 2
        assert "momentum" in str(problem)
    coordinator.close(1)


@pytest.mark.parametrize(
    "settings, words, subject",
    [({"momentun": "1"}, "did you mean 'momentum'?", "--momentun"), ({"deadline": "5"}, "needs a unit", "--deadline"), ({"momentum": "2"}, "--momentum is 2", "--momentum")],
)
def test_a_wrong_setting_is_named_before_anybody_is_asked(settings, words, subject):
    with pytest.raises(PacelineError) as raised:
        _library_node.join(TENSORS, [0, 0], settings, Place(coordinator="127.0.0.1:1"))
    assert raised.value.subject == subject and raised.value.exit_code == 2
    assert words in str(raised.value) or subject == "--deadline"


def test_a_phase_or_role_that_there_is_not_is_named():
    with pytest.raises(PacelineError, match="role 'boss'; legal: worker, both, server"):
        _library_node.join(TENSORS, [0, 0], {}, Place(role="boss", coordinator="127.0.0.1:1"))
    with pytest.raises(PacelineError, match="2 tensors, but 1 addresses"):
        _library_node.join(TENSORS, [0], {}, Place(coordinator="127.0.0.1:1"))


WAITS = """
import signal
from paceline import _library, _library_node
from paceline._node import Place, TensorSpec
signal.signal(signal.SIGINT, signal.default_int_handler)
coordinator = _library_node.Coordinator(2, 1)
wait, told = _library.wait_joined, []
def wait_and_tell(node, seconds):
    if not told:
        told.append(print("waiting", flush=True))
    return wait(node, seconds)
_library.wait_joined = wait_and_tell
try:
    _library_node.join([TensorSpec("a", (3,))], [0], {}, Place(coordinator=coordinator.address))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_a_wait_inside_the_library():
    environment = {**os.environ, "PYTHONPATH": str(SOURCE / "python")}
    with subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[0] == "interrupted\n"
        assert process.returncode == 0


def test_a_forked_child_touches_nothing_of_its_parent_s():
    coordinator = _library_node.Coordinator(1, 1)
    node = join(coordinator, 0)
    train(node, 1)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            node.wait_all(1, 0)
        except PacelineError as problem:
            code = 0 if "before fork()" in str(problem) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    train(node, 2)
    node.finish(60)
    node.close(1)
    coordinator.finish(60)
    coordinator.close(1)


# ---- Communicator


def communicators(ranks, work, **options):
    """`work(communicator)` on a thread for each rank, which meet at an address of their own."""
    import socket

    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        where = "127.0.0.1:{}".format(held.getsockname()[1])
        link = Link(5e-5, 8e-9, 1e-10)

        def life(rank):
            with paceline.Communicator(rank, coordinator=where, ranks=ranks, link=link, **options) as all_ranks:
                work(all_ranks)

        problems = on_threads(*(lambda rank=rank: life(rank) for rank in range(ranks)))
    for problem in problems:
        raise problem


def makers():
    import numpy
    import torch

    return {
        "array": lambda values: array.array("f", values),
        "bytes": lambda values: memoryview(bytearray(array.array("f", values).tobytes())).cast("f"),
        "numpy": lambda values: numpy.array(values, dtype=numpy.float32),
        "numpy float64": lambda values: numpy.array(values, dtype=numpy.float64),
        "numpy float16": lambda values: numpy.array(values, dtype=numpy.float16).reshape(2, -1),
        "torch": lambda values: torch.tensor(values, dtype=torch.float32).reshape(-1, 2),
        "torch bfloat16": lambda values: torch.tensor(values, dtype=torch.bfloat16),
        "torch int32": lambda values: torch.tensor([int(value) for value in values], dtype=torch.int32),
    }


def as_list(values):
    flat = values.flatten() if hasattr(values, "flatten") else values
    return [float(value) for value in flat]


@pytest.mark.parametrize("maker", ["array", "bytes", "numpy", "numpy float64", "numpy float16", "torch", "torch bfloat16", "torch int32"])
def test_every_operation_on_arrays_of_every_maker(maker):
    make = makers()[maker]

    def work(communicator):
        rank = communicator.rank
        own = make([rank + 1] * 6)
        communicator.allreduce(own)
        assert as_list(own) == [3] * 6
        result = make([0] * 6)
        communicator.allreduce(make([rank] * 6), result, reduction="max")
        assert as_list(result) == [1] * 6
        data = make([7 * (1 - rank)] * 6)
        communicator.broadcast(data)
        assert as_list(data) == [7] * 6
        communicator.reduce(own, root=1)
        assert rank == 0 or as_list(own) == [6] * 6
        whole = make([rank] * 6)
        communicator.reduce_scatter(whole)
        own_part = part(6, 2, rank)
        assert as_list(whole)[own_part] == [1] * 3
        mine = make([rank + 2] * 6)
        communicator.allgather(mine)
        assert as_list(mine) == [2] * 3 + [3] * 3
        communicator.barrier()

    communicators(2, work)


def test_requests_are_in_flight_together_and_groups_are_communicators():
    def work(communicator):
        values = [array.array("d", [communicator.rank + i] * 1000) for i in range(4)]
        requests = [communicator.start("allreduce", value, priority=4 - i, algorithm="ring") for i, value in enumerate(values)]
        for i, request in enumerate(requests):
            assert request.wait() and request.choice().startswith("ring, predicted ")
            assert values[i][999] == 3 + 3 * i
        if communicator.rank != 1:
            with communicator.group(1, [0, 2]) as group:
                value = array.array("d", [group.rank])
                group.allreduce(value)
                assert (group.ranks, value[0]) == (2, 1)
        communicator.barrier()

    communicators(3, work)


def test_a_call_that_makes_no_sense_is_refused_and_harms_nobody():
    import numpy
    import torch

    def refused(words, call):
        with pytest.raises(PacelineError) as raised:
            call()
        assert raised.value.kind == "bad-request" and words in str(raised.value), raised.value

    def work(communicator):
        good = array.array("f", [1, 2])
        refused("array is a list; give an array with the buffer protocol or DLPack", lambda: communicator.allreduce([1, 2]))
        refused("format 'q'", lambda: communicator.allreduce(array.array("q", [1, 2])))
        refused("DLPack's type 0", lambda: communicator.allreduce(numpy.zeros(3, dtype=numpy.int64)))
        refused("is not dense", lambda: communicator.allreduce(numpy.zeros((4, 4), dtype=numpy.float32)[:, 1]))
        refused("is not dense", lambda: communicator.allreduce(torch.zeros(4, 4).t()))
        refused("the output is read only", lambda: communicator.allreduce(good, memoryview(bytes(8)).cast("f")))
        refused("require", lambda: communicator.allreduce(torch.zeros(3, requires_grad=True)))
        refused("different types", lambda: communicator.allreduce(good, array.array("d", [1, 2])))
        refused("an array of 2 elements and an output of 1", lambda: communicator.allreduce(good, array.array("f", [1])))
        refused("'add' is no reduction; legal: sum, max, min, mean", lambda: communicator.allreduce(good, reduction="add"))
        refused("'scan' is no operation", lambda: communicator.start("scan", good))
        refused("'tree' is no algorithm", lambda: communicator.allreduce(good, algorithm="tree"))
        refused("root 2 is no rank", lambda: communicator.broadcast(good, root=2))
        refused("is closed already", closed_use(communicator))
        communicator.allreduce(good)
        assert list(good) == [2, 4]

    def closed_use(communicator):
        other = communicator.group(communicator.ranks, list(range(communicator.ranks)))
        handle = other._handle
        other.close()
        other.close()
        return lambda: _library.communicator_describe(handle)

    communicators(2, work)
    with pytest.raises(PacelineError, match="not neither"):
        paceline.Communicator(0)
    assert math.isclose(Link(1, 2, 3).residual, 0)
