import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import Long from 'long';
import { until } from '../../shared/base/wait.fixture.ts';
import { lineside } from '../../shared/proto/services.ts';
import { run, start, testFiles } from '../drive.fixture.ts';
import { httpSocket, hub, hubForEach } from '../hub/fake-hub.fixture.ts';
import { type JsonObject, statusJson } from '../output/json.ts';
import { cli, service, serviceForEach, socket } from './fake-service.fixture.ts';
import { statusText } from './status.ts';
import { Terminal } from './terminal.fixture.ts';

const files = testFiles();
hubForEach(files);
serviceForEach(files, {
  portState: 3,
  requested: { portName: '/dev/x', baudRate: 9600, dataBits: 8 },
  log: { state: 1 },
  version: '9.9',
});

describe('status', () => {
  it('answers by its exit status whether all is well', async () => {
    assert.equal((await cli('status')).status, 0);
    service.patchStatus({ portState: 5 });
    assert.equal((await cli('status')).status, 1, 'reopening');
    service.patchStatus({ portState: 4, portError: 'unplugged' });
    const lost = await cli('status');
    assert.equal(lost.status, 1);
    assert.match(lost.stdout, /^Port +LOST \/dev\/x.*\n +unplugged\n/);
    service.setStatus({ portState: 1, log: { state: 2, error: 'disk full', setAside: '/d/log.db.damaged-1' } });
    assert.match(
      (await cli('status')).stdout,
      /\n +disk full\n +a damaged log was set aside: \/d\/log\.db\.damaged-1\n/,
    );
    const failing = await cli('status', '--json');
    const json = JSON.parse(failing.stdout) as {
      healthy: boolean;
      portState: string;
      requested: null;
      log: { state: string };
    };
    assert.deepEqual(
      [failing.status, json.healthy, json.portState, json.requested, json.log.state],
      [1, false, 'closed', null, 'failing'],
    );
  });

  it('keeps counters beyond 2^53 exact in JSON', async () => {
    service.patchStatus({ counters: { rxBytes: Long.MAX_UNSIGNED_VALUE, txBytes: Long.fromNumber(7) } });
    assert.match((await cli('status', '--json')).stdout, /"rxBytes":"18446744073709551615","txBytes":7,/);
  });

  it('refuses to watch without a pause', async () => {
    const { status, stderr } = await run(['status', '--watch', '0'], { socket });
    assert.deepEqual([status, /"0" is not a number of seconds from 0\.1 to 86400/.test(stderr)], [2, true], stderr);
  });

  it('watches until Ctrl-C, and ends with 0', async () => {
    const watching = start(['status', '--watch', '0.1', '--json'], { socket });
    await until('two answers', () => watching.stdout().split('\n').length > 2);
    watching.signal('SIGINT');
    const { status, stdout, stderr } = await watching.done;
    assert.deepEqual([status, stderr], [0, '']);
    for (const line of stdout.trim().split('\n'))
      assert.equal((JSON.parse(line) as { version: string }).version, '9.9');
  });
});

