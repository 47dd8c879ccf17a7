"""The job's key (docs/security.md) through libpaceline: collective operations and workers of the Python package, programs in C and C++."""

import base64
import os
import subprocess
import sys
from pathlib import Path

import pytest
from binding import environment
from certificates import Authority
from error_lines import sentence_and_code
from jobs import PROGRAM, Coordinator, keep_port
from test_c_interface import installed, meeting, program  # noqa: F401 (fixtures)
from test_collectives import program as collectives  # noqa: F401 (a fixture)
from test_job_key import memory_of
from test_tls import key, make_key, run  # noqa: F401 (a fixture)

import paceline
from paceline import PacelineError, _library_node
from paceline._node import Place, TensorSpec

REDUCES = """
import array, paceline, sys
rank, where, file, security, wait = int(sys.argv[1]), *sys.argv[2:]
try:
    with paceline.Communicator(rank, coordinator=where, ranks=2, job_key_file=file, security=security, link=paceline.communicator.Link(5e-5, 8e-9, 1e-10)) as both:
        own = array.array("f", [rank + 1] * 1000)
        both.allreduce(own)
        print("sum", own[999], flush=True)
        if wait:
            sys.stdin.readline()
except paceline.PacelineError as error:
    print(error.kind, error)
"""


def reduce(rank, where, file="", security="auto", wait="", **variables):
    command = [sys.executable, "-c", REDUCES, str(rank), where, str(file), security, wait]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**variables))


def said(process):
    return said_and_warned(process)[0]


def said_and_warned(process):
    out, problems = process.communicate(timeout=120)
    assert process.returncode == 0, problems
    return out, problems


def test_ranks_with_one_key_reduce_and_who_has_none_or_another_is_refused_and_harms_nobody(key, tmp_path):
    other = make_key(tmp_path, "other.key")
    with keep_port() as kept:
        where = f"127.0.0.1:{kept.getsockname()[1]}"
        first = reduce(0, where, key)
        for file, words in (("", "speaks TLS"), (other, "it refused this process's job key")):
            heard = said(reduce(1, where, file))
            assert heard.startswith("bad-request ") and words in heard and where in heard and "--job-key-file" in heard, heard
        second = reduce(1, where, PACELINE_JOB_KEY_FILE=str(key))
        heard, warned = said_and_warned(first)
        assert said(second) == heard == "sum 3.0\n"
        assert "it talks in the clear" in warned and "it offers another job key" in warned, warned


def test_ranks_with_certificates_reduce_and_one_whose_name_is_not_admitted_is_refused(tmp_path):
    authority = Authority(tmp_path)
    first_file, second_file, stranger = (authority.file(name, peers="*.example") for name in ("a.example", "b.example", "c.elsewhere"))
    with keep_port() as kept:
        where = f"127.0.0.1:{kept.getsockname()[1]}"
        first = reduce(0, where, first_file)
        heard = said(reduce(1, where, stranger))
        assert heard.startswith("bad-request ") and "it refused the certificate of c.elsewhere" in heard, heard
        second = reduce(1, where, second_file, "tls")
        heard, warned = said_and_warned(first)
        assert said(second) == heard == "sum 3.0\n"
        assert "c.elsewhere is of none of the peers" in warned, warned


def test_a_rank_with_a_key_does_not_reduce_with_one_in_the_clear(key):
    with keep_port() as kept:
        where = f"127.0.0.1:{kept.getsockname()[1]}"
        # None on the loopback talks in the clear although the variable names a key.
        first = reduce(0, where, security="none", PACELINE_JOB_KEY_FILE=str(key))
        heard = said(reduce(1, where, key))
        assert heard.startswith("bad-request ") and "it talks in the clear" in heard and where in heard, heard
        assert said(reduce(1, where)) == "sum 3.0\n" and said(first) == "sum 3.0\n"


