/**
 * kill -9 on the hub, and on the broker, at random moments under load, restarted on the same data each time: what was
 * answered is there, what was refused is not, what was not heard of is there whole or not at all; and the topics say
 * exactly what the database says, each key in the order of its versions; and so do the copies of programs in another language.
 */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { drained, plainKafka, topicsOf } from '../e2e/hub-support.ts';
import { readTopics } from '../e2e/outbox-reader.ts';
import { type TestBroker, TOPIC_PREFIX } from '../kafka/broker.ts';
import { Copies } from './copies.ts';
import { HubCampaign } from './hub-campaign.ts';
import { storedVersions } from './outbox-ledger.ts';
import { bulkCloser, importer, recordWriter } from './outbox-writers.ts';

const RECORD_WRITERS = 4;
/** Longest life under load: several acknowledgements of the broker, and some bundles, each of which starts a worker. */
const LIFE_MS = 1_500;
/** The topics are read whole each time, so not often. */
const SCHEDULE = { startKillEvery: 5, startMs: 500, compareEvery: 50 };
/** Every so many rounds the broker is killed during the load, and is back some time in the next round. */
const BROKER_KILL_EVERY = 6;
const DRAIN_LIMIT_MS = 120_000;
/** The group of a consumer takes up to two minutes to come together again after its broker was killed (measured: 0 to more than 120 s). */
const COPY_LIMIT_MS = 300_000;

export async function outboxRounds(
  dir: string,
  broker: TestBroker,
  rounds: number,
  seed: number,
  say: (line: string) => void,
) {
  const campaign = new Campaign(dir, broker, seed);
  const read = await campaign.run(rounds, say);
  const { killsAtStart, brokerKills, ledger } = campaign;
  return { rounds, killsAtStart, brokerKills, ...ledger.figures, ...read };
}

class Campaign extends HubCampaign<{ messages: number; duplicates: number; copied: number }> {
  brokerKills = 0;
  readonly #broker: TestBroker;
  readonly #copies = new Copies();
  #brokerBack: Promise<void> = Promise.resolve();

  constructor(dir: string, broker: TestBroker, seed: number) {
    super(dir, seed, SCHEDULE);
    this.#broker = broker;
  }

  protected override async begin(): Promise<void> {
    await this.startFirst({ ...plainKafka(this.#broker, TOPIC_PREFIX), ...this.#copies.config });
    await this.#copies.start(this.api, this.#broker.plain, Object.keys(topicsOf(TOPIC_PREFIX)));
  }

  protected override async compare() {
    await this.#brokerBack;
    await drained(this.api, DRAIN_LIMIT_MS);
    const stored = storedVersions(this.path);
    this.ledger.again(stored);
    const { messages, faults, duplicates } = await readTopics({
      bootstrap: this.#broker.plain,
      security: { 'security.protocol': 'plaintext' },
      topics: topicsOf(TOPIC_PREFIX),
    });
    assert.deepEqual(faults, []);
    assert.equal(this.ledger.published(messages), duplicates);
    const copied = await this.#copies.compare(stored, COPY_LIMIT_MS);
    return { messages: messages.length, duplicates, copied };
  }

  protected override async life(round: number): Promise<void> {
    const over = new AbortController();
    const { load } = this;
    const work = [
      ...Array.from({ length: RECORD_WRITERS }, (_, i) => recordWriter(`R${i}`, load, over.signal)),
      importer('I', load, over.signal),
      bulkCloser('B', load, over.signal),
    ];
    const lifeMs = this.random.between(20, LIFE_MS);
    if (round % BROKER_KILL_EVERY === 0) {
      // A busy machine is asked for few changes in one life: this one goes on until one of them was refused.
      await until('a change is refused', () => this.ledger.figures.refused > 0);
      await sleep(lifeMs / 2);
      this.#killBroker();
    }
    await sleep(lifeMs);
    await this.hub.kill();
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
}
