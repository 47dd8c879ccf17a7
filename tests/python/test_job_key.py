"""The key of a job (docs/security.md): its file, what does not start without it, and where it must not stand."""

import base64
import os
import re
import signal
import stat
from pathlib import Path

from jobs import Coordinator, Job, train
from test_outsiders import ENDLESS, task  # noqa: F401 (a fixture)
from test_tls import key, run  # noqa: F401 (a fixture)


def test_beyond_the_loopback_nothing_starts_in_the_clear_unless_it_is_told_to(task, key):
    for words in (
        ("coordinator", "--bind", "0.0.0.0"),
        ("train", "--join", "10.1.2.3:4100", *task, "--iterations", 1),
        ("train", "--join", "127.0.0.1:4100", "--bind", "10.1.2.3", "--role", "both", *task, "--iterations", 1),
        ("coordinator", "--security", "psk"),
        ("coordinator", "--security", "none", "--job-key-file", key),
    ):
        code, said = run(*words)
        assert code == 2 and said.count("\n") == 1, (words, said)
        assert "none" in words or "paceline key new FILE" in said and "--job-key-file" in said, said
        assert "psk" in words or "--security none" in said, said
    for options in (("--security", "none"), ("--job-key-file", key)):
        with Coordinator("--bind", "0.0.0.0", *options) as coordinator:
            coordinator.signal(signal.SIGTERM)
            assert coordinator.finish() == 130, coordinator.err
    # All processes are started here, and the key is made for them.
    assert train(*task, "--workers", 1, "--iterations", 3, "--bind", "0.0.0.0")["security"] == "psk"


def test_a_new_key_is_a_file_of_32_bytes_for_its_owner_and_replaces_nothing(tmp_path):
    code, said = run("key", "new", tmp_path / "a.key", prefix=("sh", "-c", 'umask 0; exec "$@"', "sh"))
    file = tmp_path / "a.key"
    assert code == 0, said
    before = file.read_bytes()
    assert len(before) == 32 and stat.S_IMODE(file.stat().st_mode) == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    for there in ("a.key", "link", "."):
        code, said = run("key", "new", tmp_path / there)
        assert code == 2 and "is there already" in said, said
    code, said = run("key", "new", tmp_path / "no folder/b.key")
    assert code == 2 and "no folder/b.key" in said, said
    assert file.read_bytes() == before and not (tmp_path / "nothing").exists()


def test_a_key_that_others_could_know_or_that_is_none_is_refused_by_name(tmp_path, key):
    def made(name, content=os.urandom(32), mode=0o600):
        file = tmp_path / name
        file.write_bytes(content)
        file.chmod(mode)
        return file

    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    readable = made("readable", mode=0o644)
    (tmp_path / "link").symlink_to(readable)
    wrong = {
        readable: "chmod 600",
        made("group", mode=0o640): "chmod 600",
        tmp_path / "link": "chmod 600",
        made("short", os.urandom(31)): "exactly 32",
        made("line end", os.urandom(32) + b"\n"): "exactly 32",
        made("empty", b""): "exactly 32",
        made("zeros", bytes(32)): "zeros",
        tmp_path / "missing": "paceline key new",
        tmp_path / "dangling": "paceline key new",
        tmp_path / "folder": "a directory",
        tmp_path / "pipe": "no regular file",
        "fd:77": "no such descriptor",
        "fd:0": "3 or more",
    }
    if os.geteuid() == 0:  # nobody else can give a file away
        foreign = made("foreign")
        os.chown(foreign, 4711, 4711)
        wrong[foreign] = "belongs to user 4711"
    for file, reason in wrong.items():
        code, said = run("coordinator", "--job-key-file", file)
        assert code == 2 and said.count("\n") == 1, (file, said)
        assert str(file) in said and reason in said, said
    # A link to a file that is well is well, as with ssh: secrets are mounted so.
    (tmp_path / "good link").symlink_to(key)
    with Coordinator("--job-key-file", tmp_path / "good link") as coordinator:
        coordinator.signal(signal.SIGTERM)
        assert coordinator.finish() == 130, coordinator.err


# ---- where the key is


def memory_of(pid):
    """What a core of this process would hold of memory that it writes."""
    with open(f"/proc/{pid}/smaps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        place = None
        for line in maps:
            if match := re.match(r"([0-9a-f]+)-([0-9a-f]+) (....)", line):
                place = int(match[1], 16), int(match[2], 16), match[3]
            elif line.startswith("VmFlags:") and place[2].startswith("rw") and " dd" not in line:
                memory.seek(place[0])
                try:
                    yield memory.read(place[1] - place[0])
                except OSError:
                    pass


def test_the_key_stands_in_no_argument_environment_file_line_or_core(tmp_path, task, key):
    secret = key.read_bytes()
    forms = [secret, secret.hex().encode(), secret.hex().upper().encode(), base64.b64encode(secret).rstrip(b"=")]
    files = tmp_path / "files"
    files.mkdir()
    options = ("--checkpoint", files / "checkpoints", "--checkpoint-every", 5, "--trace", files / "trace.json")
    with_core = ("sh", "-c", 'ulimit -c unlimited; exec "$@"', "sh")  # where the system writes it into the folder
    with Job(files, *task, *ENDLESS, "--workers", 2, "--servers", 1, *options, "--job-key-file", key, prefix=with_core, cwd=files) as job:
        job.wait_for_iterations(20)
        pids = {"the parent": job.pid, **job.children()}
        assert len(pids) == 5
        for name, pid in pids.items():
            for where in ("cmdline", "environ"):
                assert not any(form in Path(f"/proc/{pid}/{where}").read_bytes() for form in forms), (name, where)
            for chunk in memory_of(pid):
                assert not any(form in chunk for form in forms), (name, "a core")
        os.kill(pids["worker 1"], signal.SIGABRT)
        assert job.finish() != 0
        said = (job.out + job.err).encode()
    assert not any(form in said for form in forms)
    written = [path for path in files.rglob("*") if path.is_file()]
    assert len(written) > 3, written
    for path in written:
        assert not any(form in path.read_bytes() for form in forms), path


def test_children_inherit_a_descriptor_of_the_key_and_nothing_else_of_it(tmp_path, task, key):
    """Its number is all that the command lines say; nobody opens the file again, which may be gone by then."""
    with Job(tmp_path, *task, *ENDLESS, "--workers", 2, "--servers", 1, "--job-key-file", key) as job:
        job.wait_for_iterations(1)
        for pid in job.children().values():
            words = Path(f"/proc/{pid}/cmdline").read_text()
            assert re.search(r'--job-key-file\0fd:\d+\0|"request": ?\d+', words), words
            assert str(key) not in words
        job.signal(signal.SIGTERM)
        assert job.finish() == 130, job.err
