/**
 * What the line knows of itself reaches the reference data: the hub asks it over gRPC, as any client does. Without
 * device.inventory: hub-processes.test.ts.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { type Both, ownLog, startBoth } from './hub.ts';

interface Item {
  readonly businessKey: string;
  readonly version: number;
  readonly data: Readonly<Record<string, unknown>>;
}

async function records(both: Both, dictionary: string): Promise<readonly Item[]> {
  const { status, body } = await both.http('GET', `/api/v1/dictionaries/${dictionary}/records`);
  return status === 200 ? (body as { items: readonly Item[] }).items : [];
}

test('the ports and the line of a running service are records, changed when they change', async () => {
  const both = await startBoth({ config: { serial: { simulate: true }, device: { id: 'gate-7' } } });
  const port = join(both.dir, 'run/sim0');
  // The machine may have ports of its own.
  const own = await until('the port as a record', async () =>
    (await records(both, 'device.ports')).find(({ businessKey }) => businessKey === port),
  );
  assert.deepEqual([own.data['deviceId'], own.data['portName'], own.version], ['gate-7', port, 1]);
  assert.match(String(own.data['description']), /simulated/i);
  const [line] = await until('the line as a record', async () => {
    const found = await records(both, 'device.line');
    return found.length > 0 && found;
  });
  assert.deepEqual([line?.businessKey, line?.data['state'], line?.data['config']], ['line', 'closed', null]);

  const line8N1 = { portName: port, baudRate: 9_600, dataBits: 8, parity: 0, stopBits: 0, packetSize: 0 };
  assert.equal((await both.client.serial.open(line8N1)).status, 0);
  const open = await until('the line as open', async () => {
    const [now] = await records(both, 'device.line');
    return now?.data['state'] === 'open' && now;
  });
  assert.deepEqual(open.data['config'], { ...line8N1, parity: 'none', stopBits: '1' });
  assert.equal(open.version, 2);
  assert.equal(await both.stop(), 0);
  assert.doesNotMatch(ownLog(both.logLines), / (warn|error) /);
});
