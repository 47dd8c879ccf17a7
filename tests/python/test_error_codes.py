"""Every refusal has a code with a page: `paceline help PL-...` prints it. No code of the tree is without a page, and no page without use."""

import json
import re
import socket
import subprocess

import pytest

from error_lines import sentence_and_code
from jobs import PATIENCE, PROGRAM, ROOT, Coordinator, Process, keep_port

WORD = r'"([a-z][a-z-]*)"'
TEXT = re.compile(r'"(?:\\.|[^"\\])*"')


def run(*words):
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def pages():
    done = run("help", "codes", "--json")
    assert done.returncode == 0, done.stderr
    return {page["code"]: page for page in json.loads(done.stdout)}


def sources():
    """C++ that makes errors: not the tests, and not the tables of pages themselves."""
    for folder in ("src", "apps", "trainer", "bench"):
        for path in (ROOT / folder).rglob("*.*"):
            if path.suffix in (".cc", ".h", ".cu") and not re.search(r"_test\.|_fuzz\.|testing|error_pages", path.name):
                yield path, path.read_text()


def pieces(text, begin):
    """What stands between the commas of the bracket that opens in front of `begin`, and where it closes."""
    found, depth, at, start = [], 1, begin, begin
    while depth:
        if text[at] == '"':
            at = TEXT.match(text, at).end()
            continue
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(text[at], 0)
        if depth == 0 or (depth == 1 and text[at] == ","):
            found.append(text[start:at])
            start = at + 1
        at += 1
    return found, at


def places_of_codes(text):
    """What stands where a code belongs: `because({CODE, ...})`, `Status(kind, sentence, {CODE, ...})`, `refusal(CODE, ...)`, the last of
    `end(peer, kind, what, goodbye, CODE)`, `SaidError{sentence, CODE}`, and what `code_of_...()` returns."""
    for call in re.finditer(r"\bbecause\(\{", text):
        yield pieces(text, call.end())[0][0]
    for call in re.finditer(r"\bStatus\(", text):
        arguments = pieces(text, call.end())[0]
        cause = arguments[-1].strip()
        if len(arguments) == 3 and cause.startswith("{"):
            yield pieces(cause, 1)[0][0]
    for call in re.finditer(r"\brefusal\(", text):
        yield pieces(text, call.end())[0][0]
    for call in re.finditer(r"\bend\(", text):
        arguments = pieces(text, call.end())[0]
        if len(arguments) == 5:
            yield arguments[4]
    if "SaidError" in text:
        yield from re.findall(r', "[a-z-]+"\};', text)
    for body in re.findall(r"\bcode_of\w*\([^)]*\) \{(.*?)\n\}", text, re.DOTALL):
        yield " ".join(re.findall(r"return [^;]*;", body))


@pytest.fixture(scope="module")
def used():
    """Code -> a file that has it in the place of a code."""
    texts = dict(sources())
    constants = {name: word for text in texts.values() for name, word in re.findall(rf"\bconst char\* (k\w+) = {WORD};", text)}
    found = {}
    for path, text in texts.items():
        for place in places_of_codes(text):
            for word in [*re.findall(WORD, place), *(constants[name] for name in re.findall(r"\bk[A-Z]\w*", place) if name in constants)]:
                found.setdefault(word, path)
    for path in (ROOT / "python/paceline").rglob("*.py"):
        for word in re.findall(rf"\bcode={WORD}", path.read_text()):
            found.setdefault(word, path)
    return found


def test_no_code_is_without_a_page_and_no_page_without_use(pages, used):
    lacking = {code: str(path) for code, path in used.items() if code not in pages}
    assert lacking == {}, "src/base/error_pages_*.cc has no page for these"
    assert sorted(set(pages) - set(used)) == [], "nothing has these codes any more; their pages can go"


def test_every_page_is_shown_in_whatever_case(pages):
    listed = run("help", "codes").stdout
    for page in pages.values():
        assert f"  {page['shown']} " in listed and page["title"] in listed
        done = run("help", page["shown"].lower())
        assert done.returncode == 0 and done.stderr == "", done
        assert done.stdout == run("help", page["shown"]).stdout
        words = done.stdout.split()
        assert words[0] == f"{page['shown']}:" and "How to check: " in done.stdout and "What to do: " in done.stdout
        for paragraph in ("title", "means", "check", "remedy"):
            assert " ".join(page[paragraph].replace("`", "'").split()) in " ".join(words), paragraph


