import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lineside } from '../../shared/proto/services.ts';
import { sessionResponse } from './encode.ts';
import { MAX_UNREAD_BYTES, RECEIVED_MESSAGE_BYTES } from './limits.ts';
import { ReceivedQueue } from './received-queue.ts';

const { PORT_STATE_OPEN } = lineside.v1.PortState;

function all(queue: ReceivedQueue): lineside.v1.SessionResponse[] {
  const messages: lineside.v1.SessionResponse[] = [];
  for (let next = queue.take(); next !== undefined; next = queue.take())
    messages.push(lineside.v1.SessionResponse.decode(next));
  return messages;
}

const texts = (queue: ReceivedQueue): string[] =>
  all(queue).map(({ received, event }) => (event ? 'event' : Buffer.from(received ?? []).toString()));

test('bytes are joined, and an event stays at its place between them', () => {
  const queue = new ReceivedQueue(() => {});
  queue.add(Buffer.from('a'));
  queue.add(Buffer.from('b'));
  queue.add({ portState: PORT_STATE_OPEN });
  queue.add(Buffer.from('c'));
  assert.deepEqual(texts(queue), ['ab', 'event', 'c']);
});

test('messages end at their limit', () => {
  const queue = new ReceivedQueue(() => {});
  for (let n = 0; n < 20; n++) queue.add(Buffer.alloc(4_096));
  const sizes = all(queue).map(({ received }) => received?.length ?? 0);
  assert.deepEqual(sizes, [RECEIVED_MESSAGE_BYTES, RECEIVED_MESSAGE_BYTES, 20 * 4_096 - 2 * RECEIVED_MESSAGE_BYTES]);
});

test('purged bytes do not come, nor their errors; other events do', () => {
  const queue = new ReceivedQueue(() => {});
  queue.add({ lineErrors: { errors: [{ offset: 1, count: 1 }] } });
  queue.add(Buffer.from('old'));
  queue.add({ portState: PORT_STATE_OPEN });
  queue.purge();
  queue.add(Buffer.from('new'));
  assert.deepEqual(texts(queue), ['event', 'new']);
});

test('what a client does not take is dropped at the limit and counted; nothing comes after that', () => {
  let changes = 0;
  const queue = new ReceivedQueue(() => changes++);
  for (let n = 0; n < MAX_UNREAD_BYTES / 4_096; n++) queue.add(Buffer.alloc(4_096));
  assert.equal(queue.lostBytes, 0);
  queue.add(Buffer.from('x'));
  assert.equal(queue.lostBytes, MAX_UNREAD_BYTES + 1);
  queue.add(Buffer.from('y'));
  const messages = all(queue);
  assert.equal(messages.length, 1);
  assert.equal(Number(messages[0]?.event?.lostBytes), MAX_UNREAD_BYTES + 1);
  assert.equal(changes, MAX_UNREAD_BYTES / 4_096 + 1);
});

test('a batch of the log comes behind what waits, and not at all once bytes are lost', async () => {
  const queue = new ReceivedQueue(() => {});
  const batch = sessionResponse('log', lineside.v1.LogBatch.encode({ logId: 'batch' }).finish());
  assert.equal(queue.behind(batch), undefined, 'nothing waits');
  queue.add(Buffer.from('a'));
  const taken = queue.behind(batch);
  queue.add(Buffer.from('b'));
  queue.purge();
  queue.add(Buffer.from('c'));
  const order = all(queue).map(({ received, log }) => log?.logId ?? Buffer.from(received ?? []).toString());
  assert.deepEqual(order, ['batch', 'c']);
  await taken;
  for (const isQueued of [true, false]) {
    const lossy = new ReceivedQueue(() => {});
    lossy.add(Buffer.alloc(MAX_UNREAD_BYTES));
    const queued = isQueued ? lossy.behind(batch) : undefined;
    lossy.add(Buffer.from('x'));
    assert.deepEqual(texts(lossy), ['event']);
    const dropped = queued ?? lossy.behind(batch);
    assert.ok(dropped !== undefined);
    assert.deepEqual(texts(lossy), []);
    lossy.end();
    await dropped;
  }
});

test('events alone are bounded too', () => {
  const queue = new ReceivedQueue(() => {});
  for (let n = 0; n < 1e5; n++) queue.add({ portState: PORT_STATE_OPEN });
  assert.ok(all(queue).length <= MAX_UNREAD_BYTES / 256);
});
