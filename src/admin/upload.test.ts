// Runs alone: measures the memory of its process.
/** Uploads to the helper: of what does not arrive whole, or is not good, nothing is left; what is kept is used by its hash alone. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { FakeClock, settled } from '../shared/base/fake-clock.fixture.ts';
import { fill, mountSmall } from '../shared/base/small-disk.fixture.ts';
import { until } from '../shared/base/wait.fixture.ts';
import { answered, begin, codeOf, type Json, startHelper } from './helper.fixture.ts';
import { UPLOAD_KEPT_MS } from './upload.ts';
import { MAX_UPLOAD_BYTES, READY_LINE, RECEIVING_LIMIT_MS, UPLOAD_STALLED_MS } from './verbs.ts';

const content = Buffer.alloc(300_000, 'bundle ');
const sha256 = createHash('sha256').update(content).digest('hex');
type Helper = Awaited<ReturnType<typeof startHelper>>;

/** A helper that is ready for so many bytes. */
async function receiving({ path, admin, at }: Helper, bytes = content.length): Promise<Socket> {
  const socket = begin(path, `${JSON.stringify({ verb: 'update.upload', token: admin, args: { bytes } })}\n`);
  const ready = await new Promise<Buffer>((resolve) => socket.once('data', resolve));
  assert.equal(String(ready), READY_LINE);
  await until('the file', () => existsSync(at('state/upload')));
  return socket;
}

function messageOf({ error }: Json): string {
  return (error as { message?: string } | undefined)?.message ?? '';
}

const nothingLeft = (helper: Helper) =>
  until('nothing to be left of it', () => readdirSync(helper.at('state')).join() === 'audit.jsonl');
const outcomes = ({ audit }: Helper): unknown[] =>
  audit().map(({ verb, outcome }) => `${String(verb)}: ${String(outcome)}`);

test('an upload is checked by its command, and used once, by its hash, by the unit that is started for it', async (t) => {
  const helper = await startHelper(t);
  const { at, ask, upload, calls } = helper;
  writeFileSync(at('says'), '{"version":"1.3.0"}');
  const slow = await receiving(helper);
  slow.write(content.subarray(0, 100_000));
  // Other verbs are done meanwhile, and no other upload.
  assert.deepEqual(await ask('tokens.list'), { done: { version: '1.3.0' } });
  for (const refused of [await ask('upload.check', { bytes: 1 }), await upload('update.upload', content)])
    assert.equal(messageOf(refused), 'another file is being uploaded');
  const end = answered(slow);
  slow.write(content.subarray(100_000));
  assert.deepEqual((await end).answer, { done: { version: '1.3.0', sha256 } });
  assert.deepEqual(calls().at(-1), ['lineside', 'update', 'check', '--json', at('state/upload')]);
  assert.ok(readFileSync(at('state/upload')).equals(content));
  assert.equal(statSync(at('state/upload')).mode & 0o777, 0o600);

  const ran = calls().length;
  const other = await ask('update.install', { sha256: sha256.replace(/^./, (first) => (first === '0' ? '1' : '0')) });
  assert.deepEqual([codeOf(other), calls().length], ['CONFLICT', ran]);
  assert.deepEqual(await ask('update.install', { sha256 }), { done: null });
  assert.deepEqual(calls().at(-1), ['systemctl', 'start', 'lineside-admin-update.service']);
  assert.ok(readFileSync(at('state/update.bundle')).equals(content));
  assert.ok(!existsSync(at('state/upload')));

  // The unit works: what would disturb it is refused.
  for (const refused of [
    await ask('backup', { log: false }),
    await ask('restart'),
    await ask('update.install', { sha256 }),
    await ask('upload.check', { bytes: 1 }),
    await upload('update.upload', content),
  ])
    assert.equal(messageOf(refused), 'an update is being installed');
  assert.equal(codeOf(await ask('tokens.revoke', { name: 'ops' })), '');
  // It was killed, and nothing that it does at its end was done.
  writeFileSync(at('inactive'), '');
  assert.deepEqual(await ask('upload.check', { bytes: 1 }), { done: null });
  assert.ok(!existsSync(at('state/update.bundle')));
  assert.match(messageOf(await ask('update.install', { sha256 })), /does not have this file any more/);
  assert.deepEqual(outcomes(helper).slice(0, 5), [
    'update.upload: begun',
    'tokens.list: done',
    'upload.check: failed: CONFLICT',
    'update.upload: begun',
    'update.upload: failed: CONFLICT',
  ]);
});

