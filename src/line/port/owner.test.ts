/** The owner with a device that fails on demand and a clock that does not advance; real ports are in test/. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { LinesideError } from '../../shared/base/errors.ts';
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import { silentLogger } from '../../shared/base/logger.ts';
import { lineside } from '../../shared/proto/services.ts';
import type { Direction } from '../log/entry.ts';
import type { LineRecorder } from '../log/log-api.ts';
import type { Port } from './inventory.ts';
import { configOf, portNamed } from './line.fixture.ts';
import type { LineSettings } from './line-config.ts';
import { LineMemory } from './line-memory.ts';
import type { Device, DeviceEvents } from './linux/tty.ts';
import type { WriteResult } from './linux/writer.ts';
import { PortOwner } from './owner.ts';

/** Longer than the silence that ends a chunk: the gap, and 20 characters at 9,600 baud for what a UART may still hold back. */
const QUIET_MS = 31;

const { Kind } = lineside.v1.RecordedEvent;

class FakeDevice implements Device {
  readonly path: string;
  settings: LineSettings;
  /** A rate that its driver does not take. */
  refuses: number | undefined;
  events: DeviceEvents | undefined;
  closed = false;
  reading = true;
  marks = false;
  written: Buffer[] = [];
  /** undefined: everything is accepted at once; else the line accepts so many bytes and is stuck. */
  accepts: number | undefined;

  constructor(path: string, settings: LineSettings) {
    this.path = path;
    this.settings = settings;
  }
  get effective() {
    return { ...this.settings, unverified: false, driver: '' };
  }
  start(events: DeviceEvents): void {
    this.events = events;
  }
  pauseReading(): void {
    this.reading = false;
  }
  resumeReading(): void {
    this.reading = true;
  }
  write(data: Uint8Array, signal: AbortSignal, cancel: AbortSignal): Promise<WriteResult> {
    const accepted = this.accepts ?? data.length;
    this.written.push(Buffer.from(data.subarray(0, accepted)));
    if (accepted === data.length) return Promise.resolve({ accepted, error: undefined });
    return new Promise((resolve) => {
      const ended = (): void => resolve({ accepted, error: new Error('ended') });
      if (signal.aborted) ended();
      else signal.addEventListener('abort', ended, { once: true });
      cancel.addEventListener('abort', () => accepted > 0 || ended(), { once: true });
    });
  }
  modemLines(): never {
    throw new LinesideError('UNSUPPORTED', 'none');
  }
  setModemLines(): never {
    throw new LinesideError('UNSUPPORTED', 'none');
  }
  sendBreak(): Promise<void> {
    return Promise.resolve();
  }
  configure(settings: LineSettings): void {
    if (this.refuses === settings.baudRate) throw new LinesideError('SETTING_REFUSED', 'the driver did not take it');
    this.settings = settings;
  }
  readonly isUsb = false;
  modemChanges(): undefined {}
  takeArrived(): void {}
  markErrors(on: boolean): void {
    this.marks = on;
  }
  discardUnsent(): void {}
  async drained(): Promise<void> {}
  async beginBreak(): Promise<void> {}
  endBreak(): void {}
  kernelCounters(): undefined {}
  async close(): Promise<void> {
    this.closed = true;
  }
}

class World {
  readonly dir = mkdtempSync(join(tmpdir(), 'owner-'));
  readonly clock = new FakeClock();
  readonly ports = new Map<string, Port>([
    ['/dev/a', portNamed('/dev/a')],
    ['/dev/b', portNamed('/dev/b')],
  ]);
  readonly devices: FakeDevice[] = [];
  readonly recorded: { dir: Direction; data: string; note: string }[] = [];
  readonly events: string[] = [];
  /** Decides about each opening; throws to refuse. */
  onOpen: (path: string, settings: LineSettings) => void | Promise<void> = () => undefined;
  appeared: () => void = () => undefined;
  relieved: () => void = () => undefined;
  pressed = false;
  readonly memory = new LineMemory(join(this.dir, 'line-state.json'), this.clock, silentLogger);
  readonly owner = this.newOwner();

  newOwner(): PortOwner {
    return new PortOwner({
      inventory: {
        list: async () => [...this.ports.values()],
        find: async (name) => this.ports.get(name),
        findAgain: async (known) => [...this.ports.values()].find((p) => p.stableId === known.stableId),
        watch: (call) => {
          this.appeared = call;
          return { close: () => undefined };
        },
      },
      openDevice: async ({ devicePath }, settings) => {
        await this.onOpen(devicePath, settings);
        const device = new FakeDevice(devicePath, settings);
        this.devices.push(device);
        return device;
      },
      checkSettings: () => undefined,
      log: this.recorder(),
      memory: this.memory,
      clock: this.clock,
      logger: silentLogger,
      maxPayloadBytes: 65_536,
      rxBufferBytes: 1_000,
      rxBufferPackets: 100,
      rxGapMs: 2,
      txQueuePackets: 3,
      txQueueBytes: 1_000,
      writeTimeoutMs: 10_000,
    });
  }

