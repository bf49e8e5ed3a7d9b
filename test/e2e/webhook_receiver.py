"""An independent subscriber for end-to-end tests: an HTTPS server of the standard library alone, with no code of the product.
It answers by a script, writes down every request, and judges it by the specification: signature, headers, body, bytes that
stay the same when a delivery comes again.

standard input   JSON lines. The first: cert, key (PEM files), record (the file that is written), secrets (the signature may
                 be by any of them), host, port (0: any free one).
                 Then orders, each with a number as "id": script {path ('*': any), steps},
                 release (what hangs is completed: of a path, '*': all), listen (false: connections are refused).
standard output  {"port": n} when it listens, and {"done": id} for each order.
record           JSON lines: {"kind": "connection" | "request" | "end", ...}, times by the kernel's monotonic clock in s.

A step: status (202), headers {}, body (''), delayS (before the answer), times (1), fault:
  hang       no answer until released or the client goes       close, reset  the connection ends without an answer
  cut        ends in the middle of the body that was promised  garbage       no HTTP
It ends when standard input does.
"""
import base64
import hashlib
import hmac
import json
import re
import socket
import ssl
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer

TIME = re.compile(r'\d{4}-(0\d|1[0-2])-([0-2]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?\+00:00')
SIGNATURE = re.compile(r'sha256=([0-9a-f]{64})')
RECORD_EVENT = {
    'schemaVersion': str,
    'eventType': str,
    'dictionary': str,
    'businessKey': str,
    'action': str,
    'version': int,
    'validFrom': str,
    'data': dict,
}
OTHER_EVENT = {
    'schemaVersion': str,
    'eventType': str,
    'category': str,
    'dictionary': str,
    'occurredAt': str,
    'changedBy': str,
    'data': dict,
}
OTHER_TYPES = {
    'dict.definition.*': {'DefinitionCreated', 'DefinitionUpdated'},
    'dict.draft.*': {
        'SchemaDraftCreated',
        'SchemaDraftReviewRequested',
        'SchemaDraftDecided',
        'SchemaDraftPublished',
        'SchemaDraftWithdrawn',
    },
}
MOST_BODY_BYTES = 64 * 1024 * 1024
# How often a connection that hangs is asked whether its client is still there.
LOOK_S = 0.05
# As the specification bounds a delivery.
MOST_EVENTS = 500
MOST_DELIVERY_BYTES = 1024 * 1024


class Receiver:
    """What is shared by the connections: the script, the record, and what has come before."""

    def __init__(self, settings):
        self.secrets = settings['secrets']
        self.scripts = {}
        # By path, '*': all. Who hangs waits for both.
        self.released = {}
        self.lock = threading.Lock()
        self.file = open(settings['record'], 'a', encoding='utf-8')
        self.requests = 0
        self.connections = 0
        # By deliveryId: bytes of the body.
        self.bodies = {}

    def write(self, kind, **fields):
        line = json.dumps({'kind': kind, 'at': time.monotonic(), **fields}, separators=(',', ':'))
        with self.lock:
            self.file.write(line + '\n')
            self.file.flush()

    def number(self, of):
        with self.lock:
            value = getattr(self, of) + 1
            setattr(self, of, value)
            return value

    def step(self, path):
        """The next one of the path's own script, else of the script for any, else an acceptance."""
        with self.lock:
            for steps in (self.scripts.get(path), self.scripts.get('*')):
                if not steps:
                    continue
                left = steps[0].get('times', 1) - 1
                if left == 0:
                    return steps.pop(0)
                steps[0] = {**steps[0], 'times': left}
                return steps[0]
            return {}

    def order(self, order):
        with self.lock:
            if 'script' in order:
                script = order['script']
                self.scripts[script['path']] = script['steps']
            if 'release' in order:
                self.released.pop(order['release'], threading.Event()).set()

    def releases(self, path):
        with self.lock:
            return [self.released.setdefault(one, threading.Event()) for one in ('*', path)]

    def signer(self, signature, body):
        """Which secret signed it: its place; None: none, or there is no signature."""
        match = SIGNATURE.fullmatch(signature or '')
        for place, secret in enumerate(self.secrets):
            digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
            if match is not None and hmac.compare_digest(digest, match[1]):
                return place
        return None

    def faults(self, method, headers, body, complete):
        """All that is not as the specification has it, in words."""
        if not complete:
            yield 'the body is shorter than its content-length'
            return
        if method != 'POST':
            yield f'method {method}'
        for name in ('x-service-signature', 'x-service-delivery', 'x-service-subscription', 'content-type'):
            if len(headers.get_all(name, [])) != 1:
                yield f'{len(headers.get_all(name, []))} headers {name}'
        if self.signer(headers['x-service-signature'], body) is None:
            yield f'signature {headers["x-service-signature"]!r} is by none of the secrets'
        if headers.get_content_type() != 'application/json':
            yield f'content-type {headers["content-type"]!r}'
        try:
            delivery = json.loads(body.decode('utf-8'))
        except ValueError as error:
            yield f'not JSON in UTF-8: {error}'
            return
        yield from delivery_faults(delivery, headers, len(body))
        if isinstance(delivery, dict):
            with self.lock:
                first = self.bodies.setdefault(delivery.get('deliveryId'), body)
            if first != body:
                yield 'a delivery that came before, with other bytes'


