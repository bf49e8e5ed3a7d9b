/**
 * Changes one by one and in bundles, by the hub's rules and by better-sqlite3 alone, in turns.
 * changes.ts DIR ROUNDS SINGLES BUNDLES BUNDLE: prints changes a second of each round as JSON.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { bundled, DICTIONARY, dataOf, dictionary, keyOf } from '../samples.ts';
import { type BareChange, BareStore, bareChange } from './bare-store.ts';
import { actor, openOwnStore } from './own-store.ts';

export type Rates = Readonly<Record<'created' | 'updated' | 'bundled', { own: number[]; bare: number[] }>>;

const [dir = '', ...numbers] = process.argv.slice(2);
const [rounds = 0, singles = 0, bundleRounds = 0, bundle = 0] = numbers.map(Number);
/** As a socket gives it. */
const CHUNK_BYTES = 65_536;
/** As the hub's connection and the import worker's. */
const SINGLES_CACHE_KIB = 4_096;
const BUNDLE_CACHE_KIB = 16_384;

const rates: Rates = { created: pair(), updated: pair(), bundled: pair() };
await oneByOne();
await bundles();
console.log(JSON.stringify(rates));
process.exit(0);

function pair(): { own: number[]; bare: number[] } {
  return { own: [], bare: [] };
}

function inner(name: string): string {
  const path = join(dir, name);
  mkdirSync(path, { recursive: true });
  return path;
}

async function oneByOne(): Promise<void> {
  const own = openOwnStore(inner('own-singles'));
  const bare = new BareStore(inner('bare-singles'), SINGLES_CACHE_KIB);
  await own.refdata.createDictionary(actor, dictionary, '');
  // The round before the first warms up.
  for (let round = -1; round < rounds; round++) {
    const numbers = Array.from({ length: singles }, (_, i) => (round + 1) * singles + i);
    const datas = numbers.map((n) => dataOf(n));
    const newer = numbers.map((n) => dataOf(n, 2));
    const changes = numbers.map((n) => bareChange(n));
    const updates = numbers.map((n) => bareChange(n, 2));
    const ids: number[] = [];
    const found = [
      await rate(singles, async (i) => {
        await own.refdata.createRecord(actor, DICTIONARY, keyOf(numbers[i] ?? 0), { data: datas[i] ?? {} });
      }),
      await rate(singles, (i) => ids.push(...bare.create([at(changes, i)]))),
      await rate(singles, async (i) => {
        await own.refdata.updateRecord(actor, DICTIONARY, keyOf(numbers[i] ?? 0), { data: newer[i] ?? {} }, 1);
      }),
      await rate(singles, (i) => bare.update(ids[i] ?? 0, at(updates, i))),
    ];
    if (round < 0) continue;
    rates.created.own.push(found[0] ?? 0);
    rates.created.bare.push(found[1] ?? 0);
    rates.updated.own.push(found[2] ?? 0);
    rates.updated.bare.push(found[3] ?? 0);
  }
  await own.close();
  bare.close();
}

/** A turn of the loop for each change, as requests have: what the store does between changes counts too. */
async function rate(count: number, change: (i: number) => unknown): Promise<number> {
  const begin = performance.now();
  for (let i = 0; i < count; i++) {
    await change(i);
    await turn();
  }
  return (count / (performance.now() - begin)) * 1_000;
}

function at(changes: readonly BareChange[], i: number): BareChange {
  const change = changes[i];
  if (change === undefined) throw new Error('no such change');
  return change;
}

async function bundles(): Promise<void> {
  const own = openOwnStore(inner('own-bundles'));
  const bare = new BareStore(inner('bare-bundles'), BUNDLE_CACHE_KIB);
  await own.refdata.createDictionary(actor, dictionary, '');
  for (let round = -1; round < bundleRounds; round++) {
    const numbers = Array.from({ length: bundle }, (_, i) => (round + 1) * bundle + i);
    const body = Buffer.from(numbers.map((n) => bundled(keyOf(n), n)).join(''));
    const changes = numbers.map((n) => bareChange(n));
    const ownBegin = performance.now();
    const result = await own.refdata.importBundle(actor, 'ndjson', '', chunks(body));
    const ownMs = performance.now() - ownBegin;
    if (result.created !== bundle) throw new Error(`created ${result.created} of ${bundle}`);
    const bareBegin = performance.now();
    bare.create(changes);
    const bareMs = performance.now() - bareBegin;
    if (round < 0) continue;
    rates.bundled.own.push((bundle / ownMs) * 1_000);
    rates.bundled.bare.push((bundle / bareMs) * 1_000);
  }
  await own.close();
  bare.close();
}

async function* chunks(body: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let from = 0; from < body.length; from += CHUNK_BYTES) {
    yield body.subarray(from, from + CHUNK_BYTES);
    await turn();
  }
}
