/** `lineside webhook` and the real HTTP interface mean the same: no request of a command is refused for its form. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { run } from '../../src/cli/drive.fixture.ts';
import { startTestServer } from '../../src/hub/http/server.fixture.ts';

const SECRET = 'a secret of the subscriber';

test('every webhook command is understood by the interface, and understands its answer', async (t) => {
  const server = await startTestServer(t);
  const secretFile = join(server.dir, 'subscriber.secret');
  writeFileSync(secretFile, `${SECRET}\n`);
  const cli = async (...argv: string[]): Promise<string> => {
    const { status, stdout, stderr } = await run(['webhook', ...argv], { httpSocket: server.socketPath });
    assert.deepEqual([status, stderr], [0, ''], argv.join(' '));
    return stdout;
  };
  const secret = ['--secret-file', secretFile];
  const reason = ['--reason', 'für das MES'];
  const filter = ['--scope', 'PUBLIC', '--dictionary', 'pumps', '--action', 'closed', '--category', 'draft'];
  const place = ['--name', 'mes', '--url', 'https://mes.example.com/hook', '--consumer', 'local'];
  assert.match(
    await cli('add', ...place, ...filter, ...secret, ...reason, '--inactive'),
    /^added subscription 1 \(mes\)/,
  );
  assert.match(await cli('list'), /\n1 +mes +paused +PUBLIC.* +https:\/\/mes\.example\.com\/hook\n$/);
  assert.match(await cli('show', '1'), /^Subscription +1 \(mes\)\nState +paused/);
  assert.match(await cli('resume', '1', ...reason), /is resumed/);
  assert.match(await cli('pause', '1', ...reason), /is paused/);
  const version = (JSON.parse(await cli('show', '1', '--json')) as { version: number }).version;
  const all = ['--all-dictionaries', '--all-actions', '--all-categories'];
  assert.match(await cli('update', '1', ...all, '--version', String(version), ...reason), /^updated subscription 1/);
  assert.match(await cli('rotate-secret', '1', '--generate-secret', '--grace', '60', ...reason), /\n[\w-]{43}\n$/);
  assert.match(await cli('ping', 'https://mes.example.com/hook', ...secret), /^accepted: HTTP 202/);
  assert.match(await cli('deliveries', '--state', 'rejected', '--subscription', '1'), /REJECTED/);
  const [first] = (await cli('deliveries', '--limit', '1', '--json')).trim().split('\n');
  const { deliveryId } = JSON.parse(first ?? '') as { deliveryId: string };
  assert.match(await cli('delivery', deliveryId), new RegExp(`^Delivery +${deliveryId}\n`));
  assert.match(await cli('retry', deliveryId, ...reason), /is sent again\n$/);
  const range = ['--from', '2d', '--to', '1h', '--state', 'failed'];
  assert.match(await cli('retry', '--subscription', '1', ...range, ...reason), /sent again\n$/);
  assert.match(await cli('remove', '1', ...reason), /is removed\n$/);
  const [added, ...others] = server.webhooks.steps;
  const chosen = { scopes: ['PUBLIC'], dictionaries: ['pumps'], actions: ['closed'], categories: ['dict.draft.*'] };
  const named = { name: 'mes', url: 'https://mes.example.com/hook', consumer: 'local', active: false };
  assert.deepEqual(added, ['subscribe', 'local', { ...named, ...chosen, secret: SECRET.length }, 'für das MES']);
  const every = { dictionaries: null, actions: null, categories: null };
  assert.deepEqual(others[2], ['update', 'local', '1', every, [version], 'für das MES']);
  const asked = JSON.stringify(server.webhooks.steps);
  assert.equal(asked.split('für das MES').length - 1, 8, asked);
  assert.ok(!asked.includes(SECRET));
});
