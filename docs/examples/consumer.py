"""Keeps a copy of the records of all boxes in SQLite, from the change events on Kafka.

usage: consumer.py BOOTSTRAP DATABASE TOPIC [TOPIC ...]

Needs confluent-kafka (Debian: python3-confluent-kafka). For TLS and a password add security.protocol, sasl.mechanism, sasl.username,
sasl.password and ssl.ca.location to SETTINGS.
"""
import json
import sqlite3
import sys

from confluent_kafka import Consumer, KafkaError, KafkaException

BOOTSTRAP, DATABASE, *TOPICS = sys.argv[1:]
SETTINGS = {
    'bootstrap.servers': BOOTSTRAP,
    'group.id': 'lineside-copy',
    'auto.offset.reset': 'earliest',
    'topic.metadata.refresh.interval.ms': 5000,  # a topic that does not exist yet is found soon
    'enable.auto.commit': False,  # committed below, after the transaction of this program
}
TABLE = """CREATE TABLE IF NOT EXISTS record
(device, dictionary, key, version INTEGER, action, data, PRIMARY KEY (device, dictionary, key))"""
# An event may come twice, and a copy may come late: only a version above the stored one changes anything.
TAKE = """INSERT INTO record VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (device, dictionary, key) DO UPDATE SET
version = excluded.version, action = excluded.action, data = excluded.data WHERE excluded.version > version"""


def take(base, message):
    device = dict(message.headers() or [])['device-id'].decode()
    event = json.loads(message.value())
    data = json.dumps(event['data'])
    row = (device, event['dictionary'], event['businessKey'], event['version'], event['action'], data)
    if base.execute(TAKE, row).rowcount == 1:
        print(event['action'], device, event['dictionary'], event['businessKey'], event['version'], flush=True)


def main():
    base = sqlite3.connect(DATABASE)
    base.execute(TABLE)
    consumer = Consumer(SETTINGS)
    consumer.subscribe(TOPICS)
    try:
        while True:
            messages = consumer.consume(500, timeout=1)
            for error in filter(None, (message.error() for message in messages)):
                if error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:  # it appears when a box has connected
                    raise KafkaException(error)
            events = [message for message in messages if message.error() is None]
            if events:
                with base:  # one transaction for what was read; if the program ends before the commit, they come again
                    for event in events:
                        take(base, event)
                try:
                    consumer.commit(asynchronous=False)
                except KafkaException as error:  # the broker is away: they are committed with the next ones, or come again
                    print('not committed:', error, file=sys.stderr)
    finally:
        consumer.close()


try:
    main()
except KeyboardInterrupt:
    pass
