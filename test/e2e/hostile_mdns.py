"""Answers multicast DNS as no host should: garbage, absurd counts, endless names, thousands of boxes, terminal escapes.

  hostile_mdns.py ADDRESS     writes "ready", then answers every question that it hears
"""
import os
import socket
import struct
import sys

GROUP, PORT = "224.0.0.251", 5353
SERVICE = b"\x09_lineside\x04_tcp\x05local\x00"
own = sys.argv[1]

conn = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
conn.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
conn.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
conn.bind(("0.0.0.0", PORT))
member = socket.inet_aton(GROUP) + socket.inet_aton(own)
conn.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
conn.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
conn.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 255)


def label(text):
    return bytes([len(text)]) + text


def record(name, kind, data, ttl=120):
    return name + struct.pack(">HHIH", kind, 1, ttl, len(data)) + data


def answer(*records, count=None):
    return struct.pack(">HHHHHH", 0, 0x8400, 0, len(records) if count is None else count, 0, 0) + b"".join(records)


def box(name, host, facts):
    full = label(name) + SERVICE
    target = label(host) + b"\x05local\x00"
    return [
        record(SERVICE, 12, full),
        record(full, 33, struct.pack(">HHH", 0, 0, 1) + target),
        record(full, 16, b"".join(label(fact) for fact in facts)),
        record(target, 1, socket.inet_aton("192.0.2.66")),
    ]


def answers():
    yield b""
    yield os.urandom(400)
    yield answer(count=65535)
    yield answer(b"\xc0\x0c" + b"\x00" * 10)
    yield answer(record(b"\xc0\x0c", 12, b"\xc0\x0c"))
    # Every name of many records is the same long chain of pointers.
    chain = label(b"a" * 63) * 3 + b"\x00"
    yield answer(record(chain, 12, chain), *[record(b"\xc0\x0c", 12, b"\xc0\x0c") for _ in range(600)])
    yield answer(*box(b"\x1b[2J\x1b]0;owned\x07", b"\x1b[31m", [b"id=\x1b[5m", b"version=\x9b2J", b"fp=" + b"z" * 64]))
    yield answer(record(label(b"big") + SERVICE, 16, label(b"x" * 255) * 30))
    for start in range(0, 2000, 8):
        parts = [part for n in range(start, start + 8) for part in box(b"ghost-%d" % n, b"host-%d" % n, [b"http=1"])]
        yield answer(*parts)


print("ready", flush=True)
while True:
    question, _ = conn.recvfrom(9000)
    if question[2:3] and question[2] & 0x80 == 0:
        for one in answers():
            conn.sendto(one, (GROUP, PORT))