test('hardly any of an upload is in memory', async (t) => {
  const helper = await startHelper(t);
  const pieces = 192;
  const piece = Buffer.alloc(1_024 * 1_024, 'a piece of the bundle');
  const before = process.memoryUsage().arrayBuffers;
  const sending = await receiving(helper, pieces * piece.length);
  const end = answered(sending);
  let most = 0;
  for (let sent = 0; sent < pieces; sent += 1) {
    if (!sending.write(piece)) await once(sending, 'drain');
    most = Math.max(most, process.memoryUsage().arrayBuffers - before);
  }
  assert.equal(codeOf((await end).answer), '');
  assert.ok(most < (pieces * piece.length) / 2, `${most} bytes are held`);
});

test('a restore needs the name of the box, and the hash of the backup that was uploaded last', async (t) => {
  const helper = await startHelper(t);
  const { at, ask, upload, calls } = helper;
  await upload('restore.upload', content);
  assert.deepEqual(calls().at(-1), ['lineside', 'restore', '--show', '--json', at('state/upload')]);
  const ran = calls().length;
  const confirm = 'press-04';
  for (const args of [
    { sha256, confirm: '' },
    { sha256, confirm: 'press-05' },
    { sha256, confirm: 'PRESS-04' },
    { sha256 },
    { confirm },
    { sha256: createHash('sha256').update('another').digest('hex'), confirm },
  ])
    assert.match(codeOf(await ask('restore.begin', args)), /INVALID_ARGUMENT|CONFLICT/, JSON.stringify(args));
  // What was uploaded for one thing is not used for another.
  assert.equal(codeOf(await ask('update.install', { sha256 })), 'CONFLICT');
  assert.equal(calls().length, ran);
  assert.deepEqual(await ask('restore.begin', { sha256, confirm }), { done: null });
  assert.deepEqual(calls().at(-1), ['systemctl', 'start', 'lineside-admin-restore.service']);
  assert.ok(readFileSync(at('state/restore.backup')).equals(content));
  assert.equal(messageOf(await ask('restart')), 'a backup is being restored');
  assert.ok(outcomes(helper).includes('restore.begin: failed: INVALID_ARGUMENT'));
});

test('if the unit does not start, the upload is kept for another try', async (t) => {
  const { at, ask, upload } = await startHelper(t);
  await upload('update.upload', content);
  writeFileSync(at('fails'), 'Failed to start\n');
  assert.equal(codeOf(await ask('update.install', { sha256 })), 'INTERNAL');
  rmSync(at('fails'));
  assert.deepEqual(await ask('update.install', { sha256 }), { done: null });
  assert.ok(readFileSync(at('state/update.bundle')).equals(content));
});

test('of an upload whose sender goes away, sends more, or sends what is not good, nothing is left', async (t) => {
  const helper = await startHelper(t);
  const { at, ask, upload, calls } = helper;
  for (const leave of [(one: Socket) => one.destroy(), (one: Socket) => one.end()]) {
    const leaving = await receiving(helper);
    leaving.write(content.subarray(0, 100_000));
    await until('some of it', () => statSync(at('state/upload')).size === 100_000);
    leave(leaving);
    await nothingLeft(helper);
    await until('the audit', () => outcomes(helper).at(-1) === 'update.upload: aborted: the caller disconnected');
  }
  assert.equal(codeOf(await upload('update.upload', content, { bytes: 1_000 })), 'MALFORMED');
  await nothingLeft(helper);
  assert.deepEqual(calls(), []);

  writeFileSync(at('fails'), '{"error":{"code":"PERMISSION_DENIED","message":"not signed","next":"get another"}}\n');
  assert.equal(messageOf(await upload('update.upload', content)), 'not signed');
  await nothingLeft(helper);
  assert.equal(codeOf(await ask('update.install', { sha256 })), 'CONFLICT');
  assert.equal(calls().length, 1);
  for (const bytes of [0, -1, 1.5, MAX_UPLOAD_BYTES + 1])
    assert.equal(codeOf(await upload('update.upload', content, { bytes })), 'INVALID_ARGUMENT', String(bytes));
});

