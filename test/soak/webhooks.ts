/**
 * kill -9 on the hub at random moments under load, while a subscriber accepts, refuses, hangs and cuts connections as it
 * likes: each change that was committed reaches each subscription that it is for, planned once, its bytes always the
 * same; what was accepted comes again only across a kill; and the interface says what the subscriber saw.
 */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../src/shared/base/wait.fixture.ts';
import type { Delivery } from '../../src/shared/gen/http.ts';
import { expect, SCOPES } from '../e2e/hub-support.ts';
import { type Receiver, type Step, startReceiver } from '../e2e/webhook-receiver.ts';
import {
  deliveriesOf,
  detail,
  HOOKS,
  hasEnded,
  patch,
  SECRET,
  subscribe,
  webhookStatus,
  webhooksConfig,
} from '../e2e/webhooks-support.ts';
import { HubCampaign } from './hub-campaign.ts';
import { storedVersions } from './outbox-ledger.ts';
import { bulkCloser, definer, dictionaries, importer, largeImporter, recordWriter } from './outbox-writers.ts';
import { anyOf, type Random } from './random.ts';
import {
  type CommittedEvent,
  committedEvents,
  type Filter,
  type Interruption,
  settleWebhooks,
  type Taker,
  type WebhookFigures,
} from './webhooks-ledger.ts';

const RECORD_WRITERS = 2;
/** Longest life under load: some plannings, some attempts that hang to their end, some bundles. */
const LIFE_MS = 1_200;
const TIMEOUT_MS = 500;
/** All is let through and compared so often: what a receiver has been sent stays in memory. */
const SCHEDULE = { startKillEvery: 3, startMs: 700, compareEvery: 20 };
/** Every so many rounds the hub is stopped instead. */
const STOP_EVERY = 7;
/** Every so many rounds connections are refused for the first half of a life. */
const DEAF_EVERY = 4;
/** Every so many rounds a subscription is changed right after the restart: what happened before goes by what it was. */
const CHANGE_EVERY = 2;
const DRAIN_LIMIT_MS = 300_000;
/** Far more attempts than a round has time for: what ends as failed would be sent again by hand. */
const schedule = Array.from({ length: 100 }, (_, i) => Math.min(i, 2));

const all: Filter = { scopes: SCOPES, dictionaries: null, actions: null, categories: null };
const filters: readonly Filter[] = [
  all,
  { ...all, scopes: ['PUBLIC'] },
  { ...all, dictionaries: ['soak.internal', 'soak.restricted'], actions: ['created', 'closed'] },
  { ...all, categories: ['dict.definition.*'] },
  { ...all, scopes: ['PUBLIC', 'RESTRICTED'], actions: ['updated'], categories: ['dict.record.*'] },
];

export async function webhookRounds(dir: string, rounds: number, seed: number, say: (line: string) => void) {
  const receiver = await startReceiver(undefined, { secrets: [SECRET] });
  const campaign = new Campaign(dir, seed, receiver);
  const figures = await campaign.run(rounds, say);
  await receiver.stop();
  const { counts, killsAtStart, ledger } = campaign;
  return { rounds, ...counts, killsAtStart, ...figures, load: ledger.figures };
}

class Campaign extends HubCampaign<WebhookFigures> {
  readonly counts = { kills: 0, stops: 0, changes: 0, resent: 0 };
  readonly #receiver: Receiver;
  readonly #takers: Taker[] = [];
  readonly #interruptions: Interruption[] = [];
  /** Titles that were answered. */
  readonly #titles = new Set<string>();

  constructor(dir: string, seed: number, receiver: Receiver) {
    super(dir, seed, SCHEDULE);
    this.#receiver = receiver;
  }

