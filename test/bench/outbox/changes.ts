/** Changes committed: one transaction each and in bundles, against SQLite alone; and over HTTP. */
import { temporaryDirectory } from '../../e2e/daemon.ts';
import { atLeast, type Context, type Line, median, type Row, rate, rounded, shown, times } from '../table.ts';
import { measured } from './child.ts';
import { startHub } from './hub.ts';
import type { Rates } from './programs/changes.ts';
import { dataOf, keyOf } from './samples.ts';

const AIM = 0.5;
const AIM_BUNDLE = 0.6;
/** Group commit: clients share transactions. */
const AIM_TOGETHER = 0.45;
const CLIENTS = 8;

export const changes: Row = {
  name: 'changes',
  whyMissed:
    "In a profile of the bundle, SQLite's work on the rows, which is all that the peer does, has 41 % of the time; " +
    'reading the JSON exactly has 15 %, the commit with its checkpoint 14 %, garbage 6 %, the check of the schema 5 %; ' +
    'the rest makes the rows and checks keys, versions and limits.',
  async run(context) {
    // Many short turns: what an fsync takes changes from second to second.
    const [rounds, singles] = context.quick ? [5, 40] : [50, 60];
    const [bundles, bundle] = context.quick ? [1, 10_000] : [7, 50_000];
    const rates = await measured<Rates>('changes', [temporaryDirectory(), rounds, singles, bundles, bundle]);
    const inProcess = [
      line('records created', 'one transaction each, FULL', rates.created, AIM, context),
      line('records updated', 'one transaction each, FULL', rates.updated, AIM, context),
      line(
        `records of a bundle of ${bundle.toLocaleString('en')}`,
        'one transaction',
        rates.bundled,
        AIM_BUNDLE,
        context,
      ),
    ];
    return [...inProcess, ...(await overHttp(context, bundle, rates))];
  },
};

function line(what: string, how: string, { own, bare }: Rates['created'], aim: number, { say }: Context): Line {
  say(`${what}: lineside ${rounded(own)}, better-sqlite3 ${rounded(bare)}`);
  return {
    row: `${what} per second, ${how}`,
    lineside: perSecond(median(own)),
    against: `better-sqlite3 alone, the same rows: ${perSecond(median(bare))}`,
    ...atLeast(median(own) / median(bare), aim),
  };
}

const perSecond = (rate: number): string => `${Math.round(rate).toLocaleString('en')}/s`;

/** The whole daemon, over its Unix socket. */
async function overHttp({ quick }: Context, bundle: number, rates: Rates): Promise<readonly Line[]> {
  const hub = await startHub();
  await hub.createDictionary();
  const count = quick ? 200 : 1_500;
  const one = await rate(count, 1, (n) => hub.create(keyOf(n), dataOf(n)));
  const many = await rate(count * 2, CLIENTS, (n) => hub.create(`many-${n}`, dataOf(n)));
  const bundled: number[] = [];
  for (const prefix of ['bundle-0', 'bundle-1', 'bundle-2']) {
    const work = hub.importer(bundle, prefix);
    bundled.push((await rate(1, 1, work)) * bundle);
  }
  await hub.stop();
  const beside = (what: string, found: number, { bare }: Rates['created'], aim?: number): Line => ({
    row: `${what} per second over HTTP, the whole hub`,
    lineside: perSecond(found),
    against: `better-sqlite3 alone in its own process: ${perSecond(median(bare))}`,
    ...(aim === undefined ? shown(times(found / median(bare))) : atLeast(found / median(bare), aim)),
  });
  return [
    beside('records created by one client', one, rates.created),
    beside(`records created by ${CLIENTS} clients`, many, rates.created, AIM_TOGETHER),
    // Of three, since the first one reads the program's code for it.
    beside(`records of a bundle of ${bundle.toLocaleString('en')}`, median(bundled), rates.bundled),
  ];
}