  recorder(): LineRecorder {
    const isPressed = (): boolean => this.pressed;
    return {
      record: (dir, _atMs, data, note = '') => {
        this.recorded.push({ dir, data: Buffer.from(data).toString(), note });
      },
      event: (kind, detail, by = '') => void this.events.push(`${Kind[kind]} ${by}: ${detail}`),
      get pressed() {
        return isPressed();
      },
      onRelieved: (call) => {
        this.relieved = call;
      },
    };
  }

  get device(): FakeDevice {
    const last = this.devices.at(-1);
    assert.ok(last !== undefined, 'no device was opened');
    return last;
  }

  receive(text: string): void {
    this.device.events?.data(Buffer.from(text));
    this.clock.advance(QUIET_MS);
  }

  send(text: string, change: { caller?: string; signal?: AbortSignal; deadlineMs?: number } = {}): Promise<void> {
    return this.owner.send({
      payload: Buffer.from(text),
      caller: change.caller ?? 'me',
      signal: change.signal ?? new AbortController().signal,
      deadlineMs: change.deadlineMs,
    });
  }

  /** Lets promises and file writes that are under way complete. */
  async until(condition: () => boolean, what: string): Promise<void> {
    for (let i = 0; i < 2_000 && !condition(); i += 1) await new Promise((resolve) => setImmediate(resolve));
    assert.ok(condition(), what);
  }
}

