/**
 * A fleet against one real broker: some hundred boxes, or a thousand, each the product's own change store, publisher and
 * Kafka client. All of them lose the broker at the same moment, twice: their connections are cut while it runs, then it is
 * killed and down for a minute. The report says how they come back, and whether each change arrives.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { processSeconds } from '../bench/processes.ts';
import { type Gate, monotonicMs, openGate } from '../gate.ts';
import { startBroker, type TestBroker, users } from '../kafka/broker.ts';
import { consumed, optionsFor, topicSpec } from '../kafka/offering.ts';
import { Crews, type Totals } from './fleet-crews.ts';

export interface FleetSetting {
  readonly boxes: number;
  readonly boxesPerCrew: number;
  /** SCRAM over TLS instead of plain connections. */
  readonly tls: boolean;
  readonly seed: number;
  /** How long the killed broker is down. */
  readonly awayMs: number;
  /** A box writes a change once in this time, on average. */
  readonly everyMs: number;
  /** Between two steps, with all of them connected: the backoffs of the step before are forgotten. */
  readonly quietMs: number;
}

type Return = Awaited<ReturnType<typeof cutOff>>;
type FleetReport = Awaited<ReturnType<typeof fleetRun>>;

/** Connected within this, or something is wrong; at least the longest wait of all, and a machine that is busy. */
const BACK_LIMIT_MS = 180_000;
/** Time for a thousand boxes to begin on two cores. */
const BEGIN_LIMIT_MS = 600_000;
const BACK_SHARES = [0.5, 0.99, 1];

const topic = topicSpec('public', { partitions: 6 });

export async function fleetRun(dir: string, setting: FleetSetting, say: (line: string) => void) {
  let target = 0;
  const gate = await openGate(() => target);
  const crews = new Crews(dir);
  try {
    const broker = await startBroker((ports) => {
      target = setting.tls ? ports.sasl : ports.expired;
      return behindGate(setting.tls, ports.plain, gate.port);
    });
    return await throughTwoLosses({ setting, broker, gate, crews, say });
  } finally {
    crews.kill();
    gate.close();
  }
}

/** The boxes' listener is known by the gate's address; the tests' own stays beside it. */
function behindGate(tls: boolean, plain: number, gate: number): Record<string, string> {
  const kind = tls ? 'SASL_SSL' : 'PLAINTEXT';
  return {
    'advertised.listeners': `PLAIN://127.0.0.1:${plain},${tls ? 'SASL' : 'EXPIRED'}://127.0.0.1:${gate}`,
    // A broker that was killed is let in again at once.
    'broker.session.timeout.ms': '1000',
    'broker.heartbeat.interval.ms': '200',
    'listener.security.protocol.map': `PLAIN:PLAINTEXT,SASL:SASL_SSL,EXPIRED:${kind},CONTROLLER:PLAINTEXT`,
  };
}

interface Parts {
  readonly setting: FleetSetting;
  readonly broker: TestBroker;
  readonly gate: Gate;
  readonly crews: Crews;
  readonly say: (line: string) => void;
}

async function throughTwoLosses(parts: Parts) {
  const { broker, gate, crews } = parts;
  const { boxes, everyMs, awayMs, quietMs } = parts.setting;
  const begun = await cutOff('begun', 0, () => begin(parts), parts);
  crews.write(everyMs);
  const idle = await idleCpu(parts);
  const cut = await cutOff('cut', idle.broker, async () => gate.cutAll(), parts);
  await quiet(crews, quietMs);
  const outage = async (): Promise<void> => {
    await broker.kill();
    await sleep(awayMs);
    await broker.restart();
  };
  const killed = await cutOff('killed', idle.broker, outage, parts);
  await quiet(crews, quietMs);
  /** With every box connected and writing: connections that stand. */
  const connections = gate.open();
  crews.write(0);
  // Twice a tally: the last change may be younger than the one before.
  await sleep(2_500);
  await crews.until('nothing waits', () => crews.totals().waiting === 0, BACK_LIMIT_MS);
  const { unreached, replaced, rssBytes } = crews.totals();
  const written = await crews.end(BACK_LIMIT_MS);
  const read = await readFleet(broker.plain, written);
  const sum = [...written.values()].reduce((all, count) => all + count, 0);
  const standing = { connections, rssBytes, idleCpu: idle, unreached, replaced };
  return { boxes, crews: crews.size, begun, cut, killed, written: sum, ...standing, ...read };
}

