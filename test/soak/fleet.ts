/**
 * A fleet against one real broker: some hundred boxes, or a thousand, each the product's own change store, publisher and
 * Kafka client. All of them lose the broker at the same moment, twice: their connections are cut while it runs, then it is
 * killed and away for a minute. What counts is how they come back, and that each change arrives.
 */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { KafkaOptions } from '../../src/hub/kafka/face.ts';
import { startBroker, type TestBroker, users } from '../kafka/broker.ts';
import { consumed, optionsFor, topicSpec } from '../kafka/offering.ts';
import { Crews, type Totals } from './fleet-crews.ts';
import { type Gate, monotonicMs, openGate } from './fleet-gate.ts';

export interface FleetSetting {
  readonly boxes: number;
  readonly boxesPerCrew: number;
  /** SCRAM over TLS instead of plain connections. */
  readonly tls: boolean;
  readonly seed: number;
  /** How long the killed broker is away. */
  readonly awayMs: number;
  /** A box writes a change once in this time, on average. */
  readonly everyMs: number;
  /** Between two steps, with all of them connected: the backoffs of the step before are forgotten. */
  readonly quietMs: number;
}

/** How the fleet came back. Times in ms since it was cut off; attempts are connections that came to the broker's address. */
export interface Return {
  readonly attempts: number;
  readonly busiestSecond: number;
  /** Of those after there was a broker again. */
  readonly busiestBack: number;
  /** In the first half second, librdkafka's first wait. */
  readonly firstHalfSecond: number;
  /** Of each box, ascending: when it was connected again, counted from when there was a broker again. */
  readonly backMs: readonly number[];
  /** The broker's processor time since, less what it takes when nothing happens. */
  readonly brokerCpuMs: number;
}

/** What the fleet's topic has, read by kcat, against what the boxes have written. */
interface FleetRead {
  readonly messages: number;
  readonly missing: number;
  readonly duplicates: number;
  /** A box's version that first came after a later one of it. */
  readonly late: number;
}

export interface FleetReport extends FleetRead {
  readonly boxes: number;
  readonly crews: number;
  readonly begun: Return;
  readonly cut: Return;
  readonly killed: Return;
  readonly written: number;
  /** With every box connected and writing: connections that stand. */
  readonly connections: number;
  readonly rssBytes: number;
  /** Milliseconds of processor time in a second, of all boxes and of the broker. */
  readonly idleCpu: { readonly boxes: number; readonly broker: number };
  readonly unreached: number;
  readonly replaced: number;
}

/** Connected within this, or something is wrong; at least the longest wait of all, and a machine that is busy. */
const BACK_LIMIT_MS = 180_000;
/** Time for a thousand boxes to begin on two cores. */
const BEGIN_LIMIT_MS = 600_000;

