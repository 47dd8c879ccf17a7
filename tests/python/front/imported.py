"""A process that has imported PyTorch and forks those that run tests' scripts: an import takes three seconds of a processor, a fork some milliseconds.

`forked` beside this file stands for the interpreter then. What a script sees that a fresh interpreter would not have: modules that are imported already,
and the same order in sets of strings on all ranks. It has to be started with one thread (OMP_NUM_THREADS=1), and ends with its standard input.
"""

import gc
import json
import os
import random
import runpy
import selectors
import shutil
import socket
import sys

import numpy
import torch._dynamo  # optimizers import it
import torch.distributed.launcher.api  # what torchrun is made of

import paceline.torch  # noqa: F401


class Forks:
    """Forked processes by the descriptors that tell of their end, and the connections of those who asked for them."""

    def __init__(self, path):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(64)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ, self.accepted)
        self.selector.register(0, selectors.EVENT_READ, self.abandoned)
        self.living = {}  # by connection: (process, what tells of its end)

    def wait(self):
        """Returns in a forked process only: what it was asked to run."""
        while True:
            for key, _ in self.selector.select():
                if (asked := key.data(key.fileobj)) is not None:
                    return asked

    def accepted(self, _):
        connection, _ = self.listener.accept()
        _, files, *_ = socket.recv_fds(connection, 1, 3)
        with connection.makefile("rb") as sent:
            asked = json.loads(sent.read(int.from_bytes(sent.read(8), "little")))
        process = os.fork()
        if process == 0:
            self.close(connection)
            for number, file in enumerate(files):
                os.dup2(file, number)
                os.close(file)
            return asked
        for file in files:
            os.close(file)
        connection.sendall(b"%d\n" % process)
        ending = os.pidfd_open(process)
        self.living[connection] = process, ending
        self.selector.register(connection, selectors.EVENT_READ, self.left)
        self.selector.register(ending, selectors.EVENT_READ, lambda _: self.ended(connection))

    def left(self, connection):
        """Who asked was killed: so is the process."""
        os.kill(self.living[connection][0], 9)
        self.selector.unregister(connection)

    def ended(self, connection):
        process, ending = self.living.pop(connection)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        self.selector.unregister(ending)
        os.close(ending)
        if connection in self.selector.get_map():
            self.selector.unregister(connection)
            connection.sendall(b"%d\n" % code)
        connection.close()

    def abandoned(self, _):
        for process, _ in self.living.values():
            os.kill(process, 9)
        shutil.rmtree(os.path.dirname(self.listener.getsockname()))
        os._exit(0)

    def close(self, *connections):
        """In a forked process: nothing that it holds of the others."""
        self.selector.close()
        self.listener.close()
        for connection, (_, ending) in self.living.items():
            connection.close()
            os.close(ending)
        for connection in connections:
            connection.close()


def become(asked, path):
    """(words) This process is what a fresh interpreter with these words, variables and folder would be."""
    os.setsid()
    os.environ.clear()
    os.environ.update(asked["variables"])
    os.chdir(asked["folder"])
    random.seed()
    numpy.random.seed()
    words = asked["words"]
    if words[0] == "-u":
        words = words[1:]
        sys.stdout.reconfigure(line_buffering=True)
    sys.path[:] = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), *path]
    return words


def run(words, names):
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = words
    sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
    names.update(__file__=words[0])
    with open(words[0]) as script:
        exec(compile(script.read(), words[0], "exec"), names)


def main(path, names):
    """`names`: of the module __main__, in which a forked process runs its script."""
    plain = [place for place in sys.path if place not in os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    gc.freeze()  # a forked process does not copy what its collector would only look at
    words = become(Forks(path).wait(), plain)
    for name in [name for name in names if not name.startswith("__")]:
        del names[name]
    run(words, names)