async function begin({ crews, setting, broker, gate }: Parts): Promise<void> {
  const { boxes, boxesPerCrew, seed, tls } = setting;
  const access = {
    securityProtocol: 'sasl_ssl',
    username: users.device.name,
    password: users.device.password,
    caFile: broker.caFile,
  } as const;
  const kafka = optionsFor(`127.0.0.1:${gate.port}`, { topics: [topic], ...(tls && access) });
  for (let first = 1; first <= boxes; first += boxesPerCrew) {
    const count = Math.min(boxesPerCrew, boxes + 1 - first);
    crews.start({ first, count, seed: seed + first, kafka });
    const before = first - 1;
    // One crew after the other: each loads its modules for a second, and its boxes find their topics.
    const isIn = ({ started, connected }: Totals): boolean => started > before && connected >= 0.9 * before;
    await crews.until('a crew begins', () => isIn(crews.totals()), BEGIN_LIMIT_MS);
  }
}

/**
 * Cuts the fleet off by `step`, which ends when there is a broker; measures until all of it is back. Times in ms since it was
 * disconnected; attempts are connections that reached the broker's address.
 */
async function cutOff(what: string, brokerIdle: number, step: () => Promise<void>, parts: Parts) {
  const { broker, gate, crews, say, setting } = parts;
  const [sinceMs, firstTry] = [monotonicMs(), gate.accepted.length];
  let looked = crews.turns.length;
  await step();
  const [thereMs, cpuMs] = [monotonicMs(), cpuMsOf(broker)];
  const back = new Map<string, number>();
  const isBack = (): boolean => {
    // The last one of each box: some connect, and are lost once more.
    for (const { box, connected, atMs } of crews.turns.slice(looked)) {
      if (connected) back.set(box, Math.max(0, atMs - thereMs));
      else back.delete(box);
    }
    looked = crews.turns.length;
    return back.size === setting.boxes && crews.totals().connected === setting.boxes;
  };
  await crews.until(`${what}: all are connected`, isBack, BEGIN_LIMIT_MS);
  const tries = gate.accepted.slice(firstTry).map((at) => at - sinceMs);
  const report = {
    attempts: tries.length,
    busiestSecond: busiestSecond(tries),
    /** Of those after there was a broker again. */
    busiestBack: busiestSecond(tries.filter((at) => at >= thereMs - sinceMs)),
    /** librdkafka's first wait. */
    firstHalfSecond: tries.filter((at) => at < 500).length,
    /** Of each box, ascending: when it was connected again, counted from when there was a broker again. */
    backMs: [...back.values()].sort((a, b) => a - b),
    /** The broker's processor time since, less what it takes when nothing happens. */
    brokerCpuMs: cpuMsOf(broker) - cpuMs - (brokerIdle / 1_000) * (monotonicMs() - thereMs),
  };
  const { backMs: _, ...others } = report;
  const [half, nearlyAll, all] = BACK_SHARES.map((share) => Math.round(backAfter(report, share)));
  say(`${what}: ${JSON.stringify({ ...others, half, nearlyAll, all })}`);
  say(`${what}: tried in each second: ${eachSecond(tries).join(' ')}`);
  return report;
}

async function quiet(crews: Crews, ms: number): Promise<void> {
  const end = monotonicMs() + ms;
  await crews.until('a quiet while', () => monotonicMs() >= end, ms + BACK_LIMIT_MS);
}

/** Milliseconds of processor time in a second, of all boxes and of the broker. */
async function idleCpu({ broker, crews, setting }: Parts) {
  const now = () => ({ atMs: monotonicMs(), boxes: crews.totals().cpuMs, broker: cpuMsOf(broker) });
  await quiet(crews, setting.quietMs);
  const before = now();
  await quiet(crews, setting.quietMs);
  const after = now();
  const seconds = (after.atMs - before.atMs) / 1_000;
  return { boxes: (after.boxes - before.boxes) / seconds, broker: (after.broker - before.broker) / seconds };
}

