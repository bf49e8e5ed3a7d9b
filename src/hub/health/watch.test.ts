/** When each alert of the line fires: test/metrics/alerts-agree.test.ts. */
import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import type { Alert } from '../../shared/base/alerts.ts';
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import { silentLogger } from '../../shared/base/logger.ts';
import type { LineClient } from '../../shared/line-client/line-client.ts';
import type { LineNumbers } from '../../shared/proto/line-status.ts';
import type { ServiceFaults } from './alerts.ts';
import { anyStatus, statusWith } from './status.fixture.ts';
import { LineWatch, startWatch, type Watch } from './watch.ts';

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

/** A line whose answers are set by the test; time passes by its clock alone. */
class FakeLine {
  readonly clock = new FakeClock();
  asked = 0;
  answer: (signal: AbortSignal) => Promise<LineNumbers> = async () => anyStatus;
  readonly watch = new LineWatch((signal) => {
    this.asked += 1;
    return this.answer(signal);
  }, this.clock);

  says(changes: Partial<LineNumbers>): void {
    this.answer = async () => ({ ...anyStatus, ...changes });
  }

  /** A look every ten seconds; the alerts after the last one. */
  async after(seconds: number): Promise<string[]> {
    let names: string[] = [];
    for (let passed = 0; passed < seconds; passed += 10) {
      this.clock.advance(10_000);
      await this.watch.look();
      names = this.watch.alerts().map(({ name, severity }) => `${name} ${severity}`);
    }
    return names;
  }
}

describe('the watch on the line', () => {
  it('asks once for all who look within a second', async () => {
    const line = new FakeLine();
    const [a, b] = await Promise.all([line.watch.look(), line.watch.look()]);
    await line.watch.look();
    assert.equal(line.asked, 1);
    assert.equal(a, b);
    assert.deepEqual(a, { status: anyStatus, reason: '' });
    line.clock.advance(1_000);
    await line.watch.look();
    assert.equal(line.asked, 2);
  });

  it('waits no longer than two seconds for an answer, and reports why there was none', async () => {
    const line = new FakeLine();
    line.answer = (signal) =>
      new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('cut'))));
    const looked = line.watch.look();
    line.clock.advance(2_000);
    assert.deepEqual(await looked, { status: undefined, reason: 'no answer within 2 s' });
    line.clock.advance(1_000);
    line.answer = () => Promise.reject(new Error('UNAVAILABLE: no such socket'));
    assert.deepEqual(await line.watch.look(), { status: undefined, reason: 'UNAVAILABLE: no such socket' });
    assert.equal(line.clock.pendingTimers, 0);
  });

  it('has no alert before it has looked, and none of a line that is well', async () => {
    const line = new FakeLine();
    assert.deepEqual(line.watch.alerts(), []);
    assert.deepEqual(await line.after(600), []);
  });

  it('says why the port is lost, and how much of the log is not stored', async () => {
    const line = new FakeLine();
    line.says({
      ...statusWith({}, { state: 'failing', error: 'the disk is full', lostEntries: 7 }),
      portState: 'lost',
      portError: 'gone',
    });
    assert.deepEqual(await line.after(10), ['LineLogFailing critical']);
    assert.deepEqual(await line.after(300), ['LinePortLost critical', 'LineLogFailing critical']);
    assert.match(
      line.watch
        .alerts()
        .map(({ summary }) => summary)
        .join('\n'),
      /gone\n.*7 entries.*the disk is full/,
    );
  });
});
