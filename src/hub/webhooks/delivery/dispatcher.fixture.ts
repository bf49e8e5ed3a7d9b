/** A dispatcher over a real refdata.db with a sender that answers by the test's script, and time that passes event by event. */

import type { TestContext } from 'node:test';
import { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import { silentLogger } from '../../../shared/base/logger.ts';
import { temporaryDirectory } from '../../../shared/base/temporary.fixture.ts';
import { author, openStoreIn } from '../../outbox/change-store.fixture.ts';
import type { Audit, ChangeStore } from '../../outbox/change-store.ts';
import { emitEvent, recordEvent } from '../../outbox/event.fixture.ts';
import type { Outcome } from '../egress/outcome.ts';
import type { Destination, Message, Sender } from '../egress/sender.ts';
import type { RunningTime } from '../progress.ts';
import type { Secrets, Subscription } from '../subscriptions/subscription.ts';
import { DeliveryRows } from './delivery-rows.ts';
import { Dispatcher, type DispatcherOptions } from './dispatcher.ts';
import type { Probed, Remote } from './offline.ts';
import { FakeCache, runningOn } from './planner.fixture.ts';
import { put, subscriptionRow } from './stored.fixture.ts';

/** Of the specification, in seconds. */
export const scheduleS = [0, 30, 120, 600, 3_600, 21_600, 21_600, 21_600, 21_600, 21_600];
export const hourMs = 3_600_000;

export interface Call extends Omit<Message, 'body'> {
  readonly url: string;
  readonly subscriptionId: number;
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
export const broken = answered(503, 'sorry');
export const notFound = answered(404, 'no');
export const silent: Answer = { cause: 'timeout', message: 'no answer within 10 s', afterMs: 10_000 };
export const nowhere: Answer = { cause: 'connect', message: 'no way (ENETUNREACH)', unreached: true, afterMs: 5 };

function answered(status: number, text: string): Answer {
  return { status, cause: 'http', message: `answered ${status}`, answer: Buffer.from(text), afterMs: 20 };
}

class ScriptedSender implements Pick<Sender, 'send' | 'close'> {
  readonly calls: Call[] = [];
  readonly closed: (string | undefined)[] = [];
  readonly #clock: FakeClock;
  readonly #running = new Set<Call>();
  /** By the end of each call, so that calls between are those that overlapped. */
  answer: (call: Call) => Answer = () => accepted;

  constructor(clock: FakeClock) {
    this.#clock = clock;
  }

  get running(): number {
    return this.#running.size;
  }

  send({ url, agentKey }: Destination, secrets: Secrets, message: Message, signal: AbortSignal): Promise<Outcome> {
    const subscriptionId = Number(agentKey);
    const ofSubscription = [...this.#running].filter((one) => one.subscriptionId === subscriptionId).length + 1;
    const seen = { atMs: this.#clock.monoMs(), together: this.running + 1, ofSubscription };
    const call: Call = { ...message, ...seen, url, subscriptionId, secrets, body: message.body.toString(), signal };
    this.#running.add(call);
    this.calls.push(call);
    const { afterMs = 0, ...outcome } = this.answer(call);
    return new Promise((resolve) => {
      const end = (): void => {
        timer.cancel();
        signal.removeEventListener('abort', end);
        this.#running.delete(call);
        resolve({ ...nothing, elapsedMs: this.#clock.monoMs() - call.atMs, ...outcome });
      };
      const timer = this.#clock.timer(afterMs, end);
      signal.addEventListener('abort', end);
    });
  }

  close(agentKey?: string): void {
    this.closed.push(agentKey);
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

export interface Rig {
  readonly dir: string;
  readonly clock: FakeClock;
  readonly store: ChangeStore;
  readonly cache: FakeCache;
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
  readonly bodyOf?: DeliveryRows['bodyOf'];
}

/** A store with one event, and a dispatcher that is not started yet. */
export async function dispatcherRig(t: TestContext, options: RigOptions = {}): Promise<Rig> {
  const dir = temporaryDirectory(t);
  const clock = new FakeClock();
  const store = openStoreIn(t, dir, { clock });
  await store.commit(author, (tx) => emitEvent(tx, recordEvent('k')));
  return rigOn(dir, store, clock, new FakeCache(), options);
}

/** Another process on the same directory, its machine having been up all the time. */
export function restarted(t: TestContext, { dir, clock, cache }: Rig, options: RigOptions = {}): Rig {
  return rigOn(dir, openStoreIn(t, dir, { clock }), clock, cache, options);
}

function rigOn(
  dir: string,
  store: ChangeStore,
  clock: FakeClock,
  cache: FakeCache,
  { bodyOf, ...options }: RigOptions,
): Rig {
  const rows = new DeliveryRows(store.connection);
  const sender = new ScriptedSender(clock);
  const running = runningOn(store, clock);
  const dispatcher = new Dispatcher({
    store,
    cache,
    rows: bodyOf === undefined ? rows : Object.assign(rows, { bodyOf }),
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
  const subscription = rig.cache.put(id, changes);
  await rig.store.maintain(() => subscriptionRow(rig.store.connection, id));
  return subscription;
}

/** With subscriptions of these ids. */
export async function startedWith(rig: Rig, ...ids: readonly number[]): Promise<void> {
  for (const id of ids) await subscribe(rig, id);
  rig.dispatcher.start();
}

/** Started, with these subscriptions, each with so many deliveries, which are all answered so. */
export async function startedRig(
  t: TestContext,
  answer: Answer | ((call: Call) => Answer) = accepted,
  { ids = [1], count = 1, ...options }: RigOptions & { readonly ids?: readonly number[]; readonly count?: number } = {},
): Promise<Rig> {
  const rig = await dispatcherRig(t, options);
  rig.sender.answer = typeof answer === 'function' ? answer : () => answer;
  await startedWith(rig, ...ids);
  for (const id of count > 0 ? ids : []) await plan(rig, id, count);
  return rig;
}

/** As unsubscribe does. */
export async function unsubscribe({ store, cache }: Rig, id: number): Promise<void> {
  await store.maintain(() =>
    store.connection.prepare('UPDATE webhook_subscriptions SET deleted = 1 WHERE id = ?').run(id),
  );
  cache.remove(id);
}

/** Deliveries as the planner makes them, due now; the dispatcher is notified. Their ids. */
export async function plan(
  { store, cache, running, dispatcher }: Rig,
  id: number,
  count = 1,
): Promise<readonly number[]> {
  const { name = 'deleted', scopes = [] } = cache.byId(id) ?? {};
  const of = { subscription: id, name, scopes, count };
  const due = { ...of, state: 'pending', attempts: 0, dueRunMs: running.now() } as const;
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
  return store.connection
    .prepare<[], StoredRow>(
      'SELECT d.*, c.nonce FROM webhook_deliveries d JOIN webhook_contents c ON c.id = content_id ORDER BY d.id',
    )
    .all();
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