describe('the port owner', () => {
  let world: World;
  beforeEach(() => {
    world = new World();
  });
  afterEach(async () => {
    await world.owner.stop();
    rmSync(world.dir, { recursive: true });
  });

  it('restores the old settings of the same port when the new ones are refused', async () => {
    await world.owner.open(configOf('/dev/a'));
    const first = world.device;
    world.onOpen = (_path, settings) => {
      if (settings.baudRate === 300) throw new LinesideError('SETTING_REFUSED', 'baud_rate: asked 300, got 9600');
    };
    await assert.rejects(world.owner.open(configOf('/dev/a', { baudRate: 300 })), { code: 'SETTING_REFUSED' });
    assert.equal(first.closed, true);
    assert.equal(world.devices.length, 2);
    assert.equal(world.device.settings.baudRate, 9_600);
    assert.deepEqual(world.owner.currentConfig(), configOf('/dev/a'));
  });

  it('is closed, and says both causes, when the old settings cannot be restored either', async () => {
    await world.owner.open(configOf('/dev/a'));
    world.onOpen = (_path, { baudRate }) => {
      throw new LinesideError('PORT_IO', `no ${baudRate}`);
    };
    await assert.rejects(world.owner.open(configOf('/dev/a', { baudRate: 300 })), {
      message: /no 300.*no 9600.*closed/,
    });
    assert.equal(world.owner.snapshot().state, 'closed');
    assert.equal(await world.memory.recall(), undefined);
  });

  it('closes at once while an open hangs, and what opens later is closed', async () => {
    let letGo = (): void => undefined;
    world.onOpen = () => new Promise((resolve) => (letGo = resolve));
    const opening = world.owner.open(configOf('/dev/a'));
    const refused = assert.rejects(opening, { code: 'NOT_SENT' });
    await world.until(() => world.owner.snapshot().state === 'opening', 'opening');
    await world.owner.close();
    await refused;
    letGo();
    await world.until(() => world.devices[0]?.closed === true, 'the late device is closed');
    assert.equal(world.owner.snapshot().state, 'closed');
  });

  it('opens with flow control, and remembers it', async () => {
    await world.owner.open({ ...configOf('/dev/a'), flowControl: 2 });
    assert.equal(world.device.settings.flowControl, 2);
    assert.equal((await world.memory.recall())?.flowControl, 2);
    await world.owner.open({ portName: '/dev/a', baudRate: 300, dataBits: 8, parity: 0, stopBits: 0, packetSize: 0 });
    assert.equal(world.device.settings.flowControl, 0, 'an Open without it has none');
  });

  it('opens with an RX gap that overrides the configured one, remembers it, and reports the one in effect', async () => {
    await world.owner.open({ ...configOf('/dev/a'), rxGapMs: 500 });
    assert.deepEqual([world.owner.snapshot().rxGapMs, (await world.memory.recall())?.rxGapMs], [500, 500]);
    world.receive('one');
    world.clock.advance(400);
    world.receive(' chunk');
    world.clock.advance(1_000);
    assert.equal(world.recorded.at(-1)?.data, 'one chunk');
    await world.owner.open(configOf('/dev/a'));
    assert.deepEqual([world.owner.snapshot().rxGapMs, (await world.memory.recall())?.rxGapMs], [2, undefined]);
  });

  it('says how long ago the last byte came and went, also after a loss, whatever the clock is set to', async () => {
    const ages = (): (boolean | number)[] => {
      const { receivedAgeMs, sentAgeMs, counters } = world.owner.snapshot();
      return [counters.rxBytes > 0 && receivedAgeMs, counters.txBytes > 0 && sentAgeMs];
    };
    await world.owner.open(configOf('/dev/a'));
    world.clock.advance(60_000);
    assert.deepEqual(ages(), [false, false]);
    world.receive('a');
    world.clock.stepWall(-86_400_000);
    await world.send('b');
    world.clock.advance(5_000);
    assert.deepEqual(ages(), [5_000 + QUIET_MS, 5_000]);
    world.device.events?.lost(new Error('unplugged'));
    world.appeared();
    await world.until(() => world.owner.snapshot().state === 'open', 'back');
    world.clock.advance(1_000);
    assert.deepEqual(ages(), [6_000 + QUIET_MS, 6_000]);
  });

  it('has line errors marked while a listener wants them, on the port that is back, too', async () => {
    await assert.rejects(async () => world.owner.watchErrors(), { code: 'NOT_CONNECTED' });
    await world.owner.open(configOf('/dev/a'));
    const [first, second] = [world.owner.watchErrors(), world.owner.watchErrors()];
    world.device.events?.lost(new Error('unplugged'));
    await world.until(() => world.owner.snapshot().state === 'lost', 'lost');
    first();
    world.appeared();
    await world.until(() => world.owner.snapshot().state === 'open', 'back');
    assert.equal(world.devices.length, 2);
    assert.equal(world.device.marks, true);
    second();
    assert.equal(world.device.marks, false);
    await world.owner.open(configOf('/dev/b'));
    assert.equal(world.device.marks, false);
  });

  it('lets 16 calls of Open wait, refuses more, and takes them again afterwards', async () => {
    const opens = Array.from({ length: 17 }, () => world.owner.open(configOf('/dev/a')));
    const outcomes = await Promise.allSettled(opens);
    const codes = outcomes.map((o) => (o.status === 'rejected' ? (o.reason as LinesideError).code : 'open'));
    assert.deepEqual(codes, [...Array.from({ length: 16 }, () => 'open'), 'QUEUE_FULL']);
    await world.owner.open(configOf('/dev/b'));
    assert.equal(world.device.path, '/dev/b');
  });

  it('abandons an open that hangs, after 10 s', async () => {
    let letGo = (): void => undefined;
    world.onOpen = () => new Promise((resolve) => (letGo = resolve));
    const refused = assert.rejects(world.owner.open(configOf('/dev/a')), {
      code: 'PORT_IO',
      message: /within 10000 ms/,
    });
    await world.until(() => world.owner.snapshot().state === 'opening', 'opening');
    world.clock.advance(10_000);
    await refused;
    assert.equal(world.owner.snapshot().state, 'closed');
    letGo();
    await world.until(() => world.devices[0]?.closed === true, 'the late device is closed');
  });

  it('is not open while the port is lost, and gets it back under another name by its stable one', async () => {
    await assert.rejects(world.owner.open(configOf('/dev/none')));
    await world.owner.open(configOf('/dev/a', { packetSize: 4 }), 'alice');
    world.receive('12345');
    world.ports.delete('/dev/a');
    world.device.events?.lost(new Error('unplugged'));
    await world.until(() => world.owner.snapshot().state === 'lost', 'lost');
    assert.equal(world.owner.currentConfig(), undefined);
    await assert.rejects(world.send('x'), {
      code: 'NOT_CONNECTED',
      message: /unplugged/,
      hint: 'the port is reopened automatically when it is there again',
    });
    assert.throws(() => world.owner.receive(), { code: 'NOT_CONNECTED' });

    world.ports.set('/dev/c', { ...portNamed('/dev/c'), stableId: '/dev/a' });
    assert.equal(world.owner.snapshot().portListChanges, 0);
    world.appeared();
    assert.equal(world.owner.snapshot().portListChanges, 1);
    await world.until(() => world.owner.snapshot().state === 'open', 'back at once, no timer was advanced');
    assert.equal(world.device.path, '/dev/c');
    assert.deepEqual(world.owner.currentConfig(), configOf('/dev/a', { packetSize: 4 }));
    world.receive('6789');
    assert.deepEqual(Buffer.from(world.owner.receive().payload).toString(), '1234');
    assert.deepEqual(
      Buffer.from(world.owner.receive().payload).toString(),
      '6789',
      'the 5 is not glued to what came after',
    );
    assert.deepEqual([world.owner.snapshot().counters.losses, world.owner.snapshot().counters.reopens], [1, 1]);
    world.owner.openPort().configure(configOf('/dev/a', { baudRate: 300 }));
    await world.owner.close('bob');
    assert.deepEqual(world.events, [
      'OPENED alice: /dev/a, 9600 baud, 8N1',
      'LOST : /dev/a is gone: unplugged',
      'BACK : /dev/a, 9600 baud, 8N1',
      'SETTINGS_CHANGED : 300 baud, 8N1',
      'CLOSED bob: ',
    ]);
  });

  it('tries a lost port again after 0.25 s, then twice as long, up to 5 s, until Close', async () => {
    await world.owner.open(configOf('/dev/a'));
    let attempts = 0;
    world.onOpen = () => {
      attempts += 1;
      throw new LinesideError('PORT_IO', 'not yet');
    };
    world.device.events?.lost(new Error('unplugged'));
    for (const [index, delay] of [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000].entries()) {
      await world.until(
        () => world.owner.snapshot().state === 'lost' && world.clock.pendingTimers === 1,
        'a retry is due',
      );
      world.clock.advance(delay - 1);
      assert.equal(attempts, index);
      world.clock.advance(1);
      await world.until(() => attempts === index + 1, `attempt ${index + 1}`);
    }
    await world.until(() => world.owner.snapshot().state === 'lost', 'lost again');
    await world.owner.close();
    assert.equal(world.clock.pendingTimers, 0);
  });

  it('takes changed limits with the port open: for the next packet, and the gap from the next open on', async () => {
    await world.owner.open(configOf('/dev/a'));
    world.owner.limit({ maxPayloadBytes: 2, writeTimeoutMs: 100, rxGapMs: 500 });
    await assert.rejects(world.send('abc'), { code: 'INVALID_ARGUMENT' });
    assert.equal(world.owner.snapshot().maxPayloadBytes, 2);
    world.device.accepts = 0;
    const failed = assert.rejects(world.send('ab'), { code: 'WRITE_TIMEOUT' });
    world.clock.advance(200);
    await failed;
    world.receive('old gap');
    assert.equal(world.recorded.at(-1)?.data, 'old gap');
    await world.owner.open(configOf('/dev/a'));
    world.receive('new');
    world.receive(' gap');
    world.clock.advance(1_000);
    assert.equal(world.recorded.at(-1)?.data, 'new gap');
    assert.equal(world.devices.length, 2);
  });

  it('sends nothing while a timed break is on the line', async () => {
    await world.owner.open(configOf('/dev/a'));
    const onLine = Promise.withResolvers<void>();
    world.device.sendBreak = () => onLine.promise;
    const { signal } = new AbortController();
    const broken = world.owner.sendBreak(250, { caller: 'another', signal, deadlineMs: undefined });
    const sent = world.send('after');
    for (let turns = 0; turns < 100; turns += 1) await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(world.device.written, []);
    onLine.resolve();
    await Promise.all([broken, sent]);
    assert.equal(String(world.device.written), 'after');
  });

  it('bounds the queue, and fails what waits when the port closes', async () => {
    await world.owner.open(configOf('/dev/a'));
    world.device.accepts = 0;
    const sends = [1, 2, 3, 4, 5].map((n) => world.send(`packet ${n}`));
    const outcomes = Promise.allSettled(sends);
    await assert.rejects(sends[4] as Promise<void>, { code: 'QUEUE_FULL' });
    await world.owner.close();
    const codes = (await outcomes).map((o) => (o.status === 'rejected' ? (o.reason as LinesideError).code : 'sent'));
    assert.deepEqual(codes, ['NOT_CONNECTED', 'NOT_CONNECTED', 'NOT_CONNECTED', 'NOT_CONNECTED', 'QUEUE_FULL']);
    assert.deepEqual(world.recorded, []);
  });

  it('reads no further while the log is pressed, and continues when it is relieved', async () => {
    await world.owner.open(configOf('/dev/a'));
    world.pressed = true;
    world.receive('much');
    assert.equal(world.device.reading, false);
    world.pressed = false;
    world.relieved();
    assert.equal(world.device.reading, true);
    assert.equal(world.owner.snapshot().counters.rxPauses, 1);
  });

  it('delivers the open chunk when the port closes', async () => {
    await world.owner.open(configOf('/dev/a'));
    world.device.events?.data(Buffer.from('no silence yet'));
    assert.deepEqual(world.recorded, []);
    await world.owner.close();
    assert.deepEqual(world.recorded, [{ dir: 1, data: 'no silence yet', note: '' }]);
  });
});