const cpuMsOf = (broker: TestBroker): number => processSeconds(broker.pid()) * 1_000;

/** What the fleet's topic has, read by kcat, against what the boxes have written. */
async function readFleet(bootstrap: string, written: ReadonlyMap<string, number>) {
  const messages = await consumed(bootstrap, topic.name);
  const seen = new Map<string, Set<number>>();
  /** `late`: a box's version that first came after a later one of it. */
  let [duplicates, late] = [0, 0];
  const highest = new Map<string, number>();
  for (const { key, value } of messages) {
    const box = key.slice(key.indexOf(':') + 1);
    const version = versionOf(value);
    const versions = seen.get(box) ?? new Set<number>();
    seen.set(box, versions);
    if (versions.has(version)) duplicates++;
    else if (version < (highest.get(box) ?? 0)) late++;
    versions.add(version);
    highest.set(box, Math.max(version, highest.get(box) ?? 0));
  }
  let missing = 0;
  for (const [box, count] of written) {
    for (let version = 1; version <= count; version++) if (!seen.get(box)?.has(version)) missing++;
  }
  return { messages: messages.length, missing, duplicates, late };
}

function versionOf(value: string): number {
  const event: unknown = JSON.parse(value);
  if (typeof event === 'object' && event !== null && 'version' in event) return Number(event.version);
  throw new Error(`not an event: ${value}`);
}

/** As `npm run soak -- fleet` prints it. */
export function fleetTable(report: FleetReport): string {
  const { boxes, begun, cut, killed } = report;
  const share = (tries: number): string => `${tries} (${((100 * tries) / boxes).toFixed(0)} %)`;
  const steps = [
    ['they begin, one crew after the other', begun],
    ['all connections cut at once', cut],
    ['the broker killed, and back later', killed],
  ] as const;
  const rows = steps.map(([what, one]) =>
    [
      what,
      one.attempts,
      (one.attempts / boxes).toFixed(1),
      one.firstHalfSecond,
      share(one.busiestSecond),
      share(one.busiestBack),
      BACK_SHARES.map((share) => (backAfter(one, share) / 1_000).toFixed(1)).join(' / '),
      (one.brokerCpuMs / one.attempts).toFixed(1),
    ].join(' | '),
  );
  const { written, messages, missing, duplicates, late, connections, rssBytes, idleCpu, unreached, replaced } = report;
  const mb = (bytes: number): string => (bytes / 1e6).toFixed(1);
  return [
    `| ${boxes} boxes lose their broker | connections tried | for each box | in the first half second | busiest second | the same with a broker there | s until half / 99 % / all are back | broker's CPU, ms a connection |`,
    '|---|---|---|---|---|---|---|---|',
    ...rows.map((row) => `| ${row} |`),
    '',
    `- ${written} changes written, ${messages} read by kcat: ${missing} missing, ${duplicates} twice, ${late} out of order`,
    `- ${connections} connections stand; ${report.crews} processes, ${mb(rssBytes)} MB, ${mb(rssBytes / boxes)} MB a box`,
    `- while nothing happens: boxes ${(idleCpu.boxes / 10).toFixed(0)} % of a core together, the broker ${(idleCpu.broker / 10).toFixed(0)} %`,
    `- ${unreached} messages given back unreached and sent again, ${replaced} producers replaced`,
  ].join('\n');
}

function eachSecond(tries: readonly number[]): number[] {
  const seconds: number[] = Array.from({ length: Math.floor((tries.at(-1) ?? 0) / 1_000) + 1 }, () => 0);
  for (const at of tries) seconds[Math.floor(at / 1_000)] = (seconds[Math.floor(at / 1_000)] ?? 0) + 1;
  return seconds;
}

/** The most that came within any second. */
function busiestSecond(tries: readonly number[]): number {
  let [most, first] = [0, 0];
  for (let last = 0; last < tries.length; last++) {
    while ((tries[last] ?? 0) - (tries[first] ?? 0) >= 1_000) first++;
    most = Math.max(most, last - first + 1);
  }
  return most;
}

/** Until this share of the boxes was connected again. */
function backAfter({ backMs }: Return, share: number): number {
  return backMs[Math.ceil(backMs.length * share) - 1] ?? 0;
}
