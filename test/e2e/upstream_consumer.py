"""An independent consumer of the serial log: Debian's python3-confluent-kafka and python3-protobuf, with stubs that protoc made
of the published contract. It reads every partition of the topic from its first message to its end, judges each message by the
contract alone, and prints it as JSON.

usage: upstream_consumer.py STUBS_DIR BOOTSTRAP TOPIC DEVICE_ID

standard output  a JSON line for each batch in the order of its partition, then {"end": [faults in words]}
"""
import base64
import json
import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

STUBS, BOOTSTRAP, TOPIC, DEVICE = sys.argv[1:5]
sys.path.insert(0, STUBS)
import lineside_pb2 as pb  # noqa: E402

LIMIT_S = 30
HEADERS = {
    'content-type': 'application/x-protobuf',
    'message': 'lineside.v1.UpstreamBatch',
    'schema-version': '1',
    'device-id': DEVICE,
}
faults = []


def judge(message, batch):
    where = f'{message.partition()}@{message.offset()}'
    say = lambda fault: faults.append(f'{where}: {fault}')  # noqa: E731
    if message.key().decode() != DEVICE or batch.device_id != DEVICE:
        say(f'key {message.key()}, device {batch.device_id}')
    headers = {name: value.decode() for name, value in message.headers() or []}
    if headers != HEADERS:
        say(f'headers {headers}')
    if batch.schema_version != 1 or batch.log_id == '':
        say(f'schema {batch.schema_version}, log {batch.log_id!r}')
    if batch.through_id < batch.after_id:
        say(f'through {batch.through_id} before after {batch.after_id}')
    ranges = [(entry.id, entry.id) for entry in batch.entries]
    # Of a log that is gone nothing may be known to be missing: then last_id is the one before first_id.
    ranges += [(gap.first_id, gap.last_id) for gap in batch.gaps if not gap.open_ended or gap.last_id != gap.first_id - 1]
    for ids in ([entry.id for entry in batch.entries], [gap.first_id for gap in batch.gaps]):
        if any(a >= b for a, b in zip(ids, ids[1:])):
            say('not in the order of ids')
    before = batch.after_id
    for first, last in sorted(ranges):
        if first <= before or last < first or last > batch.through_id:
            say(f'{first} to {last} overlaps, or is outside of {batch.after_id} to {batch.through_id}')
        before = last
    for gap in batch.gaps:
        if gap.cause == 0 or gap.entries > gap.last_id - gap.first_id + 1:
            say(f'gap {gap}')


def shown(message, batch):
    return {
        'partition': message.partition(),
        'offset': message.offset(),
        'bytes': len(message.value()),
        'logId': batch.log_id,
        'bootId': batch.boot_id,
        'afterId': batch.after_id,
        'throughId': batch.through_id,
        'entries': [
            {
                'id': entry.id,
                'clock': entry.clock,
                'timestampMs': entry.entry.timestamp,
                'note': entry.entry.note,
                'raw': base64.b64encode(entry.SerializeToString()).decode(),
            }
            for entry in batch.entries
        ],
        'gaps': [
            {
                'cause': pb.UpstreamGap.Cause.Name(gap.cause),
                'firstId': gap.first_id,
                'lastId': gap.last_id,
                'entries': gap.entries,
                'openEnded': gap.open_ended,
                'reason': gap.reason,
            }
            for gap in batch.gaps
        ],
        'corrections': [
            {'firstId': one.first_id, 'lastId': one.last_id, 'correctionMs': one.correction_ms}
            for one in batch.clock_corrections
        ],
    }


def main():
    consumer = Consumer({'bootstrap.servers': BOOTSTRAP, 'group.id': 'unused', 'enable.auto.commit': False})
    known = consumer.list_topics(timeout=LIMIT_S).topics.get(TOPIC)
    left = {}
    for partition in known.partitions if known is not None and known.error is None else ():
        low, high = consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), timeout=LIMIT_S, cached=False)
        if high > low:
            left[partition] = high
    if len(left) > 1:
        faults.append(f'one key in several partitions: {sorted(left)}')
    consumer.assign([TopicPartition(TOPIC, partition, OFFSET_BEGINNING) for partition in left])
    until = time.monotonic() + LIMIT_S
    while left:
        if time.monotonic() > until:
            faults.append(f'not read to the end within {LIMIT_S} s: {left}')
            break
        for message in consumer.consume(100, 0.2):
            if message.error() is not None:
                if message.error().code() != KafkaError._PARTITION_EOF:
                    faults.append(f'reading: {message.error()}')
                continue
            batch = pb.UpstreamBatch.FromString(message.value())
            judge(message, batch)
            print(json.dumps(shown(message, batch), separators=(',', ':')))
            if message.offset() + 1 >= left.get(message.partition(), 0):
                left.pop(message.partition(), None)
    consumer.close()
    print(json.dumps({'end': faults}))


main()
