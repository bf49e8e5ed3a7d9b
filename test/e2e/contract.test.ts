/**
 * The contract, walked through by a client of other people's making: Debian's gRPC for Python, with stubs generated from
 * the .proto files alone. The checks, which are named after what the specification and the decisions say, are in contract_client.py.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { within } from '../../src/shared/base/wait.fixture.ts';
import { startDaemon, startProcess, temporaryDirectory } from './daemon.ts';
import { PYTHON, stubsDir } from './python.ts';

test('the contract holds for a client that knows nothing else of the service', async (t) => {
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
      },
    },
  });
  const script = join(import.meta.dirname, 'contract_client.py');
  const client = startProcess(PYTHON, [script, stubsDir(), daemon.address, ports, String(daemon.pid)]);
  const [out, err] = [client.stdout, client.stderr];
  if (out === null || err === null) throw new Error('no pipes to the client');
  const [stdout, complaint] = await within('the client', Promise.all([text(out), text(err), once(client, 'close')]));
  const [names = '', ...lines] = stdout.trim().split('\n');
  for (const name of names.split(' ')) {
    const outcome = lines.find((line) => line === `ok ${name}` || line.startsWith(`FAIL ${name}:`));
    await t.test(name, () => assert.equal(outcome ?? `was not checked\n${complaint}`, `ok ${name}`));
  }
  assert.equal(await within('the daemon stops', daemon.ended), 0, daemon.logLines.join('\n'));
});
