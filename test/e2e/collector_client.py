#!/usr/bin/env python3
"""An independent client of lineside.v1.CollectorService: it knows proto/lineside.proto, nothing of lineside.

usage: collector_client.py STUBS_DIR ADDRESS

Prints "ok NAME" for each check; exit status 1 at the first that fails.
"""
import sys

import grpc

STUBS, ADDRESS = sys.argv[1:3]
sys.path.insert(0, STUBS)
import lineside_pb2 as pb  # noqa: E402
import serial_pb2 as serial  # noqa: E402

LIMIT_S = 20
DEVICE, LOG = 'python-box', 'log-of-python'
# Stubs of its own making: Debian's grpc_python_plugin is in another package.
SERVICE = '/lineside.v1.CollectorService/'


def stubs(channel):
    push = channel.stream_unary(
        SERVICE + 'Push',
        request_serializer=pb.UpstreamBatch.SerializeToString,
        response_deserializer=pb.PushResult.FromString,
    )
    position = channel.unary_unary(
        SERVICE + 'GetPosition',
        request_serializer=pb.PositionRequest.SerializeToString,
        response_deserializer=pb.Position.FromString,
    )
    return (
        lambda *batches: push(iter(batches), timeout=LIMIT_S).through_id,
        lambda: position(pb.PositionRequest(device_id=DEVICE, log_id=LOG), timeout=LIMIT_S).through_id,
    )


def batch(after, through, ids, gaps=()):
    return pb.UpstreamBatch(
        schema_version=1,
        device_id=DEVICE,
        log_id=LOG,
        after_id=after,
        through_id=through,
        entries=[
            pb.LogEntry(
                id=one,
                clock=pb.ENTRY_CLOCK_KNOWN,
                entry=serial.SerialLogEntry(dir=1, timestamp=1700000000000 + one, raw_data=bytes([one]) * 100, note=''),
            )
            for one in ids
        ],
        gaps=[
            pb.UpstreamGap(cause=pb.UpstreamGap.OVERTAKEN, first_id=first, last_id=last, entries=last - first + 1)
            for first, last in gaps
        ],
    )


def equal(name, got, want):
    if got != want:
        print(f'FAIL {name}: got {got!r}, want {want!r}')
        sys.exit(1)
    print(f'ok {name}')


def refusal(call):
    try:
        return call()
    except grpc.RpcError as error:
        return error.code().name, error.details()


push, position = stubs(grpc.insecure_channel(ADDRESS))
equal('nothing is there at first', position(), 0)
equal('two batches are stored', push(batch(0, 3, [1, 2, 3]), batch(3, 6, [6], [(4, 5)])), 6)
equal('the position is kept', position(), 6)
code, _ = refusal(lambda: push(batch(9, 10, [10])))
equal('ahead of the position is out of range', code, 'OUT_OF_RANGE')
code, details = refusal(lambda: push(batch(6, 8, [8, 7])))
equal('a faulty batch is named by its field', (code, details.split(':')[0]), ('INVALID_ARGUMENT', 'entries[1].id'))
push, _ = stubs(grpc.insecure_channel(ADDRESS, compression=grpc.Compression.Gzip))
equal('compressed too', push(batch(6, 9, [7, 8, 9])), 9)