def test_beyond_the_loopback_the_library_refuses_as_the_commands_do():
    """With the same sentence, before anything listens; and "none" is not refused for that."""
    code, sentence = run("coordinator", "--bind", "10.1.2.3")
    sentence, shown = sentence_and_code(sentence.rstrip())
    assert shown == "PL-NO-KEY"
    assert code == 2 and "paceline key new FILE" in sentence and "--security none" in sentence
    out = ["10.1.2.3:4200", "10.1.2.3:4201"]
    ways = {
        "a list": lambda **more: paceline.Communicator(0, out, connect_seconds=0.01, **more),
        "a meeting": lambda **more: paceline.Communicator(0, coordinator=out[0], ranks=2, connect_seconds=0.01, **more),
        "a bind": lambda **more: paceline.Communicator(0, coordinator="127.0.0.1:1", ranks=2, bind="10.1.2.3", connect_seconds=0.01, **more),
        "a coordinator": lambda **more: _library_node.Coordinator(1, 1, listen=out[0], key=Place(**more)),
    }
    for way, begin in ways.items():
        with pytest.raises(PacelineError) as raised:
            begin()
        assert (str(raised.value), raised.value.kind, raised.value.subject) == (sentence, "bad-request", "job_key_file"), way
        with pytest.raises(PacelineError) as raised:
            begin(security="none")
        assert "loopback" not in str(raised.value), way
    for role in ("worker", "both"):
        with pytest.raises(PacelineError) as raised:
            _library_node.join([TensorSpec("a", (3,))], [0], {}, Place(role=role, coordinator=out[0], bind="127.0.0.1"))
        assert str(raised.value) == sentence
    with pytest.raises(PacelineError) as raised:
        _library_node.Server(Place(coordinator="127.0.0.1:4200", bind="10.1.2.3"))
    assert str(raised.value) == sentence


def test_a_key_that_is_none_is_refused_by_name(key, tmp_path, monkeypatch):
    key.chmod(0o644)
    wrong = {str(key): "chmod 600", str(tmp_path / "missing"): "paceline key new", "fd:0": "3 or more"}
    for file, words in wrong.items():
        for begin in (lambda file=file: paceline.Communicator(0, ["127.0.0.1:0"], job_key_file=file), lambda file=file: _library_node.Coordinator(1, 1, key=Place(job_key_file=file))):
            with pytest.raises(PacelineError) as raised:
                begin()
            assert raised.value.kind == "bad-request" and file in str(raised.value) and words in str(raised.value), raised.value
    monkeypatch.setenv("PACELINE_JOB_KEY_FILE", str(key))
    with pytest.raises(PacelineError, match="chmod 600"):
        paceline.Communicator(0, ["127.0.0.1:0"])
    monkeypatch.delenv("PACELINE_JOB_KEY_FILE")
    with pytest.raises(PacelineError, match="--security knows no 'tsl'"):
        paceline.Communicator(0, ["127.0.0.1:0"], security="tsl")
    with pytest.raises(PacelineError, match="--security psk needs the job's key"):
        paceline.Communicator(0, ["127.0.0.1:0"], security="psk")


TRAINS = """
import array, sys
from paceline import PacelineError, _library_node
from paceline._node import Place, TensorSpec
values = array.array("f", [0, 0, 0])
try:
    node = _library_node.join([TensorSpec("a", (3,))], [values.buffer_info()[0]], {}, Place(role="both", coordinator=sys.argv[1], job_key_file=sys.argv[2]))
    node.gradient_ready(0, array.array("f", [1, 2, 3]).buffer_info()[0])
    node.backward_done(1, [])
    node.step_done(1, 0.5, {})
    node.finish(60)
    print("done")
except PacelineError as error:
    print(error.kind, error)
"""


def test_a_worker_of_the_package_joins_a_coordinator_that_has_the_key(key, tmp_path):
    def train(file):
        return subprocess.run([sys.executable, "-c", TRAINS, coordinator.address, str(file)], capture_output=True, text=True, timeout=120, env=environment()).stdout

    other = make_key(tmp_path, "other.key")
    with Coordinator("--workers", 1, "--servers", 1, "--job-key-file", key) as coordinator:
        for file, words in (("", "speaks TLS"), (other, "it refused this process's job key")):
            heard = train(file)
            assert heard.startswith("bad-request ") and words in heard and coordinator.address in heard, heard
        assert train(key) == "done\n"
        assert coordinator.finish() == 0, coordinator.err
        assert coordinator.report()["security"] == "psk"


