"""An independent consumer of the change topics: Debian's python3-confluent-kafka with SCRAM-SHA-512 over TLS. It reads every
partition from its first message to its end and judges what it finds by the specification alone, with no code of the
product: envelope, key, headers, partition, order, and what previousData must be after the version before.

standard input   JSON: bootstrap, security (librdkafka settings: protocol, user, authority), topics {name: scope},
                 group (none: read without a consumer group), deviceId (none: any), order (false: dead letters
                 were sent again or a topic was lost, so versions may come late or be missing), limitS, describe (ask
                 for the topics' configuration too, with these settings beyond security)
standard output  a JSON line for each message in the order of its partition, then one of {"end": {...}}: partitions and
                 configuration of each topic, and every fault in words
"""
import json
import re
import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

FIELDS = {
    'schemaVersion': str,
    'eventType': str,
    'occurredAt': str,
    'txTime': str,
    'changedBy': str,
    'changeReason': str,
    'scope': str,
    'dictionary': str,
    'businessKey': str,
    'action': str,
    'version': int,
    'validFrom': str,
    'validTo': str,
    'data': dict,
    'previousData': (dict, type(None)),
}
TIMES = ('occurredAt', 'txTime', 'validFrom', 'validTo')
TIME = re.compile(r'\d{4}-(0\d|1[0-2])-([0-2]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{6})?\+00:00')
SEMVER = re.compile(r'(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)')
EVENT_ID = re.compile(r'(.+)-(\d+)')
OPEN = '9999-12-31T23:59:59.999999+00:00'
HEADERS = {'device-id', 'event-id', 'content-type'}


def same(a, b):
    """Equal as JSON: for Python True equals 1."""
    if isinstance(a, bool) or isinstance(b, bool) or a is None or b is None:
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def instant(text):
    """Sorts in the order of time: a fraction is written only where there is one."""
    return text[:19] + (text[19:26] if text[19] == '.' else '.000000')


class Judge:
    def __init__(self, scopes, device_id, order):
        self.scopes = scopes
        self.device_id = device_id
        self.order = order
        self.faults = []
        # By key (scope apart, as a dictionary may move to another): topic and partition, newest version and its event.
        self.partitions = {}
        self.newest = {}
        # By dedup tuple: value and event id; by event id: dedup tuple.
        self.seen = {}
        self.events = {}
        self.duplicates = 0

    def message(self, message):
        where = f'{message.topic()}[{message.partition()}]@{message.offset()}'
        found = list(self.look(message))
        self.faults += [f'{where}: {fault}' for fault in found]

    def look(self, message):
        headers = [(name, value.decode()) for name, value in message.headers() or []]
        yield from self.headers(headers)
        try:
            event = json.loads(message.value().decode('utf-8'))
        except ValueError as error:
            yield f'not JSON in UTF-8: {error}'
            return
        faults = list(shape(event))
        yield from faults
        if faults:
            return
        if event['scope'] != self.scopes[message.topic()]:
            yield f'scope {event["scope"]} on this topic'
        key = f'{event["dictionary"]}:{event["businessKey"]}'
        if message.key().decode('utf-8') != key:
            yield f'key {message.key()!r}, not {key!r}'
        home = self.partitions.setdefault((message.topic(), key), message.partition())
        if home != message.partition():
            yield f'key {key!r} was in partition {home} before'
        yield from self.history(key, event, message.value(), dict(headers).get('event-id', ''))

    def headers(self, headers):
        if {name for name, _ in headers} != HEADERS or len(headers) != len(HEADERS):
            yield f'headers {headers}'
            return
        values = dict(headers)
        if values['content-type'] != 'application/json':
            yield f'content-type {values["content-type"]!r}'
        if not EVENT_ID.fullmatch(values['event-id']):
            yield f'event-id {values["event-id"]!r}'
        if self.device_id is not None and values['device-id'] != self.device_id:
            yield f'device-id {values["device-id"]!r}'

    def history(self, key, event, value, event_id):
        dedup = (event['dictionary'], event['businessKey'], event['txTime'], event['version'])
        if self.events.setdefault(event_id, dedup) != dedup:
            yield f'event-id {event_id} was that of {self.events[event_id]}'
        if dedup in self.seen:
            self.duplicates += 1
            if self.seen[dedup] != (value, event_id):
                yield f'a duplicate of {dedup} that differs from the first'
            newest = self.newest[key]['version']
            if self.order and event['version'] != newest:
                yield f'version {event["version"]} of {key!r} again after {newest}'
            return
        self.seen[dedup] = (value, event_id)
        before = self.newest.get(key)
        if self.order:
            yield from follows(before, event)
        if before is None or before['version'] < event['version']:
            self.newest[key] = event

    def commits(self):
        """In commit order (the number in the event id) txTime never goes back; equal only within a transaction."""
        rows = {}
        for event_id, dedup in self.events.items():
            match = EVENT_ID.fullmatch(event_id)
            if match:
                rows.setdefault(match[1], []).append((int(match[2]), instant(dedup[2]), dedup[3]))
        for store, found in rows.items():
            found.sort()
            for (earlier, before, _), (later, after, _) in zip(found, found[1:]):
                if after < before:
                    self.faults.append(f'{store}: txTime of row {later} is before that of row {earlier}')


