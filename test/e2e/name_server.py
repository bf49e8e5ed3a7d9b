"""A name server for end-to-end tests: UDP, the standard library alone. It answers A and AAAA by a zone that changes on request,
all with TTL 0.

arguments        the address to listen on, port 53
standard input   JSON lines: {"id": n, "zone": {name: look-ups}}, each a list of lists of addresses, of which each look-up gets
                 the next (round and round); "drop": never answered; a name that is not in the zone does not exist.
standard output  {"listening": true}, and {"done": id}.
"""
import ipaddress
import json
import socket
import struct
import sys
import threading

A, AAAA, NXDOMAIN, ANSWER = 1, 28, 3, 0x8180
zone = {}
counts = {}


def question(message):
    labels, at = [], 12
    while message[at]:
        labels.append(message[at + 1 : at + 1 + message[at]].decode('ascii'))
        at += 1 + message[at]
    (kind,) = struct.unpack_from('>H', message, at + 1)
    return '.'.join(labels).lower(), kind, message[12 : at + 5]


def addresses(name, kind):
    """None: there is no such name."""
    lookups = zone.get(name)
    if lookups is None:
        return None
    count = counts[name, kind] = counts.get((name, kind), -1) + 1
    parsed = [ipaddress.ip_address(one) for one in lookups[count % len(lookups)]]
    return [one.packed for one in parsed if (one.version == 4) == (kind == A)] if kind in (A, AAAA) else []


def answer(message):
    name, kind, asked = question(message)
    if zone.get(name) == 'drop':
        return None
    found = addresses(name, kind)
    flags = ANSWER | (NXDOMAIN if found is None else 0)
    records = [struct.pack('>HHHIH', 0xC00C, kind, 1, 0, len(one)) + one for one in found or []]
    return message[:2] + struct.pack('>HHHHH', flags, 1, len(records), 0, 0) + asked + b''.join(records)


def serve(server):
    while True:
        message, client = server.recvfrom(4096)
        reply = answer(message)
        if reply is not None:
            server.sendto(reply, client)


def report(**message):
    print(json.dumps(message), flush=True)


server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((sys.argv[1], 53))
threading.Thread(target=serve, args=(server,), daemon=True).start()
report(listening=True)
for line in sys.stdin:
    order = json.loads(line)
    zone = order['zone']
    report(done=order['id'])