def test_error_lines_that_the_documentation_shows_end_with_a_code_that_there_is(pages):
    shown = {page["shown"] for page in pages.values()}
    lines = 0
    for file in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for block in re.findall(r"^```.*?^```$", file.read_text(), re.DOTALL | re.MULTILINE):
            said = block.split("paceline: error: ")[1:]
            lines += len(said)
            for one in said:
                code = re.search(r"\[paceline help (PL-[A-Z-]+)\]", one)
                assert code and code[1] in shown, (file, one)
    assert lines >= 4


@pytest.mark.parametrize("wrong, meant", [("PL-PORT-INUSE", "PL-PORT-IN-USE"), ("pl-peer-lots", "PL-PEER-LOST")])
def test_a_near_miss_is_told_the_nearest(wrong, meant):
    done = run("help", wrong)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert sentence_and_code(done.stderr.rstrip()) == (f"there is no code '{wrong}' (did you mean '{meant}'?); 'paceline help codes' lists them", "PL-UNKNOWN")


def key(folder, name, mode=0o600):
    file = folder / name
    assert run("key", "new", file).returncode == 0
    file.chmod(mode)
    return file


@pytest.fixture(scope="module")
def replay(tmp_path_factory):
    """A job whose workers compute nothing."""
    file = tmp_path_factory.mktemp("replay") / "table.json"
    file.write_text(json.dumps({"layers": [{"name": "a", "parameters": 1000, "forward_s": 0.001, "backward_s": 0.001}]}))
    return ("train", "--model", f"replay:{file}", "--iterations", 2)


MISTAKES = {  # what is typed, in a folder of its own -> the code
    "UNKNOWN": lambda _: ("train", "--modell", "lenet"),
    "ILLEGAL": lambda _: ("train", "--workers", 0),
    "CONTRADICTION": lambda _: ("train", "--optimizer", "sgd", "--momentum", 0.5),
    "MISSING": lambda _: ("plan", "slice", "--nodes", 4),
    "NO-FILE": lambda folder: ("train", "--config", folder / "none.toml"),
    "FORMAT": lambda folder: ("train", "--config", folder / "broken.toml"),
    "ADDRESS": lambda _: ("train", "--join", "nowhere"),
    "NO-KEY": lambda _: ("coordinator", "--bind", "10.1.2.3"),
    "KEY": lambda folder: ("coordinator", "--job-key-file", key(folder, "readable", 0o644)),
}


@pytest.mark.parametrize("code", MISTAKES)
def test_a_mistake_shows_its_code(code, tmp_path):
    (tmp_path / "broken.toml").write_text("workers = = 3\n")
    with Process(*MISTAKES[code](tmp_path)) as process:
        assert process.finish() == 2, process.err
        assert process.the_code() == f"PL-{code}", process.err


def test_a_port_that_is_taken_shows_its_code():
    with keep_port() as kept:
        kept.listen()
        with Process("coordinator", "--port", kept.getsockname()[1]) as process:
            assert process.finish() == 1 and process.the_code() == "PL-PORT-IN-USE", process.err


def test_a_checkpoint_that_is_not_there_shows_its_code(replay, tmp_path):
    with Process(*replay, "--workers", 1, "--servers", 1, "--checkpoint", tmp_path / "none", "--resume") as job:
        assert job.finish() == 2 and job.the_code() == "PL-NO-CHECKPOINT", job.err


def test_what_listens_elsewhere_shows_its_code(replay):
    with socket.create_server(("127.0.0.1", 0)) as server, Process(*replay, "--join", f"127.0.0.1:{server.getsockname()[1]}", "--deadline", "2s") as process:
        server.settimeout(PATIENCE)
        said, _ = server.accept()
        with said:
            said.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(64))
            again, _ = server.accept()
            with again:
                again.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(64))
                assert process.finish() == 2 and process.the_code() == "PL-NOT-PACELINE", process.err


def test_a_coordinator_tells_its_code_to_who_joins_and_to_who_started_it(replay):
    """The code goes with the sentence over the network and through the process above."""
    with Coordinator("--workers", 2, "--servers", 0) as coordinator:
        join = (*replay, "--join", coordinator.address, "--collective", "loop3")
        with Process(*join, "--rank", 0) as first, Process(*join, "--rank", 1, "--seed", 5) as second:
            assert first.finish() == 2 and second.finish() == 2, (first.err, second.err)
            assert coordinator.finish() == 2
            assert {first.the_code(), second.the_code(), coordinator.the_code()} == {"PL-DISAGREE"}
    with Process("run", "--workers", 1, "--", "/bin/true") as job:
        assert job.finish() == 1 and job.the_code() == "PL-NEVER-JOINED", job.err