describe('the machine in the status', () => {
  const facts: JsonObject = {
    bootId: 'boot',
    uptimeSeconds: 7_380,
    ageSeconds: 1,
    temperatureCelsius: 51.5,
    throttled: 'unknown',
    underVoltage: 'no',
    memory: { totalBytes: 1_000_000_000, availableBytes: 400_000_000 },
    load: { averages: [0.5, 0.4, 0.3], processors: 4, usedPercent: null },
    disk: {
      totalBytes: 16_000_000_000,
      freeBytes: 8_000_000_000,
      writtenBytes: 12_300_000,
      writtenBytesEver: null,
      lifeUsedPercent: 30,
      reserve: 'urgent',
    },
    clock: 'unsynced',
    boots: { count: 9, powerLosses: 2, afterPowerLoss: true },
    slot: { name: 'b', trying: true, dataLost: true, updateFailed: false },
  };
  const status = (...more: string[]) => run(['status', ...more], { socket, httpSocket });

  it('stands below the service, what is not known as unknown', async () => {
    hub.answers['GET admin/host'] = facts;
    const { stdout } = await status('--timeout', '60');
    const host = stdout.slice(stdout.indexOf('\nHost') + 1).replaceAll(/ +/g, ' ');
    assert.equal(
      host,
      [
        'Host temperature 51.5 °C, processors used unknown, memory 400 MB of 1.0 GB available, voltage ok, throttling unknown',
        " disk 8.0 GB of 16.0 GB free, 12.3 MB written since boot, up to 30 % of the card's life time used, spare blocks: URGENT",
        ' up 2 h 3 min, clock NOT SET, power lost 2 times in 9 boots, the last before this boot',
        ' system b, on trial, DATA PARTITION NOT MOUNTED: all is lost with the power',
        '',
      ].join('\n'),
    );
    const json = JSON.parse((await status('--json', '--timeout', '60')).stdout) as JsonObject;
    assert.deepEqual(json['host'], facts);
  });

  it('is left out when the hub is not there, hangs, or says nonsense', async () => {
    for (const answer of [undefined, '{}', '{"temperatureCelsius":"hot"}', 'no json', 'absent']) {
      if (answer === 'absent') await hub.stop();
      hub.override = (_, response) => {
        if (answer !== undefined) response.setHeader('content-type', 'application/json').end(answer);
      };
      const { stdout, stderr, status: code } = await status();
      assert.deepEqual([code, stderr], [0, ''], String(answer));
      assert.match(stdout, /^Service/m);
      assert.doesNotMatch(stdout, /^Host/m);
    }
  });

  it("is not asked for where a socket was named, which is the line's", async () => {
    const { stdout } = await run(['status', '--json', '--socket', socket], { httpSocket });
    assert.deepEqual([(JSON.parse(stdout) as JsonObject)['host'], hub.asked], [null, []]);
  });
});

