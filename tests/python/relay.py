"""Somebody in the middle of one connection after the other: hands bytes on, keeps them, changes them, or cuts them off."""

import socket
import threading


class Relay:
    """Listens at `address` and hands each connection on to `port`. `meddle(number, offset, data)` gets what the side that connects
    says: the connection's number from 0, how many bytes came before, and the bytes; returns what goes on instead, or None to cut the
    connection off there."""

    def __init__(self, port, meddle=lambda number, offset, data: data):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = port
        self.meddle = meddle
        self.said = []  # by each side that connected, as it came
        self.open = []
        threading.Thread(target=self.serve, daemon=True).start()

    @property
    def address(self):
        return f"127.0.0.1:{self.listener.getsockname()[1]}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
        for one in self.open:
            one.close()

    def serve(self):
        while True:
            try:
                member, _ = self.listener.accept()
                other = socket.create_connection(("127.0.0.1", self.port), timeout=5)
            except OSError:
                return
            other.settimeout(None)
            self.open += [member, other]
            self.said.append(b"")
            number = len(self.said) - 1
            threading.Thread(target=self.pass_on, args=(member, other, number), daemon=True).start()
            threading.Thread(target=self.pass_on, args=(other, member, None), daemon=True).start()

    def pass_on(self, source, sink, number):
        offset = 0
        try:
            while got := source.recv(65536):
                if number is not None:
                    self.said[number] += got
                    got, offset = self.meddle(number, offset, got), offset + len(got)
                    if got is None:
                        break
                sink.sendall(got)
        except OSError:
            pass
        for side in (source, sink):
            try:
                side.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