def test_programs_in_c_and_cpp_take_the_key_from_the_environment(program, collectives, key, tmp_path):  # noqa: F811
    def start(*command, file):
        variables = environment(**({"PACELINE_JOB_KEY_FILE": str(file)} if file else {}))
        return subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables)

    held, address = meeting()
    with held:
        process = start(program, "sgd", address, file=key)
        out, problems = process.communicate(timeout=120)
        assert process.returncode == 0 and "report " in out, problems
    held, address = meeting()
    with held:
        first = start(collectives, 0, "of", 2, address, file=key)
        other = make_key(tmp_path, "other.key")
        for file in (None, other):
            stranger = start(collectives, 1, "of", 2, address, file=file)
            assert "--job-key-file" in stranger.communicate(timeout=120)[1] and stranger.returncode == 2
        for process in (start(collectives, 1, "of", 2, address, file=key), first):
            out, problems = process.communicate(timeout=120)
            assert process.returncode == 0 and "mean 1.5" in out, problems


def test_the_key_stands_in_no_argument_environment_or_core_of_a_process_of_the_package(key):
    secret = key.read_bytes()
    forms = [secret, secret.hex().encode(), secret.hex().upper().encode(), base64.b64encode(secret).rstrip(b"=")]
    with keep_port() as kept:
        where = f"127.0.0.1:{kept.getsockname()[1]}"
        ranks = [reduce(rank, where, key, wait="wait") for rank in range(2)]
        for rank in ranks:
            assert rank.stdout.readline() == "sum 3.0\n"
        for rank in ranks:
            for place in ("cmdline", "environ"):
                assert not any(form in Path(f"/proc/{rank.pid}/{place}").read_bytes() for form in forms), place
            for chunk in memory_of(rank.pid):
                assert not any(form in chunk for form in forms), "a core"
        for rank in ranks:
            rank.communicate("\n", timeout=120)
            assert rank.returncode == 0


def test_an_error_has_a_page_and_its_text():
    with pytest.raises(PacelineError) as raised:
        paceline.Communicator(0, ["10.1.2.3:4200", "10.1.2.3:4201"], connect_seconds=0.01)
    assert (raised.value.code, raised.value.page) == ("no-key", "PL-NO-KEY")
    assert raised.value.help().startswith("PL-NO-KEY: ") and "What to do: " in raised.value.help()
    assert PacelineError("why", kind="io", code="unheard-of").help().startswith("PL-IO: ")


def test_python_makes_a_key_as_the_program_does_and_is_the_program(tmp_path):
    file = tmp_path / "new.key"
    assert paceline.new_key(file) == str(file) and len(file.read_bytes()) == 32 and file.stat().st_mode & 0o7777 == 0o600
    before = file.read_bytes()
    with pytest.raises(PacelineError, match="is there already, and a key that is in use must not go") as refused:
        paceline.new_key(file)
    found = environment(PATH=os.pathsep.join([os.path.dirname(PROGRAM), os.environ["PATH"]]))  # where this checkout has built none
    program = subprocess.run([sys.executable, "-m", "paceline", "key", "new", file], capture_output=True, text=True, env=found)
    assert program.returncode == refused.value.exit_code == 2 and sentence_and_code(program.stderr.strip()) == (refused.value.message, refused.value.page)
    with pytest.raises(PacelineError, match="cannot be made: No such file"):
        paceline.new_key(tmp_path / "nowhere/key")
    assert file.read_bytes() == before
    said = subprocess.run([sys.executable, "-m", "paceline", "--version"], capture_output=True, text=True, env=found)
    assert said.stdout == f"paceline {paceline.__version__}\n"