describe('a terminal', () => {
  it('gets colour, unless NO_COLOR or --color says otherwise, and lines that fit', async () => {
    service.log(1, 'x'.repeat(30));
    const tty = { columns: 60 };
    assert.ok((await run(['log'], { socket, tty })).stdout.includes('\x1b[32mRX'));
    const plain = (await run(['log'], { socket, tty, env: { NO_COLOR: '1' } })).stdout;
    assert.ok(!plain.includes('\x1b'));
    assert.ok(!(await run(['log'], { socket, tty, env: { TERM: 'dumb' } })).stdout.includes('\x1b'));
    assert.ok(!(await run(['log', '--color', 'never'], { socket, tty })).stdout.includes('\x1b'));
    assert.ok((await run(['log', '--color', 'always'], { socket })).stdout.includes('\x1b[32mRX'));
    service.patchStatus({ portState: 4, log: { logId: 'l', state: 2 } });
    const status = (await run(['status', '--color', 'always'], { socket })).stdout;
    assert.match(status, /^Port +\x1b\[31mLOST\x1b\[0m/m);
    for (const line of plain.split('\n')) assert.ok(line.length <= 60, line);
    service.devices = [{ portName: '/dev/x', description: 'y'.repeat(90), hardwareId: '' }];
    for (const line of (await run(['devices'], { socket, tty })).stdout.split('\n')) assert.ok(line.length <= 60, line);
  });

  it('has a pager for the log, unless it is followed or --no-pager is given', async () => {
    service.log(1, 'x');
    const env = { PAGER: 'sed s/^/paged:/' };
    const paged = new Terminal(['log', '--text'], env);
    assert.equal(await paged.end(), 'status 0 restored');
    assert.match(paged.screen, /paged:.*RX.* x/);
    const direct = new Terminal(['log', '--text', '--no-pager'], env);
    assert.equal(await direct.end(), 'status 0 restored');
    assert.ok(direct.screen.includes('RX') && !direct.screen.includes('paged:'));
    for (const PAGER of ['/nonexistent', 'true', 'cat', ''])
      assert.equal(await new Terminal(['log'], { PAGER }).end(), 'status 0 restored', PAGER);
  });
});

const gap = (first: number, last: number): lineside.v1.LogGap =>
  lineside.v1.LogGap.create({
    firstId: Long.fromNumber(first, true),
    lastId: Long.fromNumber(last, true),
    entries: Long.fromNumber(last - first + 1, true),
    bytes: Long.fromNumber(4567, true),
    fromMs: Long.fromNumber(1_700_000_000_000, true),
    toMs: Long.fromNumber(1_700_000_300_000, true),
    reason: 'disk full',
  });
describe('the status in words', () => {
  const decoded = (status: Record<string, unknown>): lineside.v1.LineStatus =>
    lineside.v1.LineStatus.decode(lineside.v1.LineStatus.encode(lineside.v1.LineStatus.fromObject(status)).finish());
  const full = decoded({
    portState: 3,
    portStateAgeMs: Long.fromNumber(185_000),
    receivedAgeMs: Long.fromNumber(7_000),
    requested: { portName: '/dev/serial/by-id/x', baudRate: 9600, dataBits: 8, packetSize: 8 },
    effective: { baudRate: 9615, dataBits: 8, driver: 'ftdi_sio' },
    currentPortName: '/dev/ttyUSB1',
    counters: {
      rxBytes: Long.fromNumber(1234),
      rxChunks: Long.fromNumber(1),
      losses: Long.fromNumber(1),
      reopens: Long.fromNumber(1),
    },
    kernel: { frame: 2 },
    log: {
      state: 2,
      error: 'no space left',
      firstId: Long.fromNumber(1001),
      lastId: Long.fromNumber(2345),
      lostEntries: Long.fromNumber(123),
      gaps: [gap(2, 124)],
    },
    version: '1.2.3',
    configurationRefused: 'log.commit_ms, line 7',
    restartNeeded: 'data.dir log.queue_bytes',
  });

  it('says all that matters, in words', () => {
    const text = statusText(full, 0);
    for (const part of [
      /^Port +open \/dev\/serial\/by-id\/x \(now \/dev\/ttyUSB1\), for 3 min 5 s$/m,
      /^Settings +9600,8N1, packets of 8 bytes \(the kernel says 9615,8N1\), driver ftdi_sio$/m,
      /^Received +1,234 bytes in 1 chunk, the last 7 s ago, /m,
      /^Losses +the port was lost 1 time and came back 1 time$/m,
      /^Driver +frame 2, overrun 0/m,
      /^Log +NOT BEING KEPT, ids 1001 to 2345 \(at most 1,345 entries\)/m,
      /^Configuration +RESTART NEEDED for data\.dir log\.queue_bytes$/m,
      /123 entries \(4,567 bytes\) not stored: disk full/,
      /^Configuration +REFUSED at the last reload, the one of before is in use: log\.commit_ms, line 7$/m,
      /^Service +lineside 1\.2\.3/m,
    ]) {
      assert.match(text, part);
    }
    for (const line of statusText(full, 60).trimEnd().split('\n')) assert.ok(line.length <= 60, line);
  });

  it('says that the clock is not set, or what became of the times before', () => {
    const { CLOCK_STATE_SET, CLOCK_STATE_NOT_SET } = lineside.v1.ClockState;
    assert.match(statusText(decoded({ clock: { state: CLOCK_STATE_NOT_SET } }), 0), /^Clock +NOT SET since/m);
    const corrected = decoded({ clock: { state: CLOCK_STATE_SET, correctedByMs: Long.fromNumber(-266_400_000) } });
    assert.match(statusText(corrected, 0), /^Clock +set; earlier .* by -3 d 2 h$/m);
    assert.deepEqual(statusJson(corrected, true)['clock'], { state: 'set', correctedByMs: -266_400_000 });
    assert.doesNotMatch(statusText(decoded({ clock: { state: CLOCK_STATE_SET } }), 0), /Clock/);
  });
});
