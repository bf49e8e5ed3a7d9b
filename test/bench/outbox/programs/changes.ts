/**
 * Changes one by one and in bundles, by the hub's rules and by better-sqlite3 alone, in turns.
 * changes.ts DIR ROUNDS SINGLES BUNDLES BUNDLE: prints changes a second of each round as JSON.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { inTurns, rate } from '../../table.ts';
import { bundled, DICTIONARY, dataOf, dictionary, keyOf } from '../samples.ts';
import { BareStore, bareChange } from './bare-store.ts';
import { actor, type OwnStore, openOwnStore } from './own-store.ts';

export type Rates = Readonly<Record<'created' | 'updated' | 'bundled', { own: number[]; bare: number[] }>>;

const [dir = '', ...numbers] = process.argv.slice(2);
const [rounds = 0, singles = 0, bundleRounds = 0, bundle = 0] = numbers.map(Number);
/** As a socket gives it. */
const CHUNK_BYTES = 65_536;
/** As the hub's connection and the import worker's. */
const SINGLES_CACHE_KIB = 4_096;
const BUNDLE_CACHE_KIB = 16_384;

const rates: Rates = { ...(await oneByOne()), bundled: await bundles() };
console.log(JSON.stringify(rates));
process.exit(0);

/** Both, each on a file of its own; `own` with the dictionary. */
async function stores(name: string, cacheKib: number): Promise<{ own: OwnStore; bare: BareStore }> {
  const [ownDir = '', bareDir = ''] = ['own', 'bare'].map((who) => join(dir, `${who}-${name}`));
  for (const path of [ownDir, bareDir]) mkdirSync(path);
  const own = openOwnStore(ownDir);
  await own.refdata.createDictionary(actor, dictionary, '');
  return { own, bare: new BareStore(bareDir, cacheKib) };
}

/** Of a round, no number twice. */
function numbersOf(round: number, count: number): number[] {
  return Array.from({ length: count }, (_, i) => (round + 1) * count + i);
}

async function oneByOne(): Promise<Pick<Rates, 'created' | 'updated'>> {
  const { own, bare } = await stores('singles', SINGLES_CACHE_KIB);
  const ids: number[] = [];
  const [ownCreated, bareCreated, ownUpdated, bareUpdated] = [
    singly(
      (n) => [keyOf(n), { data: dataOf(n) }] as const,
      ([key, record]) => own.refdata.createRecord(actor, DICTIONARY, key, record),
    ),
    singly(
      (n) => bareChange(n),
      (change) => ids.push(...bare.create([change])),
    ),
    singly(
      (n) => [keyOf(n), { data: dataOf(n, 2) }] as const,
      ([key, record]) => own.refdata.updateRecord(actor, DICTIONARY, key, record, 1),
    ),
    singly(
      (n) => bareChange(n, 2),
      (change) => bare.update(ids.shift() ?? 0, change),
    ),
  ];
  const found = await inTurns({ rounds, warmUp: true }, { ownCreated, bareCreated, ownUpdated, bareUpdated });
  await own.close();
  bare.close();
  return {
    created: { own: found.ownCreated, bare: found.bareCreated },
    updated: { own: found.ownUpdated, bare: found.bareUpdated },
  };
}

/**
 * Changes a second of a round, with what each needs made beforehand. A turn of the loop for each, as requests have: what the
 * store does between changes counts too.
 */
function singly<T>(made: (n: number) => T, change: (made: T) => unknown): (round: number) => Promise<number> {
  return (round) => {
    const all = numbersOf(round, singles).map(made);
    return rate(singles, 1, async (i) => {
      await change(all[i] as T);
      await turn();
    });
  };
}

async function bundles(): Promise<Rates['bundled']> {
  const { own, bare } = await stores('bundles', BUNDLE_CACHE_KIB);
  const found = await inTurns(
    { rounds: bundleRounds, warmUp: true },
    {
      async own(round) {
        const body = Buffer.from(
          numbersOf(round, bundle)
            .map((n) => bundled(keyOf(n), n))
            .join(''),
        );
        return bundlesIn(async () => {
          const { created } = await own.refdata.importBundle(actor, 'ndjson', '', chunks(body));
          if (created !== bundle) throw new Error(`created ${created} of ${bundle}`);
        });
      },
      async bare(round) {
        const changes = numbersOf(round, bundle).map((n) => bareChange(n));
        return bundlesIn(() => bare.create(changes));
      },
    },
  );
  await own.close();
  bare.close();
  return found;
}

async function bundlesIn(work: () => unknown): Promise<number> {
  return (await rate(1, 1, work)) * bundle;
}

async function* chunks(body: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let from = 0; from < body.length; from += CHUNK_BYTES) {
    yield body.subarray(from, from + CHUNK_BYTES);
    await turn();
  }
}
