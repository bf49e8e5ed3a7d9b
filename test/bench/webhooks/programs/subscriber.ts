/**
 * An HTTPS subscriber that accepts everything. subscriber.ts CERT KEY COUNT: prints its port as JSON, and after each COUNT
 * requests to /hook the seconds from the first of them to the last. A request to any other path is never answered.
 */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';

const [certFile = '', keyFile = '', given = ''] = process.argv.slice(2);
const count = Number(given);
let received = 0;
let firstMs = 0;

const server = createServer({ cert: readFileSync(certFile), key: readFileSync(keyFile) }, (request, response) => {
  request.resume();
  if (request.url !== '/hook') return;
  request.once('end', () => {
    response.writeHead(202, { 'content-length': 0 }).end();
    received++;
    if (received === 1) firstMs = performance.now();
    if (received < count) return;
    console.log(JSON.stringify({ seconds: (performance.now() - firstMs) / 1_000 }));
    received = 0;
  });
});
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => console.log(JSON.stringify({ port: (server.address() as AddressInfo).port })));
