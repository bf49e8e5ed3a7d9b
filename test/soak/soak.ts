/**
 * Long campaigns against the compiled daemon: `npm run soak -- CAMPAIGN [N]`. Run scripts/build first. A failure prints
 * the SEED that replays it.
 *   kill [ROUNDS]    kill -9 at random moments under traffic (200)
 *   steady [MINUTES] traffic for hours, memory, descriptors and every entry watched (60)
 *   faults [TIMES]   the fault tests, over and over (5)
 *   fuzz [COUNT]     malformed requests (20,000)
 *   session [COUNT]  random messages in Sessions, and a million bytes of random telnet to lineside rfc2217 (1,000,000)
 *   outbox [ROUNDS]  kill -9 of the hub and of a real broker at random moments under load, while two Python programs keep copies (200)
 *   phone [MINUTES]  the console in a browser whose connection is lost every 20 s, reset or silent (10)
 *   clients [COUNT]  Kafka clients made and ended while they log (20,000)
 *   fleet [BOXES] [--tls] so many boxes lose one broker in the same moment (1,000); wants a quiet machine
 *   webhooks [ROUNDS] kill -9 of the hub at random moments under load, with a subscriber that fails in every way (100)
 *   migration [MIB]  a refdata.db of version 4 of that size, moved by a process that is killed 20 times (2,048)
 *   card [STATES]    the image on emulated hardware: the power cut after each flush of its card (2,000; wants scripts/bootstrap --image)
 *   boards [PULLS]   the image on an emulated Raspberry Pi 3B and 4B; so often the plug of the 3B is pulled (10; wants scripts/bootstrap --image)
 *   updates [DAEMONS] `lineside fleet run` over so many containers and three emulated boxes, which take an update (20; wants scripts/bootstrap --image)
 *   all              one after the other, each with its usual length
 */
import { spawn } from 'node:child_process';
import { globSync } from 'node:fs';
import { test } from 'node:test';
import { NODE, ROOT, temporaryDirectory } from '../e2e/daemon.ts';
import { cardStates } from './card.ts';
import { killRounds } from './kill.ts';
import { chosenSeed } from './random.ts';
import { steadyTraffic } from './steady.ts';
import { webhookRounds } from './webhooks.ts';

interface Campaign {
  readonly usual: number;
  readonly run: (count: number) => Promise<void>;
}

/** Of rounds, states, boxes: a campaign whose failure the SEED replays. */
function seeded(what: string, usual: number, run: (count: number, seed: number) => Promise<unknown>): Campaign {
  return {
    usual,
    async run(count) {
      const seed = chosenSeed();
      say(`${what}: ${count}, SEED=${seed}`);
      say(JSON.stringify(await run(count, seed)));
    },
  };
}

const campaigns: Readonly<Record<string, Campaign>> = {
  kill: seeded('kill, rounds', 200, (rounds, seed) => killRounds(temporaryDirectory(), rounds, seed, say)),
  steady: { usual: 60, run: (minutes) => steadyTraffic(temporaryDirectory(), minutes, chosenSeed(), say) },
  faults: {
    usual: 5,
    async run(times) {
      for (let i = 1; i <= times; i++) {
        say(`faults: ${i} of ${times}`);
        await runTests('test/e2e/faults-*.test.ts', {});
      }
    },
  },
  outbox: seeded('outbox, rounds', 200, async (rounds, seed) => {
    // The broker is looked for only where it is wanted: that takes a second.
    const { killable, startBroker } = await import('../kafka/broker.ts');
    const { outboxRounds } = await import('./outbox.ts');
    return outboxRounds(temporaryDirectory(), await startBroker(killable), rounds, seed, say);
  }),
  clients: {
    usual: 20_000,
    async run(count) {
      const { clientRounds } = await import('../kafka/client-rounds.ts');
      // Some ten milliseconds each, on a machine that does ten other things.
      say(`clients: ${JSON.stringify(await clientRounds(count, 60_000 + count * 100))}`);
    },
  },
  fleet: {
    usual: 1_000,
    async run(boxes) {
      const { fleetRun, fleetTable } = await import('./fleet.ts');
      const tls = process.argv.includes('--tls');
      const seed = chosenSeed();
      say(`fleet: ${boxes} boxes${tls ? ' by SCRAM over TLS' : ''}, SEED=${seed}`);
      const setting = { boxes, boxesPerCrew: 50, tls, seed, awayMs: 60_000, everyMs: 10_000, quietMs: 35_000 };
      process.stdout.write(`${fleetTable(await fleetRun(temporaryDirectory(), setting, say))}\n`);
    },
  },
  webhooks: seeded('webhooks, rounds', 100, (rounds, seed) => webhookRounds(temporaryDirectory(), rounds, seed, say)),
  migration: seeded('migration, MiB', 2_048, async (mib, seed) => {
    const { migrationRun } = await import('./migration.ts');
    return migrationRun(temporaryDirectory(), mib, 20, seed, say);
  }),
  card: seeded('card, states', 2_000, (states, seed) => cardStates(temporaryDirectory(), states, seed, say)),
  boards: {
    usual: 10,
    async run(pulls) {
      const { boardRuns } = await import('./boards.ts');
      const seed = chosenSeed();
      say(`boards: plug pulled ${pulls} times, SEED=${seed}`);
      await boardRuns(temporaryDirectory(), pulls, seed, say);
    },
  },
  updates: {
    usual: 20,
    async run(daemons) {
      const { fleetUpdate } = await import('./fleet-update.ts');
      await fleetUpdate(temporaryDirectory(), daemons, say);
    },
  },
  // The generators of the end-to-end tests, with more to do.
  phone: { usual: 10, run: (minutes) => runTests('test/console/phone.test.ts', { SOAK: String(minutes) }) },
  session: { usual: 1_000_000, run: (count) => runTests('test/e2e/session-fuzz.test.ts', { SOAK: String(count) }) },
  fuzz: { usual: 20_000, run: (count) => runTests('test/e2e/*bad-input*.test.ts', { SOAK: String(count) }) },
};

function runTests(pattern: string, env: Readonly<Record<string, string>>): Promise<void> {
  const files = globSync(pattern, { cwd: ROOT });
  if (files.length === 0) throw new Error(`no test file ${pattern}`);
  const args = ['--import', 'tsx', '--test', '--test-concurrency=1', ...files];
  // A test runner inside a test runner reports in a form of its own unless it does not know.
  const { NODE_TEST_CONTEXT: _, ...own } = process.env;
  const child = spawn(NODE, args, { cwd: ROOT, stdio: 'inherit', env: { ...own, ...env } });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (status) => (status === 0 ? resolve() : reject(new Error(`${pattern} failed`))));
  });
}

function say(line: string): void {
  process.stdout.write(`${new Date().toISOString().slice(11, 19)} ${line}\n`);
}

const [name = '', count] = process.argv.slice(2);
const chosen = name === 'all' ? Object.keys(campaigns) : [name];
for (const one of chosen) {
  const campaign = campaigns[one];
  if (campaign === undefined) {
    process.stderr.write(`usage: npm run soak -- ${Object.keys(campaigns).join('|')}|all [N]\n`);
    process.exit(2);
  }
  const amount = count === undefined ? campaign.usual : Number(count);
  test(`${one} ${amount}`, { timeout: Number.POSITIVE_INFINITY }, () => campaign.run(amount));
}
