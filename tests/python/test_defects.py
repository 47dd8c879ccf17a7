"""What once aborted, was taken in silence or was told in the words of a library (docs/track-record.md): refused, named, before anything begins."""

import os
import subprocess

import pytest
from jobs import PROGRAM

REFUSED = [
    (("--deadline", "100000s"), "--deadline is 100000; legal: 200ms to 86400s"),
    (("--dataset", "synthetic:1x28x28,samples=1000000000000"), "'samples' is 1000000000000"),
    (("--rank", 5), "--rank 5 is that of a process that joins a job"),
    (("--momentum", 0.5), "--momentum 0.5 is for --optimizer momentum or nesterov"),
    (("--checkpoint", ""), "--checkpoint cannot be ''"),
    (("--checkpoint", "/proc/none"), "--checkpoint: cannot make the directory /proc/none"),
    (("--export", b"a\xff"), "--export holds bytes that are no UTF-8 text"),
]


@pytest.mark.parametrize("words, said", REFUSED, ids=[" ".join(map(str, words)) for words, _ in REFUSED])
def test_it_is_refused_in_one_line_that_names_the_option(words, said, tmp_path):
    arguments = [word if isinstance(word, bytes) else os.fsencode(str(word)) for word in ("train", "--iterations", 1, *words)]
    done = subprocess.run([os.fsencode(PROGRAM), *arguments], capture_output=True, timeout=60, cwd=tmp_path)
    lines = done.stderr.decode().splitlines()
    assert (done.returncode, done.stdout, len(lines)) == (2, b"", 1), done
    assert lines[0].startswith("paceline: error: ") and said in lines[0], lines
    assert list(tmp_path.iterdir()) == []
