"""Takes lineside's webhooks: receiver.py CERTIFICATE KEY SECRET_FILE DATABASE [PORT]"""
import hashlib, hmac, json, sqlite3, ssl, sys, threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CERTIFICATE, KEY, SECRET_FILE, DATABASE, PORT = (sys.argv[1:] + ['8443'])[:5]
with open(SECRET_FILE, 'rb') as file:
    SECRET = file.read().rstrip(b'\r\n')
MAX_BYTES = 2 * 1024 * 1024  # a delivery has about 1 MiB at most
TABLES = """CREATE TABLE IF NOT EXISTS delivery (number INTEGER PRIMARY KEY, id TEXT UNIQUE, body BLOB);
CREATE INDEX IF NOT EXISTS waiting ON delivery (number) WHERE body IS NOT NULL;
CREATE TABLE IF NOT EXISTS record (dictionary, key, version, action, data, PRIMARY KEY (dictionary, key));"""
STORE = 'INSERT OR IGNORE INTO delivery (id, body) VALUES (?, ?)'  # again the same id: nothing new
NEXT = 'SELECT number, body FROM delivery WHERE body IS NOT NULL ORDER BY number LIMIT 1'
TAKE = """INSERT INTO record VALUES (:dictionary, :businessKey, :version, :action, :data) ON CONFLICT (dictionary, key)
DO UPDATE SET version = excluded.version, action = excluded.action, data = excluded.data WHERE excluded.version > version"""
arrived = threading.Event()


def database():
    base = sqlite3.connect(DATABASE, timeout=5)
    base.execute('PRAGMA synchronous = FULL')  # committed is on the disk, through a power cut too
    return base


def is_signed(body, header):
    mine = 'sha256=' + hmac.new(SECRET, body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(mine.encode(), (header or '').encode())


class Receiver(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    timeout = 60  # seconds without a byte; lineside keeps an idle connection for 30

    def do_POST(self):
        size = self.headers['Content-Length'] or ''
        if not size.isdecimal() or int(size) > MAX_BYTES:
            self.close_connection = True  # the body is not read
            return self.answer(413 if size.isdecimal() else 411)
        body = self.rfile.read(int(size))
        if len(body) < int(size):
            self.close_connection = True  # cut off on its way: no answer, so it comes again
        elif not any(is_signed(body, self.headers['X-Service-Signature' + one]) for one in ('', '-Previous')):
            self.answer(403)
        else:
            self.answer(self.store(body))
            arrived.set()

    def store(self, body):
        try:
            with closing(database()) as base, base:
                base.execute(STORE, (json.loads(body)['deliveryId'], body))
        except sqlite3.Error as error:
            self.log_error('not stored: %s', error)
            return 503  # it comes again
        return 202

    def answer(self, status):
        self.send_response(status)
        self.send_header('Content-Length', '0')
        self.end_headers()


def work(base):
    while True:
        arrived.clear()
        while row := base.execute(NEXT).fetchone():
            with base:  # what its events do, and that they are done, in one transaction
                for event in json.loads(row[1])['events']:
                    if 'businessKey' in event:  # else of a definition or a draft, or a test-ping
                        base.execute(TAKE, {**event, 'data': json.dumps(event['data'])})
                base.execute('UPDATE delivery SET body = NULL WHERE number = ?', row[:1])
        arrived.wait()


with closing(database()) as base:
    base.executescript(TABLES)
server = ThreadingHTTPServer(('', int(PORT)), Receiver)
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain(CERTIFICATE, KEY)
# The handshake is the matter of a connection's own thread: one that is not finished holds up no other.
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
threading.Thread(target=server.serve_forever, daemon=True).start()
print('listening on port', server.server_port, flush=True)
work(database())  # where it fails the process ends, and goes on where it was when it is started again
