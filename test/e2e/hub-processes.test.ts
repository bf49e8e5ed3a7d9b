/** What line and hub hold, under `lineside serve`, and what they do not load: whichever is killed, the other loses nothing (hub-child.test.ts has the rest). */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { BUILD, temporaryDirectory } from './daemon.ts';
import { endExclusiveUse, everythingAfter, logStatus, openPort, RX } from './faults.ts';
import { type Both, isAlive, ownLog, startBoth } from './hub.ts';
import { recordPath } from './hub-api.ts';
import { apiOf, create, dictionary, expect, update } from './hub-support.ts';
import { LiveReader } from './live-reader.ts';
import { type NamedPty, namedPty } from './pty.ts';

const PIECE_BYTES = 500;
const PIECES = 100;

interface Whole {
  readonly both: Both;
  readonly pty: NamedPty;
}

async function startWhole(dir = temporaryDirectory()): Promise<Whole> {
  const pty = namedPty(dir);
  const config = { serial: { extra_ports: [pty.portName] }, log: { commit_ms: 50 }, device: { inventory: false } };
  const both = await startBoth({ dir, config });
  await openPort(both.client, pty.portName);
  return { both, pty };
}

/** The stored bytes of the line, whole and in order. */
async function storedBytes({ client }: Both): Promise<Buffer> {
  const entries = await everythingAfter(client, 0);
  return Buffer.concat(entries.flatMap(({ entry }) => (entry?.dir === RX ? [entry.rawData ?? Buffer.alloc(0)] : [])));
}

test('the hub is killed again and again: the line loses no byte, and the hub is back with all it had answered', async (t) => {
  const { both, pty } = await startWhole();
  const reader = await LiveReader.start(both.client);
  await dictionary(apiOf(both), 'd');
  await create(apiOf(both), 'd', 'key', { n: 1 });
  const sent: Buffer[] = [];
  let kills = 0;
  let version = 1;
  for (let i = 0; i < PIECES; i++) {
    const piece = randomBytes(PIECE_BYTES);
    sent.push(piece);
    await pty.write(piece);
    if (i % (PIECES / 2) !== 10) continue;
    const from = both.logLines.length;
    const old = both.pid();
    await both.kill();
    kills += 1;
    await both.waitFor(/ warn the hub ended and is started again .*SIGKILL/, from);
    // Traffic continues until it is back.
    const back = both.waitFor(/ info hub ready /, from).then(() => true);
    while (!(await Promise.race([back, pty.write(randomPiece(sent)).then(() => false)])));
    assert.notEqual(both.pid(), old);
    const api = apiOf(both);
    assert.equal((await expect(200, api.get(recordPath('d', 'key')))).version, version);
    version = (await update(api, 'd', 'key', version, { n: version + 1 })).version ?? 0;
  }
  const all = Buffer.concat(sent);
  await reader.has(all.length);
  assert.equal(reader.ended, '', 'the live reader was never disconnected');
  await until('all is stored', async () => (await storedBytes(both)).length === all.length);
  assert.ok((await storedBytes(both)).equals(all));
  assert.equal(Number((await logStatus(both.client)).lostEntries), 0);
  t.diagnostic(`${kills} kills, ${all.length} bytes`);
  // Each hub would have asked the line for them at its start.
  for (const facts of ['device.ports', 'device.line']) {
    assert.equal((await apiOf(both).get(`/api/v1/dictionaries/${facts}`)).status, 404, 'device.inventory is false');
  }
  const hubPid = both.pid();
  assert.equal(await both.stop(), 0);
  assert.ok(!isAlive(hubPid), 'the hub stops with the service');
  assert.doesNotMatch(ownLog(both.logLines), / error /);
});

function randomPiece(sent: Buffer[]): Buffer {
  const piece = randomBytes(PIECE_BYTES);
  sent.push(piece);
  return piece;
}

test('the line is killed: the hub continues to answer, and the next start takes over with both', async () => {
  const dir = temporaryDirectory();
  const { both, pty } = await startWhole(dir);
  await dictionary(apiOf(both), 'd');
  await create(apiOf(both), 'd', 'key', { n: 1 });
  const orphan = both.pid();
  process.kill(both.linePid, 'SIGKILL');
  await until('the end of the line', () => !isAlive(both.linePid));
  endExclusiveUse(pty.slavePath);
  await update(apiOf(both), 'd', 'key', 1, { n: 2 });
  assert.ok(isAlive(orphan));

  const again = await startBoth({ dir });
  await until('the one left over has ended', () => !isAlive(orphan));
  assert.notEqual(again.pid(), orphan);
  const starts = again.logLines.filter((line) => / info hub started /.test(line));
  assert.equal(starts.length, 1, 'at its first try');
  assert.equal((await expect(200, apiOf(again).get(recordPath('d', 'key')))).version, 2);
  await update(apiOf(again), 'd', 'key', 2, { n: 3 });
  await openPort(again.client, pty.portName);
  assert.equal(await again.stop(), 0);
});

test('no part of the build imports node:http as a module, whose facade loads undici', () => {
  const parts = readdirSync(BUILD).filter((name) => name.endsWith('.js'));
  assert.ok(parts.length > 0);
  const facade = /^import .*from "(node:)?http";/m;
  assert.deepEqual(
    parts.filter((name) => facade.test(readFileSync(join(BUILD, name), 'utf8'))),
    [],
  );
});
