/** Load on the hub from all sides: records one by one, bulk closes and bundles, each entered in the ledger. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Answer, type HubApi, recordPath } from '../e2e/hub-api.ts';
import { sendBundle } from '../e2e/hub-support.ts';
import type { OutboxLedger } from './outbox-ledger.ts';
import { anyOf, nextNumber, type Random } from './random.ts';

export interface Load {
  readonly api: HubApi;
  readonly ledger: OutboxLedger;
  readonly random: Random;
  /** The last number of each writer: they continue over restarts. */
  readonly numbers: Map<string, number>;
}

/** One for each scope. */
export const dictionaries = { 'soak.public': 'PUBLIC', 'soak.internal': 'INTERNAL', 'soak.restricted': 'RESTRICTED' };
const names = Object.keys(dictionaries);
/** What `text` must be: so that some changes are refused by the schema. */
export const schema = { type: 'object', properties: { text: { type: 'string' } }, required: ['name', 'text'] };

/** Few enough that writers meet on a key. */
const KEYS = 12;
const BULK = 15;
const BUNDLE = 40;
const PAUSE_MS = 5;
/** Two or three deliveries of webhooks by number; or by size, as an event is then of some 50 KiB. */
const MANY = { from: 501, to: 1_200, bytes: 10 };
const LARGE = { from: 25, to: 45, bytes: 50_000 };
/** Other writers wait while a bundle is written. */
const LARGE_PAUSE_MS = 2_000;
const TITLE_PAUSE_MS = 400;

/** Creates, updates and closes records; several of them race on the same keys. */
export async function recordWriter(name: string, load: Load, over: AbortSignal): Promise<void> {
  const { api, random } = load;
  while (!over.aborted) {
    const dictionary = anyOf(names, random);
    const key = `gemeinsam ${random.between(1, KEYS)}`;
    const now = await heard(api.get(recordPath(dictionary, key)));
    if (now === undefined) return;
    const target = `${dictionary}:${key}`;
    await attempt(name, load, [target], (change) => {
      const data = dataOf(change, random);
      if (now.status === 404) {
        const body = { businessKey: key, data, changeReason: change };
        return api.post(`/api/v1/dictionaries/${dictionary}/records`, body);
      }
      // Every tenth names a version that is long gone, every tenth breaks the schema.
      const chance = random.between(0, 9);
      const ifMatch = (now.body?.version ?? 0) - (chance === 0 ? 1 : 0);
      if (chance === 1) return api.post(`${recordPath(dictionary, key)}/close`, { changeReason: change }, { ifMatch });
      const body = { data: chance === 2 ? { name: change } : data, changeReason: change };
      return api.send('PUT', recordPath(dictionary, key), { body, ifMatch });
    });
    await sleep(random.between(0, PAUSE_MS));
  }
}

/** Bundles of its own keys: some with a line that is wrong, some that close what the one before brought. */
export async function importer(name: string, load: Load, over: AbortSignal): Promise<void> {
  const { api, random } = load;
  let open: readonly string[] = [];
  while (!over.aborted) {
    const closing = open;
    const opening = Array.from(
      { length: BUNDLE },
      (_, i) => `${anyOf(names, random)}:${name} ${random.between(1, 500)}.${i}`,
    );
    const bad = random.between(0, 3) === 0;
    const fate = await attempt(name, load, [...opening, ...closing], (change) => {
      const lines = [
        ...opening.map((target) => ({ ...targetOf(target), data: dataOf(change, random) })),
        ...closing.map((target) => ({ ...targetOf(target), action: 'close' })),
        ...(bad ? [{ ...targetOf('soak.public:never'), data: { name: change } }] : []),
      ];
      return sendBundle(api, lines, change);
    });
    if (fate === undefined) return;
    if (fate) open = random.between(0, 1) === 0 ? opening : [];
    await sleep(random.between(0, PAUSE_MS * 10));
  }
}

