"""Prints the serial logs of all boxes from Kafka: each entry once, and every gap.

usage: upstream.py BOOTSTRAP TOPIC [SECONDS]     SECONDS: end after so long without a message; default: never

Needs confluent-kafka (Debian: python3-confluent-kafka) and lineside_pb2.py, serial_pb2.py beside this file:
  python3 -m grpc_tools.protoc -I proto --python_out . lineside.proto serial.proto
"""
import sys
import time

import lineside_pb2 as pb
from confluent_kafka import Consumer, KafkaException

BOOTSTRAP, TOPIC = sys.argv[1:3]
QUIET_S = float(sys.argv[3]) if len(sys.argv) > 3 else float('inf')
SCHEMA = '1'
through = {}  # (device, log): the last id that was printed, or reported as missing


def show(batch):
    log = (batch.device_id, batch.log_id)
    last = through.get(log, batch.after_id)
    if batch.after_id > last:
        print(f'{batch.device_id} MISSING ids {last + 1} to {batch.after_id}: a batch did not arrive')
    for gap in batch.gaps:
        if gap.last_id > last:
            cause = pb.UpstreamGap.Cause.Name(gap.cause)
            print(f'{batch.device_id} GAP {gap.entries} entries up to id {gap.last_id}: {cause}')
    for entry in batch.entries:
        if entry.id > last:  # after a break some batches come again
            # A time is for people: order is by id. NOT_SET is a guess until a clock_correction comes.
            guess = '?' if entry.clock == pb.ENTRY_CLOCK_NOT_SET else ''
            direction = 'TX' if entry.entry.dir == 0 else 'RX'
            print(f'{batch.device_id} {entry.id} {entry.entry.timestamp}{guess} {direction} {entry.entry.raw_data!r}')
    for one in batch.clock_corrections:
        print(f'{batch.device_id} CORRECTION ids {one.first_id} to {one.last_id} by {one.correction_ms} ms')
    through[log] = max(last, batch.through_id)


def main():
    settings = {'bootstrap.servers': BOOTSTRAP, 'group.id': 'lineside-log', 'auto.offset.reset': 'earliest'}
    consumer = Consumer({**settings, 'enable.auto.commit': False})  # a store of your own commits after it has stored
    consumer.subscribe([TOPIC])
    heard = time.monotonic()
    while time.monotonic() - heard < QUIET_S:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error() is not None:
            raise KafkaException(message.error())
        heard = time.monotonic()
        if dict(message.headers() or []).get('schema-version') != SCHEMA.encode():
            sys.exit('unknown schema-version: get a newer upstream.py')
        show(pb.UpstreamBatch.FromString(message.value()))
        sys.stdout.flush()
    consumer.close()


try:
    main()
except KeyboardInterrupt:
    pass
