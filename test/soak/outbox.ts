/**
 * kill -9 on the hub, and on the broker, at random moments under load, restarted on the same data each time: what was
 * answered is there, what was refused is not, what was not heard of is there whole or not at all; and the topics say
 * exactly what the database says, each key in the order of its versions.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { environment, MAIN, NODE, startProcess } from '../e2e/daemon.ts';
import { type Hub, startHub } from '../e2e/hub.ts';
import type { HubApi } from '../e2e/hub-api.ts';
import { apiOf, drained, plainKafka, topicsOf } from '../e2e/hub-support.ts';
import { type ReadTopics, readTopics } from '../e2e/outbox-reader.ts';
import { type TestBroker, TOPIC_PREFIX } from '../kafka/broker.ts';
import { type OutboxFigures, OutboxLedger, storedVersions } from './outbox-ledger.ts';
import { bulkCloser, dictionaries, importer, type Load, recordWriter, schema } from './outbox-writers.ts';
import { seeded } from './random.ts';

const RECORD_WRITERS = 4;
/** Longest life under load: several acknowledgements of the broker, and some bundles, each of which starts a worker. */
const LIFE_MS = 1_500;
/** Every so many rounds one more kill comes during the start, which takes about this long. */
const START_KILL_EVERY = 5;
const START_MS = 500;
/** Every so many rounds the broker is killed during the load, and is back some time in the next round. */
const BROKER_KILL_EVERY = 6;
/** The topics are read whole each time, so not often. */
const READ_EVERY = 50;
const DRAIN_LIMIT_MS = 120_000;

export interface OutboxReport extends OutboxFigures {
  readonly rounds: number;
  readonly killsAtStart: number;
  readonly brokerKills: number;
  readonly messages: number;
  readonly duplicates: number;
}

export async function outboxRounds(
  dir: string,
  broker: TestBroker,
  rounds: number,
  seed: number,
  say: (line: string) => void,
): Promise<OutboxReport> {
  const campaign = new Campaign(dir, broker, seed);
  await campaign.begin();
  for (let round = 1; round <= rounds; round++) {
    await campaign.round(round);
    if (round % 20 === 0) say(`round ${round} of ${rounds}: ${JSON.stringify(campaign.ledger.figures)}`);
    if (round % READ_EVERY === 0 && round < rounds) say(`read: ${JSON.stringify(await campaign.compare())}`);
  }
  const read = await campaign.compare();
  await campaign.end();
  const { killsAtStart, brokerKills, ledger } = campaign;
  return { rounds, killsAtStart, brokerKills, ...ledger.figures, ...read };
}

class Campaign {
  readonly ledger = new OutboxLedger();
  killsAtStart = 0;
  brokerKills = 0;
  readonly #dir: string;
  readonly #broker: TestBroker;
  readonly #random;
  readonly #numbers = new Map<string, number>();
  #brokerBack: Promise<void> = Promise.resolve();
  #hub: Hub | undefined;

  constructor(dir: string, broker: TestBroker, seed: number) {
    this.#dir = dir;
    this.#broker = broker;
    this.#random = seeded(seed);
  }

  async begin(): Promise<void> {
    this.#hub = await startHub({ dir: this.#dir, config: plainKafka(this.#broker, TOPIC_PREFIX) });
    for (const [name, scope] of Object.entries(dictionaries)) {
      const answer = await this.#api.post('/api/v1/dictionaries', { name, title: name, scope, schema });
      assert.equal(answer.status, 201, answer.text);
    }
  }

  /** Load until the kill, then what must hold after every restart, whatever the kill interrupted. */
  async round(number: number): Promise<void> {
    await this.#life(number);
    if (number % START_KILL_EVERY === 0) await this.#killAtStart();
    this.#hub = await startHub({ dir: this.#dir });
    const { ledger } = this;
    ledger.settle(storedVersions(this.#path, ledger.lastTxTime));
  }

  /** Everything the topics have, against everything the database has. */
  async compare(): Promise<{ messages: number; duplicates: number }> {
    await this.#brokerBack;
    await drained(this.#api, DRAIN_LIMIT_MS);
    this.ledger.again(storedVersions(this.#path));
    const { messages, faults, duplicates }: ReadTopics = await readTopics({
      bootstrap: this.#broker.plain,
      security: { 'security.protocol': 'plaintext' },
      topics: topicsOf(TOPIC_PREFIX),
    });
    assert.deepEqual(faults, []);
    assert.equal(this.ledger.published(messages), duplicates);
    return { messages: messages.length, duplicates };
  }

  async end(): Promise<void> {
    assert.equal(await this.#running.stop(), 0);
  }

  async #life(number: number): Promise<void> {
    const over = new AbortController();
    const load: Load = { api: this.#api, ledger: this.ledger, random: this.#random, numbers: this.#numbers };
    const work = [
      ...Array.from({ length: RECORD_WRITERS }, (_, i) => recordWriter(`R${i}`, load, over.signal)),
      importer('I', load, over.signal),
      bulkCloser('B', load, over.signal),
    ];
    const lifeMs = this.#random.between(20, LIFE_MS);
    if (number % BROKER_KILL_EVERY === 0) {
      await sleep(lifeMs / 2);
      this.#killBroker();
    }
    await sleep(lifeMs);
    await this.#running.kill();
    over.abort();
    await Promise.all(work);
  }

  #killBroker(): void {
    this.brokerKills += 1;
    this.#brokerBack = this.#brokerBack.then(async () => {
      await this.#broker.kill();
      await this.#broker.restart();
    });
    // Awaited before the topics are read.
    this.#brokerBack.catch(() => {});
  }

  async #killAtStart(): Promise<void> {
    const child = startProcess(
      NODE,
      [MAIN, 'serve', '--role', 'hub', '--config', this.#running.configFile],
      environment(),
    );
    const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
    child.stderr?.resume();
    await sleep(this.#random.between(0, START_MS));
    child.kill('SIGKILL');
    await ended;
    this.killsAtStart += 1;
  }

  get #api(): HubApi {
    return apiOf(this.#running);
  }

  get #running(): Hub {
    assert.ok(this.#hub);
    return this.#hub;
  }

  get #path(): string {
    return join(this.#dir, 'data', 'refdata.db');
  }
}
