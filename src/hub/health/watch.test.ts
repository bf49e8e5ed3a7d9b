import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Alert } from '../../shared/base/alerts.ts';
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import { silentLogger } from '../../shared/base/logger.ts';
import type { LineClient } from '../../shared/line-client/line-client.ts';
import type { ServiceFaults } from './alerts.ts';
import { startWatch, type Watch } from './watch.ts';

const alert: Alert = { name: 'A', severity: 'warning', forSeconds: 0, summary: 'it is wrong', value: 1 };

/** A watch whose line, alerts and time are the test's. */
class Rig {
  readonly clock = new FakeClock();
  readonly lines: string[] = [];
  readonly levels: string[] = [];
  alerts: () => readonly Alert[] = () => [];
  getStatus: () => Promise<object> = async () => ({});
  closedSockets: readonly string[] = [];
  hubFaults: ServiceFaults = { configurationRefused: '', listenerFault: '' };
  readonly watch: Watch;

  constructor(hasLine = true) {
    const say = (level: string) => (message: string, fields?: object) => {
      this.levels.push(level);
      this.lines.push(`${message} ${Object.values(fields ?? {}).join(' ')}`.trim());
    };
    const client = { line: { getStatus: () => this.getStatus() } } as unknown as LineClient;
    this.watch = startWatch({
      client: hasLine ? client : undefined,
      certificates: [],
      findClosedSockets: async () => this.closedSockets,
      hubFaults: () => this.hubFaults,
      sources: [{ alerts: () => this.alerts() }],
      clock: this.clock,
      logger: { ...silentLogger, info: say('info'), warn: say('warn'), error: say('error') },
    });
  }

  /** Each round of the loop with all that comes of it. */
  async pass(seconds: number): Promise<string[]> {
    for (let passed = 0; passed < seconds; passed += 10) {
      await settled();
      this.clock.advance(10_000);
      await settled();
    }
    return this.lines.splice(0);
  }
}

/** The loop reads no certificate here: what it waits for is there within some turns. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

test('an alert of any source is logged within ten seconds, and its end, and nothing in between', async () => {
  const rig = new Rig();
  assert.deepEqual(await rig.pass(60), []);
  rig.alerts = () => [alert];
  assert.deepEqual(await rig.pass(10), ['alert fired A warning it is wrong']);
  assert.deepEqual(await rig.pass(600), []);
  const others: Alert[] = [
    { ...alert, name: 'B', severity: 'critical' },
    { ...alert, name: 'C', severity: 'info' },
  ];
  rig.alerts = () => others;
  assert.equal((await rig.pass(50)).length, 2);
  assert.deepEqual(await rig.pass(20), ['alert ended A 600']);
  rig.alerts = () => [alert, ...others];
  assert.equal((await rig.pass(10)).length, 1);
  assert.deepEqual(rig.levels, ['warn', 'error', 'info', 'info', 'warn']);
  await rig.watch.stop();
  assert.equal(rig.clock.pendingTimers, 0);
});

test('one that wavers about its limit for an hour makes two lines', async () => {
  const rig = new Rig();
  let looks = 0;
  rig.alerts = () => (looks++ % 2 === 0 ? [alert] : []);
  await rig.pass(3_600);
  rig.alerts = () => [];
  await rig.pass(70);
  assert.deepEqual(rig.levels, ['warn', 'info']);
  await rig.watch.stop();
});

test('a socket unit that is not open is an alert within a minute', async () => {
  const rig = new Rig();
  rig.closedSockets = ['lineside-hub.socket'];
  assert.match(
    (await rig.pass(60)).join(),
    /^alert fired LinesideSocketClosed critical not open: lineside-hub\.socket;/,
  );
  rig.closedSockets = [];
  await rig.pass(60);
  assert.deepEqual(rig.watch.alerts(), []);
  await rig.watch.stop();
});

test('a file that either process refused, and an address that either does not serve for a minute, is an alert', async () => {
  const rig = new Rig();
  const unserved = 'NOT LISTENING on 127.0.0.1:8080';
  const names = (): string[] => rig.watch.alerts().map(({ name }) => name);
  for (const refuse of [
    (faults: ServiceFaults) => void (rig.hubFaults = faults),
    (faults: ServiceFaults) => void (rig.getStatus = async () => faults),
  ]) {
    refuse({ configurationRefused: 'kafka.password_file', listenerFault: unserved });
    const [first, ...others] = await rig.pass(50);
    assert.match(first ?? '', /^alert fired ConfigurationRefused warning .*of before: kafka\.password_file$/);
    assert.deepEqual(others, []);
    assert.deepEqual(await rig.pass(20), [`alert fired ListenerNotServed critical ${unserved}`]);
    refuse({ configurationRefused: '', listenerFault: '' });
    await rig.pass(80);
    assert.deepEqual(names(), []);
    rig.lines.splice(0);
  }
  const both = { configurationRefused: 'line 7', listenerFault: '' };
  rig.hubFaults = both;
  rig.getStatus = async () => both;
  assert.match((await rig.pass(20)).join(), /of before: line 7$/, 'a fault of both is named once');
  await rig.watch.stop();
});

test('alerts that cannot be checked are logged once, stand as they were, and take no others with them', async () => {
  const rig = new Rig();
  rig.alerts = () => [alert];
  rig.getStatus = () => Promise.reject(new Error('UNAVAILABLE'));
  assert.deepEqual(await rig.pass(10), ['alert fired A warning it is wrong']);
  rig.alerts = () => {
    throw new Error('the file is gone');
  };
  const said = await rig.pass(200);
  assert.equal(said[0], 'alerts could not be checked the file is gone');
  assert.match(said[1] ?? '', /^alert fired LinesideLineDown critical .*UNAVAILABLE$/);
  assert.equal((await rig.watch.askLine())?.status, undefined);
  assert.equal(said.length, 2);
  rig.alerts = () => [];
  assert.match((await rig.pass(80)).join(), /^alerts can be checked again,alert ended A/);
  await rig.watch.stop();
  assert.equal(rig.clock.pendingTimers, 0);
});

test('a hub that knows no line watches the rest', async () => {
  const rig = new Rig(false);
  rig.alerts = () => [alert];
  assert.deepEqual(await rig.pass(100), ['alert fired A warning it is wrong']);
  assert.equal(await rig.watch.askLine(), undefined);
  await rig.watch.stop();
});