test('an upload that stalls, or takes without end, is aborted', async (t) => {
  for (const [limitMs, why] of [
    [UPLOAD_STALLED_MS, /nothing of the file came for 60 s/],
    [RECEIVING_LIMIT_MS, /the file did not arrive within 60 minutes/],
  ] as const) {
    const clock = new FakeClock();
    const helper = await startHelper(t, { clock });
    const slow = await receiving(helper);
    const end = answered(slow);
    // A byte just before it would count as stalled.
    for (let at = 0; clock.monoMs() < limitMs; ) {
      slow.write(content.subarray(at, ++at));
      await until('it', () => statSync(helper.at('state/upload')).size === at);
      await settled();
      const left = limitMs - clock.monoMs();
      clock.advance(left > UPLOAD_STALLED_MS ? UPLOAD_STALLED_MS - 1 : left);
    }
    await nothingLeft(helper);
    slow.end();
    const { answer } = await end;
    assert.equal(codeOf(answer), 'REQUEST_TIMEOUT');
    assert.match(messageOf(answer), why);
  }
});

test('an upload is kept for half an hour, and for so long the helper stays', async (t) => {
  const clock = new FakeClock();
  const helper = await startHelper(t, { clock });
  const { ask, upload, ended } = helper;
  await upload('update.upload', content);
  await until('the connection to be closed', () => clock.pendingTimers > 0);
  clock.advance(UPLOAD_KEPT_MS - 1);
  assert.equal(codeOf(await ask('tokens.list')), '');
  assert.ok(existsSync(helper.at('state/upload')));
  await until('the connection to be closed', () => clock.pendingTimers > 0);
  clock.advance(1);
  assert.equal(codeOf(await ask('update.install', { sha256 })), 'CONFLICT');
  await until('the connection to be closed', () => clock.pendingTimers > 0);
  clock.advance(30_000);
  await ended;
  await nothingLeft(helper);
});

test('of a helper that was killed nothing is left, and a link in its place is not followed', async (t) => {
  const { at, upload } = await startHelper(t);
  writeFileSync(at('victim'), 'kept');
  symlinkSync(at('victim'), at('state/upload'));
  assert.equal(codeOf(await upload('update.upload', content)), '');
  assert.equal(readFileSync(at('victim'), 'utf8'), 'kept');
});

test('an upload needs twice its size, and what does not fit any more is removed', async (t) => {
  const mounted = mountedState(t);
  if (mounted === undefined) return;
  const helper = await startHelper(t, { stateDir: mounted });
  const { ask, upload } = helper;
  const room = (bytes: number): Promise<string> => ask('upload.check', { bytes }).then(codeOf);
  assert.deepEqual([await room(1_000_000), await room(1_100_000)], ['', 'STORAGE_FULL']);
  const large = Buffer.alloc(1_000_000);
  assert.equal(codeOf(await upload('update.upload', large)), '');
  // The one before makes room for it.
  assert.equal(codeOf(await upload('update.upload', large)), '');
  assert.equal(codeOf(await upload('update.upload', Buffer.alloc(1_100_000))), 'STORAGE_FULL');
  const slow = begin(
    helper.path,
    `${JSON.stringify({ verb: 'update.upload', token: helper.admin, args: { bytes: 900_000 } })}\n`,
  );
  await new Promise((resolve) => slow.once('data', resolve));
  await until('the file', () => existsSync(join(mounted, 'upload')));
  fill(join(mounted, 'other'), 100_000);
  const end = answered(slow);
  slow.write(large.subarray(0, 900_000));
  assert.equal(codeOf((await end).answer), 'STORAGE_FULL');
  assert.ok(!existsSync(join(mounted, 'upload')));
});

function mountedState(t: TestContext): string | undefined {
  const path = join(process.env['TMPDIR'] ?? '/tmp', `lineside-upload-${process.pid}`);
  mkdirSync(path);
  return mountSmall(t, path, 'size=2100k') ? path : undefined;
}
