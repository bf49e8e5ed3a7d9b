/**
 * Changes a second on two files in turns, one with rows that wait and one without, no broker within reach.
 * backlog.ts BOOTSTRAP EMPTY_DIR FULL_DIR ROUNDS CHANGES: prints the rates of each round as JSON.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { rate } from '../../table.ts';
import { DICTIONARY, dataOf, dictionary, keyOf } from '../samples.ts';
import { ownPublisher } from './own-publisher.ts';
import { actor, type OwnStore, openOwnStore } from './own-store.ts';

export interface BacklogRates {
  readonly empty: number[];
  readonly full: number[];
}

const [bootstrap = '', emptyDir = '', fullDir = '', ...numbers] = process.argv.slice(2);
const [rounds = 0, changes = 0] = numbers.map(Number);

const contenders = { empty: await opened(emptyDir), full: await opened(fullDir) } as const;
const rates: BacklogRates = { empty: [], full: [] };
// The round before the first warms up.
for (let round = -1; round < rounds; round++) {
  // Each goes first in turn: what one leaves to the disk falls on the other.
  const order = round % 2 === 0 ? (['empty', 'full'] as const) : (['full', 'empty'] as const);
  for (const which of order) {
    const found = await rateOf(contenders[which], round);
    if (round >= 0) rates[which].push(found);
  }
}
console.log(JSON.stringify(rates));
process.exit(0);

async function opened(dir: string): Promise<OwnStore> {
  const own = openOwnStore(dir);
  ownPublisher(own.store, bootstrap, 'bench').publisher.start();
  await own.refdata.createDictionary(actor, dictionary, '');
  return own;
}

function rateOf({ refdata }: OwnStore, round: number): Promise<number> {
  const from = (round + 1) * changes;
  return rate(changes, 1, async (n) => {
    await refdata.createRecord(actor, DICTIONARY, `new-${keyOf(from + n)}`, { data: dataOf(from + n) });
    await turn();
  });
}
