/**
 * What becomes of a delivery by what its URL answers: every class of answer, by a real server, as the interface shows it; and
 * that an answer of a gigabyte or one that unpacks to one costs the hub no memory.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { type Hub, startHub } from './hub.ts';
import type { HubApi } from './hub-api.ts';
import { apiOf, create, dictionary, expect, refused } from './hub-support.ts';
import { type Receiver, type Step, startReceiver } from './webhook-receiver.ts';
import {
  assertFaultless,
  assertSameBytes,
  type DeliveryView,
  deliveriesOf,
  deliveryWhen,
  HOOKS,
  SECRET,
  subscribe,
  webhooksConfig,
} from './webhooks-support.ts';

/** After the two attempts that are made at once: what a delivery is then stays for as long as it is looked at. */
const LATER_S = 3_600;
const MAX_GROWTH_MIB = 64;
/** What buffers of the kernel take of an answer that is not read to its end. */
const MAX_TAKEN_BYTES = 32 * 1024 * 1024;

let receiver: Receiver;
let hub: Hub;
let api: HubApi;

before(async () => {
  receiver = await startReceiver(undefined, { secrets: [SECRET] });
  hub = await startHub({ config: webhooksConfig([receiver], { schedule_s: [0, 0, LATER_S] }) });
  api = apiOf(hub);
});

interface Wanted {
  readonly state: 'delivered' | 'rejected' | 'retrying';
  /** null: no answer. */
  readonly status: number | null;
  readonly cause: string | null;
  readonly message: RegExp;
  /** What is kept of the answer. */
  readonly body?: string;
}
type Row = readonly [name: string, step: Step, wanted: Wanted];

const page = 'Fehler: größer\n'.repeat(1_000);
const pageKept = Buffer.from(page).subarray(0, 4_096).toString('utf8');
const bodyless = [204, 304];

const accepted = (status = 202): Wanted => ({ state: 'delivered', status, cause: null, message: /^$/ });
const failed = (cause: string, message: RegExp, status: number | null = null, body = ''): Wanted => {
  return { state: 'retrying', status, cause, message, body };
};
const rejected = (status: number, body: string): Wanted => {
  return { state: 'rejected', status, cause: 'http', message: new RegExp(`answered ${status}$`), body };
};

function plain(status: number, wanted: Wanted, headers: Step['headers'] = {}): Row {
  const body = bodyless.includes(status) ? '' : `body of ${status}`;
  return [`${status}`, { status, body, headers }, wanted.state === 'delivered' ? wanted : { ...wanted, body }];
}

function statusRows(): readonly Row[] {
  const elsewhere = (status: number) => `https://127.0.0.1:${receiver.port}/elsewhere-${status}`;
  const soon = { 'retry-after': '0' };
  return [
    ...[200, 201, 202, 204].map((status) => plain(status, accepted(status))),
    ...[203, 205, 206, 207, 226, 299].map((status) => {
      return plain(status, failed('http', / which is none of 200, 201, 202 and 204$/, status));
    }),
    ...[300, 301, 302, 303, 304, 305, 307, 308].map((status) => {
      return plain(status, failed('http', /; redirects are not followed$/, status), { location: elsewhere(status) });
    }),
    ...[400, 401, 403, 404, 405, 406, 408, 409, 410, 413, 415, 418, 422, 425, 426, 429, 451, 499].map((status) => {
      return plain(status, rejected(status, ''), soon);
    }),
    ...[500, 501, 502, 503, 504, 505, 507, 511, 599, 600, 999].map((status) => {
      return plain(status, failed('http', new RegExp(`answered ${status}$`), status), soon);
    }),
  ];
}

function otherRows(): readonly Row[] {
  const own = `https://127.0.0.1:${receiver.port}/redirect-own`;
  const redirect = (location: string): Step => ({ status: 307, headers: { location } });
  const redirected = failed('http', /answered 307; redirects/, 307);
  const noText = Buffer.from([0xff, 0x00, 0x41]).toString('base64');
  const closed = failed('connect', /closed the connection without an answer$/);
  return [
    ['redirect-own', redirect(own), redirected],
    ['redirect-metadata', redirect('https://169.254.169.254/elsewhere'), redirected],
    ['redirect-nowhere', redirect('ht tp://['), redirected],
    ['interim', { interim: [100, 102, 103, 103] }, accepted()],
    ['interim-503', { status: 503, interim: [100, 103] }, failed('http', /answered 503$/, 503)],
    [
      'interim-for-ever',
      { interim: Array.from({ length: 1_000 }, () => 103), fault: 'close' },
      failed('http', /not HTTP/),
    ],
    ['switching', { status: 101, headers: { upgrade: 'x', connection: 'upgrade' } }, failed('http', /101/, 101)],
    ['slow', { delayS: 0.3 }, accepted()],
    ['long', { status: 200, body: page }, accepted(200)],
    ['long-400', { status: 400, body: page }, rejected(400, pageKept)],
    ['long-500', { status: 500, body: page }, failed('http', /answered 500$/, 500, pageKept)],
    ['no-text', { status: 500, bodyBase64: noText }, failed('http', /answered 500$/, 500, '\ufffd\0A')],
    ['closed', { fault: 'close' }, closed],
    ['reset', { fault: 'reset' }, closed],
    ['cut', { fault: 'cut' }, failed('connect', /answered 202 and closed the connection before the end/, 202)],
    ['cut-404', { fault: 'cut', status: 404 }, rejected(404, 'x'.repeat(100))],
    ['cut-503', { fault: 'cut', status: 503 }, failed('http', /answered 503$/, 503, 'x'.repeat(100))],
    ['garbage', { fault: 'garbage' }, failed('http', /what is not HTTP/)],
    ['long-headers', { headers: { 'x-long': 'x'.repeat(200_000) } }, failed('http', /headers .* too long/)],
  ];
}