export async function fleetRun(dir: string, setting: FleetSetting, say: (line: string) => void): Promise<FleetReport> {
  let target = 0;
  const gate = await openGate(() => target);
  const crews = new Crews(dir);
  try {
    const broker = await startBroker((ports) => {
      target = setting.tls ? ports.sasl : ports.expired;
      return behindGate(setting.tls, ports.plain, gate.port);
    });
    return await new Fleet({ setting, broker, gate, crews, say }).run();
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

class Fleet {
  readonly #parts: Parts;
  readonly #topic = topicSpec('public', { partitions: 6 });

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  async run(): Promise<FleetReport> {
    const { boxes, everyMs, awayMs, quietMs } = this.#parts.setting;
    const begun = await this.#back('begun', 0, () => this.#begin());
    this.#parts.crews.write(everyMs);
    const idle = await this.#idle();
    const cut = await this.#back('cut', idle.broker, async () => this.#parts.gate.cutAll());
    await this.#quiet(quietMs);
    const killed = await this.#back('killed', idle.broker, async () => {
      await this.#parts.broker.kill();
      await sleep(awayMs);
      await this.#parts.broker.restart();
    });
    await this.#quiet(quietMs);
    const connections = this.#parts.gate.open();
    this.#parts.crews.write(0);
    const calm = (totals: Totals): boolean => totals.waiting === 0;
    // Twice a tally: the last change may be younger than the one before.
    await sleep(2_500);
    await this.#parts.crews.until('nothing waits', () => calm(this.#parts.crews.totals()), BACK_LIMIT_MS);
    const { unreached, replaced, rssBytes } = this.#parts.crews.totals();
    const written = await this.#parts.crews.end(BACK_LIMIT_MS);
    const read = await readFleet(this.#parts.broker.plain, this.#topic.name, written);
    return {
      boxes,
      crews: this.#parts.crews.size,
      begun,
      cut,
      killed,
      written: [...written.values()].reduce((sum, count) => sum + count, 0),
      connections,
      rssBytes,
      idleCpu: idle,
      unreached,
      replaced,
      ...read,
    };
  }

  async #begin(): Promise<void> {
    const { boxes, boxesPerCrew, seed, tls } = this.#parts.setting;
    for (let first = 1; first <= boxes; first += boxesPerCrew) {
      const count = Math.min(boxesPerCrew, boxes + 1 - first);
      this.#parts.crews.start({ first, count, seed: seed + first, kafka: this.#kafka(tls) });
      const started = first - 1;
      // One crew after the other: each loads its modules for a second, and its boxes find their topics.
      const isIn = (totals: Totals): boolean => totals.started > started && totals.connected >= 0.9 * started;
      await this.#parts.crews.until('a crew begins', () => isIn(this.#parts.crews.totals()), BEGIN_LIMIT_MS);
    }
  }

  #kafka(tls: boolean): Omit<KafkaOptions, 'clientId'> {
    const access = {
      securityProtocol: 'sasl_ssl',
      username: users.device.name,
      password: users.device.password,
      caFile: this.#parts.broker.caFile,
    } as const;
    return optionsFor(`127.0.0.1:${this.#parts.gate.port}`, { topics: [this.#topic], ...(tls && access) });
  }

  /** Cuts the fleet off by `step`, which ends when there is a broker; measures until all of it is back. */
  async #back(what: string, brokerIdle: number, step: () => Promise<void>): Promise<Return> {
    const { boxes } = this.#parts.setting;
    const [sinceMs, firstTurn, firstTry] = [
      monotonicMs(),
      this.#parts.crews.turns.length,
      this.#parts.gate.accepted.length,
    ];
    await step();
    const [thereMs, cpuMs] = [monotonicMs(), this.#brokerCpuMs()];
    const back = new Map<string, number>();
    let looked = firstTurn;
    await this.#parts.crews.until(
      `${what}: all are connected`,
      () => {
        for (; looked < this.#parts.crews.turns.length; looked++) {
          const turn = this.#parts.crews.turns[looked];
          // The last one of each box: some connect, and are lost once more.
          if (turn?.connected === true) back.set(turn.box, Math.max(0, turn.atMs - thereMs));
          else if (turn !== undefined) back.delete(turn.box);
        }
        return back.size === boxes && this.#parts.crews.totals().connected === boxes;
      },
      BEGIN_LIMIT_MS,
    );
    const tries = this.#parts.gate.accepted.slice(firstTry).map((at) => at - sinceMs);
    const report: Return = {
      attempts: tries.length,
      busiestSecond: busiestSecond(tries),
      busiestBack: busiestSecond(tries.filter((at) => at >= thereMs - sinceMs)),
      firstHalfSecond: tries.filter((at) => at < 500).length,
      backMs: [...back.values()].sort((a, b) => a - b),
      brokerCpuMs: this.#brokerCpuMs() - cpuMs - (brokerIdle / 1_000) * (monotonicMs() - thereMs),
    };
    this.#parts.say(`${what}: ${lineOf(report)}`);
    this.#parts.say(`${what}: tried in each second: ${eachSecond(tries).join(' ')}`);
    return report;
  }

  async #quiet(ms: number): Promise<void> {
    const end = monotonicMs() + ms;
    await this.#parts.crews.until('a quiet while', () => monotonicMs() >= end, ms + BACK_LIMIT_MS);
  }

  async #idle(): Promise<FleetReport['idleCpu']> {
    await this.#quiet(this.#parts.setting.quietMs);
    const before = { atMs: monotonicMs(), boxes: this.#parts.crews.totals().cpuMs, broker: this.#brokerCpuMs() };
    await this.#quiet(this.#parts.setting.quietMs);
    const seconds = (monotonicMs() - before.atMs) / 1_000;
    return {
      boxes: (this.#parts.crews.totals().cpuMs - before.boxes) / seconds,
      broker: (this.#brokerCpuMs() - before.broker) / seconds,
    };
  }

  /** utime and stime of the broker's process, whose ticks are hundredths of a second. */
  #brokerCpuMs(): number {
    const fields = readFileSync(`/proc/${this.#parts.broker.pid()}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
    return (Number(fields[11]) + Number(fields[12])) * 10;
  }
}

async function readFleet(bootstrap: string, topic: string, written: ReadonlyMap<string, number>): Promise<FleetRead> {
  const messages = await consumed(bootstrap, topic);
  const seen = new Map<string, Set<number>>();
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
  const at = ({ backMs }: Return, share: number): string =>
    ((backMs[Math.ceil(backMs.length * share) - 1] ?? 0) / 1_000).toFixed(1);
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
      `${at(one, 0.5)} / ${at(one, 0.99)} / ${at(one, 1)}`,
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

function lineOf({ backMs, ...others }: Return): string {
  const at = (share: number): number => Math.round(backMs[Math.ceil(backMs.length * share) - 1] ?? 0);
  return JSON.stringify({ ...others, half: at(0.5), nearlyAll: at(0.99), all: at(1) });
}
