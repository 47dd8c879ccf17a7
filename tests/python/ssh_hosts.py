"""A real sshd that knows one user's key, and the ssh that reaches it by names of its own."""

import contextlib
import os
import socket
import subprocess
from pathlib import Path

from jobs import all_pids, keep_port, stat_of, wait_until

SERVER = "/usr/sbin/sshd"


class Sshd:
    """On a port of the loopback, or at `address` behind `prefix`, words that stand before a command to run it elsewhere."""

    def __init__(self, folder, address="127.0.0.1", port=None, prefix=()):
        self.folder, self.address = Path(folder), address
        self.folder.mkdir(exist_ok=True)
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # it does not start without
        for name in ("host", "user"):
            if not (self.folder / name).exists():
                subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name], check=True)
        self.held = keep_port() if port is None else None
        self.port = port or self.held.getsockname()[1]
        config = self.folder / f"sshd.{address}"
        config.write_text(
            f"Port {self.port}\nListenAddress {address}\nHostKey {self.folder}/host\nAuthorizedKeysFile {self.folder}/user.pub\nStrictModes no\n"
            "PasswordAuthentication no\nUsePAM no\nPermitRootLogin yes\nPidFile none\nMaxStartups 100\n"
        )
        self.process = subprocess.Popen([*map(str, prefix), SERVER, "-D", "-e", "-f", config], stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        self.prefix = list(map(str, prefix))
        wait_until("sshd listens", self.answers)

    def answers(self):
        assert self.process.poll() is None, "sshd ended"
        if self.prefix:
            return subprocess.run([*self.prefix, "sh", "-c", f"ss -ltn | grep -q {self.address}:{self.port}"], check=False).returncode == 0
        with contextlib.suppress(OSError), socket.create_connection((self.address, self.port), timeout=1):
            return True
        return False

    def descendants(self):
        """What it has started and what that has, by process id."""
        parents = {pid: stat[1] for pid in all_pids() if (stat := stat_of(pid)) and stat[0] not in "ZX"}
        found, new = [], [self.process.pid]
        while new:
            new = [pid for pid, parent in parents.items() if parent in new]
            found += new
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in [*self.descendants(), self.process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
        self.process.wait()
        if self.held is not None:
            self.held.close()


def ssh_command(folder, names, port):
    """`names`: {what a user calls it: address}."""
    folder = Path(folder)
    key = " ".join((folder / "host.pub").read_text().split()[:2])
    (folder / "known").write_text("".join(f"[{address}]:{port} {key}\n" for address in set(names.values())) if port != 22 else "".join(f"{address} {key}\n" for address in names.values()))
    config = folder / "ssh.config"
    config.write_text(
        "".join(f"Host {name}\n  HostName {address}\n  Port {port}\n" for name, address in names.items())
        + f"Host *\n  IdentityFile {folder}/user\n  IdentitiesOnly yes\n  UserKnownHostsFile {folder}/known\n  GlobalKnownHostsFile none\n  StrictHostKeyChecking yes\n"
    )
    return f"ssh -F {config} -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5"
