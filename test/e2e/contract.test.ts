/**
 * The contract, walked through by a client of other people's making: Debian's gRPC for Python, with stubs generated from
 * proto/serial.proto alone. Each row of the decision tables has its named checks in contract_client.py.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { before, test } from 'node:test';
import { within } from '../../src/shared/base/wait.fixture.ts';
import { ROOT, startDaemon, startProcess, temporaryDirectory } from './daemon.ts';

const PYTHON = '/usr/bin/python3';
const NEEDED =
  'apt-get install --no-install-recommends python3-grpcio python3-protobuf protobuf-compiler protobuf-compiler-grpc';

/** What the specification and the decisions say, row by row, and the checks that hold the service to it. */
const rows: Readonly<Record<string, readonly string[]>> = {
  ListDevices: ['list-names-extra-ports', 'list-has-no-placeholders', 'list-describes-the-simulated-line'],
  'closed: Close is idempotent, the configuration is empty, packets are NOT_CONNECTED': [
    'closed-config-is-the-empty-message',
    'closed-send-is-not-connected',
    'closed-receive-is-failed-precondition',
    'closed-close-is-ok',
  ],
  'Open: INVALID_ARGUMENT': [
    'open-refuses-empty-name',
    'open-refuses-baud-0',
    'open-refuses-baud-above-12000000',
    'open-refuses-baud-4294967295',
    'open-refuses-data-bits-0',
    'open-refuses-data-bits-4',
    'open-refuses-data-bits-9',
    'open-refuses-parity-unknown',
    'open-refuses-parity-negative',
    'open-refuses-stop-bits-unknown',
    'open-refuses-packet-size-above-65536',
    'open-refuses-one-point-five-with-8-data-bits',
    'open-names-every-fault-at-once',
  ],
  'Open: NOT_FOUND': ['open-refuses-no-such-port'],
  'Open: INTERNAL_ERROR': ['open-held-by-another-is-internal-error'],
  'Open: OK, and reopen': [
    'open-refused-stays-closed',
    'open-is-ok',
    'open-config-is-what-was-asked',
    'open-takes-the-limits-themselves',
    'open-takes-every-parity-and-stop-bits',
    'reopen-replaces-the-configuration',
    'refused-open-keeps-the-old-configuration-and-line',
    'open-moves-to-another-port',
  ],
  'Close ends within 2 s and drops the incoming buffer': [
    'close-ends-within-2-s-on-a-stuck-line',
    'close-drops-the-incoming-buffer',
  ],
  'SendPacket: OK': [
    'send-puts-exactly-the-payload-on-the-line',
    'send-echoes-seq-id-exactly',
    'send-takes-64-KiB-whole',
    'send-never-interleaves',
    'cancelled-before-the-port-sends-nothing',
  ],
  'SendPacket: INVALID_ARGUMENT': [
    'send-refuses-an-empty-payload',
    'send-refuses-other-lengths-than-packet-size',
    'send-refuses-above-64-KiB',
  ],
  'SendPacket: INTERNAL_ERROR': [
    'send-past-its-deadline-on-a-stuck-line-is-internal-error',
    'send-to-a-full-queue-is-internal-error',
    'send-write-error-is-internal-error',
  ],
  'A lost port': [
    'lost-port-is-not-connected-and-has-the-empty-config',
    'lost-port-is-reopened-with-the-same-parameters',
    'lost-port-is-forgotten-by-close',
  ],
  ReceivePacket: [
    'receive-from-an-empty-buffer-is-not-found',
    'receive-gives-one-chunk-with-seq-id-and-time',
    'receive-chunks-end-at-4096-bytes',
    'receive-frames-by-packet-size-and-counts-from-1',
    'receive-drops-the-oldest-and-says-how-many',
    'receive-gives-each-packet-to-one-caller',
  ],
  LogRaw: [
    'log-records-every-packet-and-chunk-with-its-direction',
    'log-raw-stores-the-entry-as-given-for-every-subscriber',
    'log-raw-never-reaches-the-incoming-buffer',
    'log-raw-with-timestamp-0-means-now',
    'log-raw-refuses-an-unknown-dir',
    'log-raw-refuses-raw-data-above-1-MiB',
    'log-raw-refuses-a-note-above-4-KiB',
  ],
  StreamLog: [
    'stream-sends-its-headers-at-once',
    'stream-from-now-on-has-nothing-older',
    'stream-from-start-has-all-once-in-order-and-goes-on',
    'stream-stays-open-until-cancelled',
    'stream-that-nobody-reads-costs-the-others-nothing',
    'shutdown-ends-streams-with-unavailable',
  ],
  'Health and reflection': [
    'health-service-says-serving',
    'reflection-service-lists-the-contract',
    'unknown-method-is-unimplemented',
  ],
};

