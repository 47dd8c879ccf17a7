"""A TLS client that is not Paceline's, `openssl s_client`, as a socket of the tests; and what of the job's key it has to know."""

import hashlib
import hmac
import os
import select
import socket
import subprocess


def derive(key, purpose):
    """As in src/base/job_key.h: HKDF-SHA256 without salt."""
    extracted = hmac.new(bytes(32), key, hashlib.sha256).digest()
    return hmac.new(extracted, purpose + b"\1", hashlib.sha256).digest()


def identity(key):
    return "paceline/1 key=" + derive(key, b"paceline key name 1")[:8].hex()


def offer(key):
    """The options of s_client for whoever holds `key`."""
    return ("-psk", derive(key, b"paceline tls 1").hex(), "-psk_identity", identity(key))


class TlsPeer:
    """What of a socket the tests use. `options`: of s_client."""

    def __init__(self, port, *options, patience=30):
        self.patience = patience
        self.process = subprocess.Popen(
            ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-quiet", "-tls1_3", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        os.set_blocking(self.process.stdin.fileno(), False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def settimeout(self, seconds):
        self.patience = seconds

    def sendall(self, data):
        left = memoryview(data)
        while left:
            if not select.select([], [self.process.stdin], [], self.patience)[1]:
                raise TimeoutError("s_client takes nothing more")
            try:
                left = left[os.write(self.process.stdin.fileno(), left[:4096]) :]
            except BlockingIOError:
                continue

    def recv(self, count):
        if not select.select([self.process.stdout], [], [], self.patience)[0]:
            raise socket.timeout("nothing came")
        return os.read(self.process.stdout.fileno(), count)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