def kinds(value, fields, name):
    if not isinstance(value, dict):
        yield f'{name} is no object'
        return
    missing, more = fields.keys() - value.keys(), value.keys() - fields.keys()
    if missing or more:
        yield f'{name}: fields missing {sorted(missing)}, unknown {sorted(more)}'
    for field, kind in fields.items():
        if field in value and (not isinstance(value[field], kind) or isinstance(value[field], bool)):
            yield f'{name}: {field} is {type(value[field]).__name__}'


def delivery_faults(delivery, headers, size):
    fields = {'deliveryId': str, 'subscriptionName': str, 'occurredAt': str, 'events': list}
    wrong = list(kinds(delivery, fields, 'the delivery'))
    yield from wrong
    if wrong:
        return
    if headers['x-service-delivery'] != delivery['deliveryId'] or delivery['deliveryId'] == '':
        yield f'x-service-delivery {headers["x-service-delivery"]!r}, deliveryId {delivery["deliveryId"]!r}'
    if headers['x-service-subscription'] != delivery['subscriptionName']:
        yield f'x-service-subscription {headers["x-service-subscription"]!r}, not {delivery["subscriptionName"]!r}'
    if not TIME.fullmatch(delivery['occurredAt']):
        yield f'occurredAt {delivery["occurredAt"]!r}'
    if not 1 <= len(delivery['events']) <= MOST_EVENTS:
        yield f'{len(delivery["events"])} events'
    if size > MOST_DELIVERY_BYTES and len(delivery['events']) > 1:
        yield f'{size} bytes'
    for place, event in enumerate(delivery['events']):
        yield from event_faults(event, f'event {place}')


def event_faults(event, name):
    if isinstance(event, dict) and event.get('eventType') == 'test.ping':
        return
    other = isinstance(event, dict) and 'category' in event
    wrong = list(kinds(event, OTHER_EVENT if other else RECORD_EVENT, name))
    yield from wrong
    if wrong:
        return
    if not re.fullmatch(r'1\.\d+\.\d+', event['schemaVersion']):
        yield f'{name}: schemaVersion {event["schemaVersion"]!r}'
    stamp = event['occurredAt' if other else 'validFrom']
    if not TIME.fullmatch(stamp):
        yield f'{name}: time {stamp!r}'
    if other:
        if event['eventType'] not in OTHER_TYPES.get(event['category'], ()):
            yield f'{name}: {event["eventType"]!r} of category {event["category"]!r}'
        return
    if event['eventType'] != 'dictionary.changed' or event['action'] not in ('created', 'updated', 'closed'):
        yield f'{name}: {event["eventType"]!r}, {event["action"]!r}'
    if event['version'] < 1 or event['dictionary'] == '' or event['businessKey'] == '':
        yield f'{name}: empty name or version below 1'


