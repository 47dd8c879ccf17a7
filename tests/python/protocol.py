"""The first words of a session as bytes (src/wire/hello.h), for tests that speak them without the program's help."""

import hashlib
import hmac
import os
import socket
import struct
from collections import namedtuple

MAGIC = b"PLN1"
HEADER = struct.Struct("<4sBBBBQQIIIII")  # all but the header's own checksum
HELLO = struct.Struct("<QQQIIHHBBBBiiII16s32s32sH")
REPLY = struct.Struct("<QQQIHHBBHiII16s32s")
CHUNK = struct.Struct("<QQ")
HELLO_KIND, CHUNK_KIND, HEARTBEAT_KIND, GOODBYE_KIND = 0, 2, 4, 6
COORDINATOR, WORKER, SERVER, BOTH = range(4)
ACCEPTED, REFUSED, UNKNOWN, PROVE = range(4)

Reply = namedtuple("Reply", "verdict reason nonce")


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def header(major=2, kind=0, flags=0, sequence=0, body=b"", body_bytes=None, payload_bytes=0, payload_crc=0):
    head = HEADER.pack(
        MAGIC, major, 0, kind, flags, sequence, 0, 1, len(body) if body_bytes is None else body_bytes, payload_bytes, payload_crc, 0
    )
    return head + struct.pack("<I", crc32c(head + body)) + body


def hello(name, to, session, attempt=1, job=0, epoch=0, resume=0, incarnations=(0, 0), nonce=bytes(16), key=bytes(32), proof=bytes(32)):
    return HELLO.pack(session, job, 0, epoch, attempt, 4, 4, name[0], to[0], resume, 0, name[1], to[1], *incarnations, nonce, key, proof, 0)


def message_head(kind, payload_bytes, layer=-1, unit=0, iteration=0):
    """As in src/wire/message.cc: kind, flags, two zero bytes, layer, unit, detail, iteration, payload."""
    return struct.pack("<BBHiIIqQ", kind, 0, 0, layer, unit, 0, iteration, payload_bytes)


def chunk(sequence, kind, payload=b"", announced=None, message=None, offset=0, **head):
    body = CHUNK.pack(message or sequence, offset) + message_head(kind, len(payload) if announced is None else announced, **head)
    return header(kind=CHUNK_KIND, sequence=sequence, body=body, payload_bytes=len(payload), payload_crc=crc32c(payload)) + payload


def read_exactly(peer, count):
    got = b""
    while len(got) < count:
        more = peer.recv(count - len(got))
        if not more:
            raise ConnectionError("it hung up")
        got += more
    return got


def read_frame(peer):
    """Kind, body and payload."""
    fields = HEADER.unpack(read_exactly(peer, 48)[:44])
    return fields[3], read_exactly(peer, fields[8]), read_exactly(peer, fields[9])


def read_reply(peer):
    kind, body, payload = read_frame(peer)
    assert kind == 1, kind
    fields = REPLY.unpack(body[: REPLY.size])
    return Reply(fields[6], payload.decode(), fields[12])


def greet(peer, name, to, secret=None, **fields):
    """Says hello and, when asked, proves that it knows `secret` (absent: one of its own). Returns the last answer."""
    fields.setdefault("session", int.from_bytes(os.urandom(8), "little") | 1)
    peer.sendall(header(kind=HELLO_KIND, body=hello(name, to, **fields)))
    reply = read_reply(peer)
    if reply.verdict != PROVE:
        return reply
    secret = secret or os.urandom(32)
    fields["key"] = secret
    said = hello(name, to, **fields)
    fields["proof"] = hmac.new(secret, b"paceline hello 2" + reply.nonce + said, hashlib.sha256).digest()
    peer.sendall(header(kind=HELLO_KIND, body=hello(name, to, **fields)))
    return read_reply(peer)


def introduce(dial, port, name, to, **fields):
    """A connection by `dial` and the last answer to its greeting. A stranger has a second for that, which on a busy machine may be over
    before it has said a word; then it comes again."""
    for left in reversed(range(20)):
        peer = dial(port)
        try:
            return peer, greet(peer, name, to, **fields)
        except ConnectionError:
            peer.close()
            if left == 0:
                raise


def connect(port, patience=30):
    peer = socket.create_connection(("127.0.0.1", port), timeout=5)
    peer.settimeout(patience)
    return peer
