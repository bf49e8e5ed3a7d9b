/**
 * kill -9 on the whole daemon at random moments under traffic both ways, restarted on the same data each time: no LogRaw
 * that was answered OK is ever missing, nothing is torn, order is kept, no id is used twice, the port is open again.
 */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { lineside } from '../../src/shared/proto/services.ts';
import { type Daemon, environment, MAIN, NODE, startDaemon, startProcess } from '../e2e/daemon.ts';
import { endExclusiveUse, everythingAfter, logStatus, startBox } from '../e2e/faults.ts';
import { seeded } from './random.ts';
import { allTraffic, newTraffic, type Traffic } from './traffic.ts';

const { PORT_STATE_OPEN } = lineside.v1.PortState;
const callers = { logRaw: { count: 3 }, send: { count: 2 } };
/** Longest life under traffic: several commits of the timer, and many that callers wait for. */
const LIFE_MS = 700;
/** Every so many rounds one more kill comes during the start, which takes about this long. */
const START_KILL_EVERY = 5;
const START_MS = 500;
const COMMIT_MS = 100;

export async function killRounds(dir: string, rounds: number, seed: number, say: (line: string) => void) {
  const random = seeded(seed);
  const config = {
    serial: { at_start: 'resume' },
    log: { commit_ms: COMMIT_MS },
    grpc: { listen: ['unix:grpc.sock'] },
  };
  const { daemon: first, pty } = await startBox(config, dir, false);
  // What arrives there is not kept.
  pty.onData(() => {});
  const campaign = newTraffic(pty, random);
  let daemon = first;
  let killsAtStart = 0;
  for (let round = 1; round <= rounds; round++) {
    await oneLife(daemon, campaign);
    if (round % START_KILL_EVERY === 0) {
      await killAtStart('line', daemon.configFile, random.between(0, START_MS));
      endExclusiveUse(campaign.pty.slavePath);
      killsAtStart += 1;
    }
    daemon = await startDaemon({ dir });
    await isBack(daemon, campaign);
    await campaign.ledger.readOn(daemon.client);
    const lives = round + killsAtStart;
    assert.ok(campaign.ledger.jumps <= lives, `${campaign.ledger.jumps} jumps of the ids in ${lives} lives`);
    if (round % 20 === 0) say(`round ${round} of ${rounds}: ${JSON.stringify(campaign.ledger.figures)}`);
  }
  const whole = await everythingAfter(daemon.client, 0);
  campaign.ledger.again(whole.map(({ id }) => Number(id)));
  assert.equal(await daemon.stop(), 0);
  campaign.pty.close();
  return { rounds, killsAtStart, figures: campaign.ledger.figures };
}

/** Traffic from all sides until the kill. */
async function oneLife(daemon: Daemon, campaign: Traffic): Promise<void> {
  const { client } = daemon;
  const over = new AbortController();
  const work = allTraffic(client, campaign, over.signal, callers);
  await sleep(campaign.random.between(20, LIFE_MS));
  await daemon.kill();
  endExclusiveUse(campaign.pty.slavePath);
  over.abort();
  await work;
}

/** One more start, that gets so far in this time. */
export async function killAtStart(role: 'line' | 'hub', configFile: string, afterMs: number): Promise<void> {
  const child = startProcess(NODE, [MAIN, 'serve', '--role', role, '--config', configFile], environment());
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  child.stderr?.resume();
  await sleep(afterMs);
  child.kill('SIGKILL');
  await ended;
}

/** The invariants after every restart, whatever the kill interrupted. */
async function isBack({ client, logLines }: Daemon, { pty }: Traffic): Promise<void> {
  await until(`the port is open again:\n${logLines.join('\n')}`, async () => {
    return (await client.line.getStatus({})).portState === PORT_STATE_OPEN;
  });
  const config = await client.serial.getCurrentConfig({});
  assert.equal(config.portName, pty.portName);
  const log = await logStatus(client);
  assert.equal(log.setAside, '', 'the log was taken for damaged');
  assert.equal(Number(log.lostEntries), 0);
  assert.equal(log.error, '');
}