  protected override async begin(): Promise<void> {
    await this.startFirst(webhooksConfig([this.#receiver], { schedule_s: schedule, timeout_ms: TIMEOUT_MS }));
    for (const [i, filter] of filters.entries()) {
      const after = this.#lastEvent();
      const { id } = await subscribe(this.api, this.#receiver, `s${i}`, filter);
      this.#takers.push({ id, path: `/s${i}`, rules: [{ after, filter }] });
    }
  }

  /** The subscriber takes everything from now on; then all that it was ever sent is held against all that was committed. */
  protected override async compare(): Promise<WebhookFigures> {
    for (const { path } of this.#takers) await this.#receiver.script([], path);
    await this.#drained();
    for (const { id } of this.#takers) {
      const { deliveries } = await expect(200, this.api.post(`${HOOKS}/subscriptions/${id}/resend`, {}));
      this.counts.resent += Number(deliveries);
    }
    await this.#drained();
    const committed = this.#allIsThere();
    const shown = await this.#shown();
    const requests = this.#receiver.requests();
    const figures = settleWebhooks(this.#takers, committed, requests, shown, this.#interruptions);
    for (const id of figures.late) {
      const { attemptList } = await detail(this.api, id);
      const isLate = attemptList.some(({ cause }) => cause === 'timeout');
      const came = requests.filter(({ body }) => body?.deliveryId === id).map(({ n, at, end }) => ({ n, at, end }));
      assert.ok(
        isLate,
        `${id} was accepted and sent again: ${JSON.stringify([attemptList, came, this.#interruptions])}`,
      );
    }
    return figures;
  }

  protected override killAtStart(startMs: number): Promise<void> {
    return this.#interrupted(() => super.killAtStart(startMs));
  }

  protected override async startAgain(round: number): Promise<void> {
    await super.startAgain(round);
    if (round % CHANGE_EVERY === 0) await this.#change();
  }

  protected override async life(round: number): Promise<void> {
    for (const [i, { path }] of this.#takers.entries()) {
      const isBad = i === this.#takers.length - 1;
      await this.#receiver.script(anyAnswers(this.random, isBad), path);
    }
    const over = new AbortController();
    const { load } = this;
    const lifeMs = this.random.between(20, LIFE_MS);
    const isDeaf = round % DEAF_EVERY === 0;
    if (isDeaf) await this.#receiver.listen(false);
    const work = Promise.all([
      ...Array.from({ length: RECORD_WRITERS }, (_, i) => recordWriter(`R${i}`, load, over.signal)),
      importer('I', load, over.signal),
      largeImporter('L', load, over.signal),
      bulkCloser('B', load, over.signal),
      definer('D', load, this.#titles, over.signal),
    ]);
    await sleep(lifeMs / 2);
    if (isDeaf) await this.#receiver.listen(true);
    await sleep(lifeMs / 2);
    await this.#interrupted(async () => {
      if (round % STOP_EVERY === 0) {
        this.counts.stops += 1;
        over.abort();
        assert.equal(await this.hub.stop(), 0);
      } else {
        this.counts.kills += 1;
        await this.hub.kill();
        over.abort();
      }
    });
    await work;
  }

  async #interrupted(end: () => Promise<void>): Promise<void> {
    const interruption = { from: monoS(), to: Number.POSITIVE_INFINITY };
    this.#interruptions.push(interruption);
    await end();
    interruption.to = monoS();
  }

  /** Another filter, or a pause, or its end: while there are no writes. */
  async #change(): Promise<void> {
    const taker = anyOf(this.#takers, this.random);
    const after = this.#lastEvent();
    const isPause = this.random.between(0, 2) === 0;
    const filter = isPause ? undefined : anyOf(filters, this.random);
    const change = filter === undefined ? { active: false } : { active: true, ...filter };
    // A pause cancels attempts under way.
    await this.#interrupted(async () => void (await patch(this.api, taker.id, change)));
    taker.rules.push({ after, filter });
    this.counts.changes += 1;
  }

  /** Everybody is active again, as what waits for one that is not waits on. */
  async #drained(): Promise<void> {
    for (const taker of this.#takers) {
      if (taker.rules.at(-1)?.filter !== undefined) continue;
      const after = this.#lastEvent();
      await patch(this.api, taker.id, { active: true, ...all });
      taker.rules.push({ after, filter: all });
    }
    const drained = async (): Promise<boolean> => {
      const { waiting, unplannedEvents } = await webhookStatus(this.api);
      return waiting === 0 && unplannedEvents === 0;
    };
    await until('everything is delivered', drained, DRAIN_LIMIT_MS);
    // The status may be a second old when deliveries were sent again.
    await until('everything has ended', async () => (await this.#shown()).every(hasEnded), DRAIN_LIMIT_MS);
  }

  /** What was answered is committed, and each version has its event. */
  #allIsThere(): CommittedEvent[] {
    const versions = storedVersions(this.path);
    this.ledger.again(versions);
    const committed = committedEvents(this.path);
    const records = committed.filter(({ category }) => category === 'dict.record.*');
    assert.equal(records.length, versions.length);
    const definitions = committed.length - records.length - Object.keys(dictionaries).length;
    assert.ok(definitions >= this.#titles.size, `${definitions} of at least ${this.#titles.size} definitions`);
    return committed;
  }

  async #shown(): Promise<Delivery[]> {
    return (await Promise.all(this.#takers.map(({ id }) => deliveriesOf(this.api, id)))).flat();
  }

  #lastEvent(): number {
    return committedEvents(this.path).at(-1)?.id ?? 0;
  }
}

/** The receiver's clock. */
function monoS(): number {
  return Number(process.hrtime.bigint()) / 1e9;
}

/** More than a life has attempts. */
const STEPS = 2_000;

/** `isBad`: it fails more often than it accepts. */
function anyAnswers(random: Random, isBad: boolean): Step[] {
  return Array.from({ length: STEPS }, () => anyAnswer(random, isBad));
}

function anyAnswer(random: Random, isBad: boolean): Step {
  const chance = random.between(0, isBad ? 40 : 99);
  if (chance < 6) return { fault: 'hang' };
  if (chance < 16) return { status: 500, body: 'not now' };
  if (chance < 22) return { fault: 'close' };
  if (chance < 28) return { fault: 'reset' };
  // Nothing was answered, so no status either.
  if (chance < 31) return { fault: 'garbage', status: 0 };
  if (chance < 33) return { status: 410, body: 'never' };
  return { status: [200, 201, 202, 204][chance % 4] ?? 202, delayS: chance % 10 === 0 ? 0.05 : 0 };
}
