/**
 * Clients that take next to nothing, as a process of their own: lazy-readers.ts SOCKET CONNECTIONS STREAMS PATH REQUEST_HEX.
 * Bare HTTP/2, so that no gRPC library reads ahead. Writes "standing" when every stream has its response headers.
 */
import { connect } from 'node:http2';
import { connect as connectSocket } from 'node:net';

const [socket = '', connections, streams, path = '', request = ''] = process.argv.slice(2);
/** What each stream takes in a second. */
const BYTES_EACH_SECOND = 1_024;

const message = Buffer.from(request, 'hex');
const frame = Buffer.alloc(5 + message.length);
frame.writeUInt32BE(message.length, 1);
message.copy(frame, 5);
const wanted = Number(connections) * Number(streams);
let standing = 0;

for (let c = 0; c < Number(connections); c += 1) {
  const session = connect('http://localhost', { createConnection: () => connectSocket(socket) });
  session.on('error', (error) => process.stderr.write(`${error.message}\n`));
  for (let s = 0; s < Number(streams); s += 1) {
    const stream = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    stream.on('error', (error) => process.stderr.write(`${error.message}\n`));
    stream.once('response', () => {
      standing += 1;
      if (standing === wanted) process.stdout.write('standing\n');
    });
    // A Session lasts until its client ends it.
    if (path.endsWith('/Session')) stream.write(frame);
    else stream.end(frame);
    stream.pause();
    setInterval(() => void stream.read(Math.min(BYTES_EACH_SECOND, stream.readableLength)), 1_000);
  }
}
