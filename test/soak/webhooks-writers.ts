/** More load for webhooks: bundles that are too large for one delivery, and definitions. */
import { setTimeout as sleep } from 'node:timers/promises';
import { sendBundle } from '../e2e/hub-support.ts';
import { attempt, dictionaries, heard, type Load } from './outbox-writers.ts';

const names = Object.keys(dictionaries);
/** Two or three deliveries by number; or by size, as an event is then of some 50 KiB. */
const MANY = { from: 501, to: 1_200, bytes: 10 };
const LARGE = { from: 25, to: 45, bytes: 50_000 };
const PAUSE_MS = 400;
/** While a bundle is written nobody else writes. */
const BUNDLE_PAUSE_MS = 2_000;

export async function largeImporter(name: string, load: Load, over: AbortSignal): Promise<void> {
  const { api, random } = load;
  while (!over.aborted) {
    await sleep(random.between(0, BUNDLE_PAUSE_MS));
    if (over.aborted) return;
    const kind = random.between(0, 2) === 0 ? MANY : LARGE;
    const dictionary = names[random.between(0, names.length - 1)] ?? '';
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
    await sleep(random.between(0, PAUSE_MS));
    if (over.aborted) return;
    const number = (numbers.get(name) ?? 0) + 1;
    numbers.set(name, number);
    const dictionary = names[random.between(0, names.length - 1)] ?? '';
    const title = `Wörter ${number}`;
    const answer = await heard(api.send('PATCH', `/api/v1/dictionaries/${dictionary}`, { body: { title } }));
    if (answer === undefined) return;
    if (answer.status === 200) titles.add(title);
    else if (answer.status !== 503) throw new Error(`${title}: ${answer.status} ${answer.text}`);
  }
}