/** Generates the stubs as any user of the contract would. */
function stubs(): string {
  const dir = temporaryDirectory();
  const plugin = spawnSync('sh', ['-c', 'command -v grpc_python_plugin'], { encoding: 'utf8' }).stdout.trim();
  const python = spawnSync(PYTHON, ['-c', 'import grpc, google.protobuf']);
  assert.ok(plugin !== '' && python.status === 0, `Debian's gRPC for Python is missing: ${NEEDED}`);
  const out = [`--python_out=${dir}`, `--grpc_python_out=${dir}`, `--plugin=protoc-gen-grpc_python=${plugin}`];
  // Google's own file; Debian has it in a package of 20 MB (libprotobuf-dev).
  const known = join(temporaryDirectory(), 'google/protobuf');
  mkdirSync(known, { recursive: true });
  writeFileSync(join(known, 'empty.proto'), 'syntax = "proto3";\npackage google.protobuf;\nmessage Empty {}\n');
  const includes = ['-I', join(ROOT, 'proto'), '-I', resolve(known, '../..')];
  const made = spawnSync('protoc', [...includes, ...out, 'serial.proto'], { encoding: 'utf8' });
  assert.equal(made.status, 0, `protoc: ${made.error?.message ?? made.stderr} (${NEEDED})`);
  return dir;
}

const outcome = new Map<string, string>();
let stderr = '';

before(async () => {
  const stubsDir = stubs();
  const ports = join(temporaryDirectory(), 'ports');
  mkdirSync(ports);
  const daemon = await startDaemon({
    config: {
      serial: {
        extra_ports: [`${ports}/port-?`],
        simulate: true,
        // A write of the device arrives as one chunk, however busy this machine is.
        rx_gap_ms: 20,
        rx_buffer_bytes: 8_192,
        tx_queue_packets: 4,
      },
    },
  });
  const script = join(import.meta.dirname, 'contract_client.py');
  const client = startProcess(PYTHON, [script, stubsDir, daemon.address, ports, String(daemon.pid)]);
  const [out, err] = [client.stdout, client.stderr];
  if (out === null || err === null) throw new Error('no pipes to the client');
  const [stdout, complaint] = await within(
    'the client',
    Promise.all([text(out), text(err), once(client, 'close')]),
    55_000,
  );
  stderr = complaint;
  for (const line of stdout.trim().split('\n')) {
    const [, verdict = '', name = '', why = ''] = /^(ok|FAIL) ([^:\s]+)(?:: (.*))?$/.exec(line) ?? [];
    outcome.set(name, verdict === 'ok' ? '' : why || line);
  }
  assert.equal(await within('the daemon stops', daemon.ended), 0, daemon.logLines.join('\n'));
});

for (const [row, names] of Object.entries(rows)) {
  test(row, async (t) => {
    for (const name of names)
      await t.test(name, () => assert.equal(outcome.get(name) ?? `was not checked\n${stderr}`, ''));
  });
}

test('every check of the client belongs to a row', () => {
  assert.deepEqual([...outcome.keys()].sort(), Object.values(rows).flat().sort());
});