/** Opens some records of its own and closes them together; some bulks have an unknown key. */
export async function bulkCloser(name: string, load: Load, over: AbortSignal): Promise<void> {
  const { api, random } = load;
  while (!over.aborted) {
    const dictionary = anyOf(names, random);
    const path = `/api/v1/dictionaries/${dictionary}`;
    const keys = Array.from({ length: BULK }, (_, i) => `${name} ${load.numbers.get(name) ?? 0}.${i}`);
    for (const key of keys) {
      const target = [`${dictionary}:${key}`];
      const fate = await attempt(name, load, target, (change) =>
        api.post(`${path}/records`, { businessKey: key, data: dataOf(change, random), changeReason: change }),
      );
      if (fate === undefined) return;
    }
    const bad = random.between(0, 3) === 0 ? ['an unknown key'] : [];
    const targets = keys.map((key) => `${dictionary}:${key}`);
    const fate = await attempt(name, load, targets, (change) =>
      api.post(`${path}/bulk-close`, { businessKeys: [...keys, ...bad], changeReason: change }),
    );
    if (fate === undefined) return;
  }
}

/** Bundles that are too large for one delivery of webhooks. */
export async function largeImporter(name: string, load: Load, over: AbortSignal): Promise<void> {
  const { api, random } = load;
  while (!over.aborted) {
    await sleep(random.between(0, LARGE_PAUSE_MS));
    if (over.aborted) return;
    const kind = random.between(0, 2) === 0 ? MANY : LARGE;
    const dictionary = anyOf(names, random);
    const count = random.between(kind.from, kind.to);
    const number = load.numbers.get(name) ?? 0;
    const keys = Array.from({ length: count }, (_, i) => `${name} ${number}.${i}`);
    const targets = keys.map((key) => `${dictionary}:${key}`);
    const fate = await attempt(name, load, targets, (change) => {
      const text = 'x'.repeat(kind.bytes);
      const lines = keys.map((businessKey) => ({ dictionary, businessKey, data: { name: change, text } }));
      return sendBundle(api, lines, change);
    });
    if (fate === undefined) return;
  }
}

/** New titles; those that were answered are entered. */
export async function definer(name: string, load: Load, titles: Set<string>, over: AbortSignal): Promise<void> {
  const { api, random, numbers } = load;
  while (!over.aborted) {
    await sleep(random.between(0, TITLE_PAUSE_MS));
    if (over.aborted) return;
    const number = nextNumber(numbers, name);
    const dictionary = anyOf(names, random);
    const title = `Wörter ${number}`;
    const answer = await heard(api.send('PATCH', `/api/v1/dictionaries/${dictionary}`, { body: { title } }));
    if (answer === undefined) return;
    if (answer.status === 200) titles.add(title);
    else if (answer.status !== 503) throw new Error(`${title}: ${answer.status} ${answer.text}`);
  }
}

/** Whether it was done; undefined: nothing was heard of it. */
async function attempt(
  name: string,
  { ledger, numbers }: Load,
  targets: readonly string[],
  ask: (change: string) => Promise<Answer>,
): Promise<boolean | undefined> {
  const change = `${name}-${nextNumber(numbers, name)}`;
  ledger.ask(change, targets);
  const answer = await heard(ask(change));
  if (answer === undefined) return undefined;
  if (answer.status >= 200 && answer.status < 300) ledger.answered(change, answer.body?.txTime ?? '');
  else if (answer.status < 500 || answer.status === 503) ledger.refused(change);
  else throw new Error(`${change}: ${answer.status} ${answer.text}`);
  return answer.status < 300;
}

/** The answer; undefined: the hub was killed before it had answered. */
async function heard(answer: Promise<Answer>): Promise<Answer | undefined> {
  try {
    return await answer;
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (['ECONNRESET', 'ECONNREFUSED', 'ECONNABORTED', 'EPIPE', 'ENOENT'].includes(String(code))) return undefined;
    throw error;
  }
}

function targetOf(target: string): { dictionary: string; businessKey: string } {
  const [dictionary = '', businessKey = ''] = target.split(/:(.*)/s);
  return { dictionary, businessKey };
}

/** Never the same twice; some fields come, some go, some stay. */
function dataOf(change: string, random: Random): object {
  const text = random.bytes(random.between(0, random.between(0, 9) === 0 ? 3_000 : 60)).toString('base64');
  return {
    name: change,
    text,
    ...(random.between(0, 1) === 0 && { optional: random.between(0, 1) === 0 ? null : random.between(0, 3) }),
    ...(random.between(0, 1) === 0 && { nested: { list: [random.between(0, 1), { ü: 'ß→💡' }] } }),
  };
}