/** A subscriber for each row, and one change that is for all of them: their deliveries, when as many attempts were made. */
async function tried(dictionaryName: string, table: readonly Row[]): Promise<ReadonlyMap<string, string>> {
  await dictionary(api, dictionaryName);
  const ids = new Map<string, string>();
  for (const [name, step] of table) {
    await receiver.script([{ ...step, times: 10 }], `/${name}`);
    ids.set(name, (await subscribe(api, receiver, name, { dictionaries: [dictionaryName] })).id);
  }
  await create(api, dictionaryName, 'one', { text: 'größer' });
  return ids;
}

test('an answer makes of a delivery what the table says, and is kept; the next attempt is by the schedule', async () => {
  const table = [...statusRows(), ...otherRows()];
  const ids = await tried('answers', table);
  for (const [name, , { state, status, cause, message, body = '' }] of table) {
    const attempts = state === 'retrying' ? 2 : 1;
    const delivery = await deliveryWhen(api, ids.get(name) ?? '', (one) => one.attempts === attempts);
    assert.equal(delivery.state, state, name);
    assertSameBytes(receiver, `/${name}`, delivery);
    assert.equal(delivery.attemptList.length, attempts);
    for (const [at, one] of delivery.attemptList.entries()) {
      assert.deepEqual([one.attempt, one.statusCode, one.cause], [at + 1, status, cause], name);
      assert.match(one.message, message, name);
      assert.equal(one.responseBody ?? '', body, name);
    }
    assertNext(delivery, name);
  }
  const waiting = await deliveriesOf(api, ids.get('503') ?? '');
  await refused(409, 'CONFLICT', api.post(`${HOOKS}/deliveries/${waiting[0]?.deliveryId ?? ''}/resend`, {}));
  const listed = await expect(200, api.get(`${HOOKS}/deliveries?state=rejected&limit=200`));
  assert.equal(listed.items?.length, table.filter(([, , { state }]) => state === 'rejected').length);
});

function assertNext({ state, nextAttemptInSeconds: next, endedAt }: DeliveryView, name: string): void {
  assert.equal(endedAt === null, state === 'retrying', name);
  if (state !== 'retrying') assert.equal(next, null, name);
  else assert.ok(next !== null && next <= LATER_S && next > LATER_S - 100, `${name}: the next is in ${next} s`);
}

test('answers without end, and those that would unpack to a gigabyte, are cut and cost the hub no memory', async () => {
  const pid = String(hub.pid());
  const bomb = gzipSync(Buffer.alloc(300_000_000), { level: 9 }).toString('base64');
  const gzip = { 'content-encoding': 'gzip' };
  const table: readonly Row[] = [
    ['huge', { status: 200, fault: 'huge', bytes: 2 ** 30 }, accepted(200)],
    ['huge-500', { status: 500, fault: 'huge', bytes: 2 ** 30 }, failed('http', /500/, 500, 'x'.repeat(4_096))],
    ['huge-404', { status: 404, fault: 'huge', bytes: 2 ** 30 }, rejected(404, 'x'.repeat(4_096))],
    ['bomb', { status: 200, headers: gzip, bodyBase64: bomb }, accepted(200)],
    ['bomb-500', { status: 500, headers: gzip, bodyBase64: bomb }, failed('http', /500/, 500)],
  ];
  const before = memory(pid, 'VmRSS');
  // The peak begins again (proc(5), clear_refs).
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
  const ids = await tried('huge', table);
  for (const [name, , { state, status, cause, body }] of table) {
    const attempts = state === 'retrying' ? 2 : 1;
    const { lastAttempt, ...delivery } = await deliveryWhen(
      api,
      ids.get(name) ?? '',
      (one) => one.attempts === attempts,
    );
    assert.deepEqual(
      [delivery.state, lastAttempt?.statusCode, lastAttempt?.cause],
      [state, status, cause],
      JSON.stringify(lastAttempt),
    );
    // As it came: nothing is unpacked.
    if (name === 'bomb-500') assert.match(lastAttempt?.responseBody ?? '', /^\u001f\ufffd/);
    else assert.equal(lastAttempt?.responseBody ?? undefined, body);
    for (const { n } of receiver.requests(`/${name}`)) {
      const end = await until('it ends', () => receiver.requests().find((one) => one.n === n)?.end);
      assert.ok(end.sent < MAX_TAKEN_BYTES, `${name}: ${end.sent} bytes were taken`);
    }
  }
  const growth = memory(pid, 'VmHWM') - before;
  assert.ok(growth < MAX_GROWTH_MIB, `the hub grew by ${growth} MiB`);
});

function memory(pid: string, what: 'VmRSS' | 'VmHWM'): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(new RegExp(`${what}:\\s+(\\d+) kB`).exec(status)?.[1]) / 1_024;
}

test('no redirect was followed, and the subscriber found nothing wrong with any request', async () => {
  assert.ok(!receiver.requests().some(({ path }) => path.startsWith('/elsewhere')));
  assertFaultless(receiver);
  assert.equal(await hub.stop(), 0);
});