def shape(event):
    """Faults of a single envelope, by the specification's table."""
    if not isinstance(event, dict):
        yield 'not an object'
        return
    missing, more = FIELDS.keys() - event.keys(), event.keys() - FIELDS.keys()
    if missing or more:
        yield f'fields missing {sorted(missing)}, unknown {sorted(more)}'
        return
    wrong = [n for n, kind in FIELDS.items() if not isinstance(event[n], kind) or isinstance(event[n], bool)]
    if wrong:
        yield f'wrong type: {wrong}'
        return
    if not SEMVER.fullmatch(event['schemaVersion']) or not event['schemaVersion'].startswith('1.'):
        yield f'schemaVersion {event["schemaVersion"]!r}'
    if event['eventType'] not in ('dictionary.changed', 'dictionary.bulk_imported'):
        yield f'eventType {event["eventType"]!r}'
    if event['action'] not in ('created', 'updated', 'closed'):
        yield f'action {event["action"]!r}'
    if event['version'] < 1 or event['dictionary'] == '' or event['businessKey'] == '' or event['changedBy'] == '':
        yield 'empty name or version below 1'
    bad = [f'{name} {event[name]!r}' for name in TIMES if not TIME.fullmatch(event[name])]
    yield from bad
    if bad:
        return
    if event['action'] == 'created' and event['previousData'] is not None:
        yield 'created with previousData'
    if event['action'] != 'created' and event['previousData'] is None:
        yield f'{event["action"]} without previousData'
    if event['action'] == 'closed':
        if event['validTo'] != event['txTime']:
            yield f'closed with validTo {event["validTo"]}, not {event["txTime"]}'
        if instant(event['validFrom']) > instant(event['validTo']):
            yield 'closed with validFrom after validTo'
    elif event['validTo'] != OPEN:
        yield f'open with validTo {event["validTo"]}'


def follows(before, event):
    """What the first message of a version must be after the version before it."""
    if before is None:
        if event['version'] != 1 or event['action'] != 'created':
            yield f'the first message of a key is version {event["version"]}, {event["action"]}'
        return
    if event['version'] != before['version'] + 1:
        yield f'version {event["version"]} after {before["version"]}'
        return
    if instant(event['txTime']) <= instant(before['txTime']):
        yield f'txTime {event["txTime"]} after {before["txTime"]}'
    old, new, told = before['data'], event['data'], event['previousData']
    if (event['action'] == 'created') != (before['action'] == 'closed'):
        yield f'{event["action"]} after {before["action"]}'
    if event['action'] == 'updated':
        changed = {n: v for n, v in old.items() if n not in new or not same(v, new[n])}
        if not same(told, changed):
            yield f'previousData {told}, changed of the old version: {changed}'
    if event['action'] == 'closed' and not (same(told, old) and same(new, old)):
        yield f'closed: data {new}, previousData {told}, old version {old}'


def ends(consumer, topics, limit):
    """Of each partition that has messages: the offset after its last."""
    metadata = consumer.list_topics(timeout=limit)
    found = {}
    for topic in topics:
        known = metadata.topics.get(topic)
        if known is None or known.error is not None:
            continue
        for partition in known.partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=limit, cached=False)
            if high > low:
                found[topic, partition] = high
    return found


def read(settings, judge):
    topics = list(settings['topics'])
    group = settings.get('group')
    common = {'bootstrap.servers': settings['bootstrap'], **settings['security']}
    consumer = Consumer(
        {**common, 'group.id': group or 'unused', 'enable.auto.commit': False, 'auto.offset.reset': 'earliest'}
    )
    limit = settings.get('limitS', 20)
    left = ends(consumer, topics, limit)
    if group is None:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for topic, partition in left])
    else:
        consumer.subscribe(topics)
    until = time.monotonic() + limit
    while left:
        if time.monotonic() > until:
            judge.faults.append(f'not read to the end within {limit} s: {sorted(left)}')
            break
        for message in consumer.consume(1000, 0.2):
            if message.error() is not None:
                if message.error().code() != KafkaError._PARTITION_EOF:
                    judge.faults.append(f'reading: {message.error()}')
                    # A refusal is repeated with every fetch.
                    left.pop((message.topic(), message.partition()), None)
                continue
            place = (message.topic(), message.partition())
            judge.message(message)
            print(json.dumps(told(message), separators=(',', ':')))
            if message.offset() + 1 >= left.get(place, 0):
                left.pop(place, None)
    consumer.close()


def told(message):
    value = message.value().decode('utf-8', 'replace')
    return {
        'topic': message.topic(),
        'partition': message.partition(),
        'offset': message.offset(),
        'key': message.key().decode('utf-8', 'replace'),
        'headers': {name: each.decode() for name, each in message.headers() or []},
        'value': value,
    }


def topics(settings):
    """Partitions and configuration as the broker reports them to an administrator."""
    admin = AdminClient({'bootstrap.servers': settings['bootstrap'], **settings['security'], **settings['describe']})
    limit = settings.get('limitS', 20)
    known = admin.list_topics(timeout=limit).topics
    there = [name for name in settings['topics'] if name in known and known[name].error is None]
    asked = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, name) for name in there]) if there else {}
    found = {}
    for resource, answer in asked.items():
        entries = answer.result(timeout=limit)
        config = {name: entries[name].value for name in ('retention.ms', 'cleanup.policy')}
        found[resource.name] = {'partitions': len(known[resource.name].partitions), 'config': config}
    return found


def main():
    settings = json.load(sys.stdin)
    judge = Judge(settings['topics'], settings.get('deviceId'), settings.get('order', True))
    read(settings, judge)
    judge.commits()
    described = topics(settings) if 'describe' in settings else {}
    print(json.dumps({'end': {'topics': described, 'faults': judge.faults, 'duplicates': judge.duplicates}}))


main()