class Gone(Exception):
    """The client went."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    server: 'Server'

    def setup(self):
        self.receiver = self.server.receiver
        self.connection_number = self.receiver.number('connections')
        self.receiver.write('connection', n=self.connection_number)
        self.request.settimeout(30)
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.request = self.server.context.wrap_socket(self.request, server_side=True)
        # A kept connection may be silent for long.
        self.request.settimeout(None)
        self.server.open.add(self.request)
        super().setup()

    def finish(self):
        super().finish()
        self.server.open.discard(self.request)
        try:
            # The goodbye is answered at once, or the client has gone without.
            self.request.settimeout(0.5)
            self.request.unwrap()
        except (OSError, ValueError):
            pass
        self.request.close()

    def log_message(self, *_):
        pass

    def __getattr__(self, name):
        """Any method is recorded."""
        if name.startswith('do_'):
            return self.take
        raise AttributeError(name)

    def take(self):
        length = int(self.headers['content-length'] or 0)
        chunked = (self.headers['transfer-encoding'] or '').lower() == 'chunked'
        try:
            body = self.chunks() if chunked else self.rfile.read(min(length, MOST_BODY_BYTES))
        except OSError:
            body = None
        complete = body is not None and (chunked or len(body) == length)
        body = body or b''
        number = self.receiver.number('requests')
        faults = list(self.receiver.faults(self.command, self.headers, body, complete))
        signature = self.headers['x-service-signature']
        self.receiver.write(
            'request',
            n=number,
            connection=self.connection_number,
            method=self.command,
            path=self.path,
            headers=[[name, value] for name, value in self.headers.items()],
            body=base64.b64encode(body).decode(),
            complete=complete,
            signedBy=self.receiver.signer(signature, body),
            faults=faults,
        )
        self.sent = 0
        how = 'answered'
        step = self.receiver.step(self.path)
        try:
            self.act(step)
        except (OSError, Gone):
            how = 'gone'
            self.close_connection = True
        self.receiver.write('end', n=number, how=how, sent=self.sent, status=step.get('status', 202))

    def chunks(self):
        body = b''
        while True:
            size = int(self.rfile.readline().split(b';')[0], 16)
            body += self.rfile.read(size)
            self.rfile.readline()
            if size == 0:
                return body

    def act(self, step):
        if step.get('delayS', 0) > 0:
            self.hang(self.request, step['delayS'])
        fault = step.get('fault')
        if fault is None:
            self.send(self.head(step, len(self.body(step))) + self.body(step))
            self.close_connection = self.close_connection or step.get('status', 202) < 200
            return
        self.close_connection = True
        getattr(self, f'fault_{fault}')(step)

    def body(self, step):
        return step.get('body', '').encode()

    def head(self, step, length):
        status = step.get('status', 202)
        lines = [f'HTTP/1.1 {status} {self.responses.get(status, ("Scripted",))[0]}']
        bodiless = status < 200 or status in (204, 304)
        if not bodiless:
            lines.append(f'Content-Length: {length}')
        lines += [f'{name}: {value}' for name, value in step.get('headers', {}).items()]
        return ('\r\n'.join(lines) + '\r\n\r\n').encode('latin-1')

    def send(self, data):
        self.request.sendall(data)
        self.sent += len(data)

    def hang(self, connection, limit=None):
        """Until the limit, a release, or the client goes (then it throws)."""
        releases = self.receiver.releases(self.path)
        end = None if limit is None else time.monotonic() + limit
        connection.settimeout(LOOK_S)
        while not any(one.is_set() for one in releases) and (end is None or time.monotonic() < end):
            try:
                if connection.recv(1) == b'':
                    raise Gone('hung up')
            except (TimeoutError, ssl.SSLWantReadError):
                continue
        connection.settimeout(None)

    def fault_hang(self, step):
        self.hang(self.request)
        self.send(self.head(step, 0))

    def fault_close(self, _):
        pass

    def fault_reset(self, _):
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        # Without TLS's own goodbye, which would be sent first.
        socket.socket(fileno=self.request.detach()).close()
        raise Gone('reset')

    def fault_cut(self, step):
        self.send(self.head(step, 1000) + b'x' * 100)

    def fault_garbage(self, _):
        self.send(b'\x00\x01 220 this is not HTTP\r\n\r\n')


class Server(ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 256
    # Down and up again on the same port within a test.
    allow_reuse_address = True

    def __init__(self, place, receiver, context):
        self.receiver = receiver
        self.context = context
        self.open = set()
        super().__init__(place, Handler)

    def server_close(self):
        super().server_close()
        for connection in list(self.open):
            try:
                # Not TLS's own, which is not for another thread.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
            except OSError:
                pass

    def handle_error(self, *_):
        """Handshakes that fail and clients that go are what is tested here."""


class Listener:
    def __init__(self, settings, receiver):
        self.place = (settings.get('host', '127.0.0.1'), settings.get('port', 0))
        self.receiver = receiver
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.load_cert_chain(settings['cert'], settings['key'])
        self.server = None

    def start(self):
        if self.server is not None:
            return
        self.server = Server(self.place, self.receiver, self.context)
        self.place = (self.place[0], self.server.server_address[1])
        threading.Thread(target=self.server.serve_forever, args=(LOOK_S,), daemon=True).start()

    def stop(self):
        if self.server is None:
            return
        self.server.shutdown()
        self.server.server_close()
        self.server = None


def tell(**message):
    print(json.dumps(message), flush=True)


def main():
    settings = json.loads(sys.stdin.readline())
    receiver = Receiver(settings)
    listener = Listener(settings, receiver)
    listener.start()
    tell(port=listener.place[1])
    for line in sys.stdin:
        order = json.loads(line)
        receiver.order(order)
        if 'listen' in order:
            (listener.start if order['listen'] else listener.stop)()
        tell(done=order['id'])


main()
