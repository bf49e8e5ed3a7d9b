/** A dispatcher over a real refdata.db with a sender that answers by the test's script, and time that passes event by event. */

import type { TestContext } from 'node:test';
import { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import { silentLogger } from '../../../shared/base/logger.ts';
import { author, openStoreIn, recordEvent, temporaryDir } from '../../outbox/change-store.fixture.ts';
import type { Audit, ChangeStore } from '../../outbox/change-store.ts';
import type { Outcome } from '../egress/outcome.ts';
import type { Message, Sender } from '../egress/sender.ts';
import type { RunningTime } from '../progress.ts';
import type { Secrets, Subscription } from '../subscriptions/subscription.ts';
import { BodySource } from './body-source.ts';
import { Dispatcher, type DispatcherOptions } from './dispatcher.ts';
import type { Probed, Remote } from './offline.ts';
import { FakeCache, runningOn } from './planner.fixture.ts';
import { put, subscriptionRow } from './stored.fixture.ts';

/** Of the specification, in seconds. */
export const scheduleS = [0, 30, 120, 600, 3_600, 21_600, 21_600, 21_600, 21_600, 21_600];
export const hourMs = 3_600_000;

export interface Call {
  readonly url: string;
  readonly subscriptionId: number;
  readonly deliveryId: string;
  readonly subscriptionName: string;
  readonly secrets: Secrets;
  readonly body: string;
  readonly signal: AbortSignal;
  /** Of the fake clock. */
  readonly atMs: number;
  /** Under way with this one, in all and of its subscription. */
  readonly together: number;
  readonly ofSubscription: number;
}

/** How a call ends, and after how long. */
export interface Answer extends Partial<Outcome> {
  readonly afterMs?: number;
}

export const accepted: Answer = { status: 202, cause: '', afterMs: 20 };
export const broken: Answer = {
  status: 503,
  cause: 'http',
  message: 'answered 503',
  answer: Buffer.from('sorry'),
  afterMs: 20,
};
export const notFound: Answer = {
  status: 404,
  cause: 'http',
  message: 'answered 404',
  answer: Buffer.from('no'),
  afterMs: 20,
};
export const silent: Answer = { cause: 'timeout', message: 'no answer within 10 s', afterMs: 10_000 };
export const nowhere: Answer = { cause: 'connect', message: 'no way (ENETUNREACH)', unreached: true, afterMs: 5 };

class ScriptedSender implements Pick<Sender, 'send' | 'close'> {
  readonly calls: Call[] = [];
  readonly closed: (string | undefined)[] = [];
  readonly #clock: FakeClock;
  readonly #running = new Map<number, number>();
  /** By the end of each call, so that calls between are those that overlapped. */
  answer: (call: Call) => Answer;

  constructor(clock: FakeClock, answer: (call: Call) => Answer) {
    this.#clock = clock;
    this.answer = answer;
  }

  get running(): number {
    return [...this.#running.values()].reduce((sum, n) => sum + n, 0);
  }

  underWayOf(id: number): number {
    return this.#running.get(id) ?? 0;
  }

  send(
    { url, agentKey }: { readonly url: string; readonly agentKey: string },
    secrets: Secrets,
    { deliveryId, subscriptionName, body }: Message,
    signal: AbortSignal,
  ): Promise<Outcome> {
    const subscriptionId = Number(agentKey);
    this.#count(subscriptionId, 1);
    const call: Call = {
      url,
      subscriptionId,
      deliveryId,
      subscriptionName,
      secrets,
      body: body.toString(),
      signal,
      atMs: this.#clock.monoMs(),
      together: this.running,
      ofSubscription: this.underWayOf(subscriptionId),
    };
    this.calls.push(call);
    const { afterMs = 0, ...outcome } = this.answer(call);
    return new Promise((resolve) => {
      const end = (): void => {
        timer.cancel();
        signal.removeEventListener('abort', end);
        this.#count(subscriptionId, -1);
        resolve({ ...nothing, elapsedMs: this.#clock.monoMs() - call.atMs, ...outcome });
      };
      const timer = this.#clock.timer(afterMs, end);
      signal.addEventListener('abort', end);
    });
  }

  close(agentKey?: string): void {
    this.closed.push(agentKey);
  }

  #count(id: number, by: number): void {
    this.#running.set(id, this.underWayOf(id) + by);
  }
}

const nothing: Outcome = {
  status: undefined,
  cause: 'http',
  message: '',
  answer: Buffer.alloc(0),
  elapsedMs: 0,
  reasons: [],
  unreached: false,
};

/** Subscriptions that the test blocks. */
class ScriptedCache extends FakeCache {
  readonly #blocked = new Map<number, string>();
  current = 'a secret of 16 or more bytes';
  /** '' they can be read. */
  unreadable = '';

  override blocked(subscription?: Subscription): string {
    return this.#blocked.get(subscription?.id ?? 0) ?? '';
  }

  override secrets(): Secrets {
    const { unreadable } = this;
    // As the dispatcher is to meet it: the type of the fake that this one extends knows no such answer.
    if (unreadable !== '') return { unreadable } as never;
    return { current: this.current, previous: undefined };
  }

  block(id: number, why: string): void {
    this.#blocked.set(id, why);
    this.open(['PUBLIC', 'INTERNAL', 'RESTRICTED']);
  }
}

export interface Rig {
  readonly dir: string;
  readonly clock: FakeClock;
  readonly store: ChangeStore;
  readonly cache: ScriptedCache;
  readonly sender: ScriptedSender;
  readonly running: RunningTime;
  readonly dispatcher: Dispatcher;
  online: boolean;
  /** Endpoints that can be probed. */
  remotes: readonly Remote[];
  probe: (remote: Remote, signal: AbortSignal) => Probed | undefined | Promise<Probed>;
}

export interface RigOptions extends Partial<DispatcherOptions> {
  /** Instead of bodies made of the file. */
  readonly bodyOf?: BodySource['bodyOf'];
}

/** A store with one event, and a dispatcher that is not started yet. */
export async function dispatcherRig(t: TestContext, options: RigOptions = {}): Promise<Rig> {
  const dir = temporaryDir(t);
  const clock = new FakeClock();
  const store = openStoreIn(t, dir, { clock });
  await store.commit(author, (tx) => tx.emit(recordEvent('k')));
  return rigOn(dir, store, clock, new ScriptedCache(), options);
}

/** Another process on the same directory, its machine having been up all the time. */
export function restarted(t: TestContext, { dir, clock, cache }: Rig, options: RigOptions = {}): Rig {
  return rigOn(dir, openStoreIn(t, dir, { clock }), clock, cache, options);
}

function rigOn(
  dir: string,
  store: ChangeStore,
  clock: FakeClock,
  cache: ScriptedCache,
  { bodyOf, ...options }: RigOptions,
): Rig {
  const bodies = new BodySource(store.connection);
  const sender = new ScriptedSender(clock, () => accepted);
  const running = runningOn(store, clock);
  const dispatcher = new Dispatcher({
    store,
    cache,
    bodies: bodyOf === undefined ? bodies : Object.assign(bodies, { bodyOf, templateOf: () => undefined }),
    sender,
    running,
    scheduleS,
    online: () => rig.online,
    remotes: { all: () => rig.remotes, probe: async (remote, signal) => rig.probe(remote, signal) },
    clock,
    logger: silentLogger,
    ...options,
  });
  const parts = { dir, clock, store, cache, sender, running, dispatcher };
  const rig: Rig = { ...parts, online: true, remotes: [], probe: () => undefined };
  return rig;
}

export async function subscribe(rig: Rig, id: number, changes: Partial<Subscription> = {}): Promise<Subscription> {
  const subscription = await rig.cache.put(rig.store, id, changes);
  await rig.store.maintain(() => subscriptionRow(rig.store.connection, id, { template: subscription.templateId }));
  return subscription;
}

/** With subscriptions of these ids. */
export async function startedWith(rig: Rig, ...ids: readonly number[]): Promise<void> {
  for (const id of ids) await subscribe(rig, id);
  rig.dispatcher.start();
}

/** As unsubscribe does. */
export async function unsubscribe({ store, cache }: Rig, id: number): Promise<void> {
  await store.maintain(() =>
    store.connection.prepare('UPDATE webhook_subscriptions SET deleted = 1 WHERE id = ?').run(id),
  );
  cache.remove(id);
}

/** Deliveries as the planner makes them, of the one event, due now; the dispatcher is notified. Their ids. */
export async function plan(
  { store, cache, running, dispatcher }: Rig,
  id: number,
  count = 1,
): Promise<readonly number[]> {
  const { templateId: template } = cache.byId(id) ?? { templateId: 0 };
  const due = { subscription: id, template, state: 'pending', count, attempts: 0, dueRunMs: running.now() } as const;
  const ids = await store.maintain(() => put(store.connection, due));
  dispatcher.planned(new Set([id]));
  return ids;
}

export interface StoredRow {
  readonly id: number;
  readonly subscription_id: number;
  readonly nonce: string;
  readonly state: string;
  readonly attempts: number;
  readonly due_run_ms: number;
  readonly ended_at: string | null;
  readonly ended_run_ms: number | null;
}

export function rowsIn({ store }: Rig): readonly StoredRow[] {
  return store.connection.prepare<[], StoredRow>('SELECT * FROM webhook_deliveries ORDER BY id').all();
}

/** "pending 0", ...: state and attempts of each delivery, in the order of their ids. */
export function listIn(rig: Rig): readonly string[] {
  return rowsIn(rig).map(({ state, attempts }) => `${state} ${attempts}`);
}

export function statesIn(rig: Rig): Readonly<Record<string, number>> {
  const states: Record<string, number> = {};
  for (const { state } of rowsIn(rig)) states[state] = (states[state] ?? 0) + 1;
  return states;
}

export interface StoredAttempt {
  readonly delivery_id: number;
  readonly attempt: number;
  readonly elapsed_ms: number;
  readonly status: number | null;
  readonly cause: string;
  readonly message: string;
  readonly answer: string | null;
}

export function attemptsIn({ store }: Rig): readonly StoredAttempt[] {
  return store.connection
    .prepare<[], StoredAttempt>(
      `SELECT delivery_id, attempt, elapsed_ms, status, cause, message, CAST(body AS TEXT) AS answer
       FROM webhook_attempts LEFT JOIN webhook_answers ON id = answer_id ORDER BY delivery_id, attempt`,
    )
    .all();
}

/** Every commit fails in its last step, as on a disk that fails, until undone. */
export function failCommits(store: ChangeStore): () => void {
  const maintain = store.maintain.bind(store);
  store.maintain = <T>(work: (audit: Audit) => T): Promise<T> =>
    maintain((audit): T => {
      work(audit);
      throw Object.assign(new Error('disk I/O error'), { code: 'SQLITE_IOERR_FSYNC' });
    });
  return () => {
    store.maintain = maintain;
  };
}

/** How many transactions there were, also those that failed. */
export function countCommits(store: ChangeStore): () => number {
  const maintain = store.maintain.bind(store);
  let count = 0;
  store.maintain = (work) => {
    count++;
    return maintain(work);
  };
  return () => count;
}
