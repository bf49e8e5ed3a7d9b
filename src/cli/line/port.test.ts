import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ServerError, Status } from 'nice-grpc';
import { u64 } from '../../line/grpc/encode.ts';
import { until } from '../../shared/base/wait.fixture.ts';
import { lineside } from '../../shared/proto/services.ts';
import { run, start, testFiles } from '../drive.fixture.ts';
import { cli, service, serviceForEach, socket } from './fake-service.fixture.ts';

const files = testFiles();
const { at, file } = files;
serviceForEach(files);

describe('the port', () => {
  it('lists ports and marks the open one', async () => {
    service.devices = [
      { portName: '/dev/ttyUSB0', description: 'FT232R \x1b[31mred', hardwareId: 'USB VID:PID=0403:6001' },
      { portName: '/dev/ttyAMA0', description: '', hardwareId: 'platform:fe201000.serial' },
    ];
    service.setStatus({ currentPortName: '/dev/ttyAMA0', effective: {} });
    const { status, stdout } = await cli('devices');
    assert.equal(status, 0);
    const lines = stdout.split('\n');
    assert.match(lines[0] ?? '', /^ +PORT +DESCRIPTION +HARDWARE ID$/);
    assert.match(lines[1] ?? '', /^ +\/dev\/ttyUSB0 +FT232R \\x1b\[31mred +USB VID:PID=0403:6001$/);
    assert.match(lines[2] ?? '', /^\* +\/dev\/ttyAMA0/);
    const json: unknown = JSON.parse((await cli('devices', '--json')).stdout);
    assert.deepEqual(json, {
      devices: [
        {
          portName: '/dev/ttyUSB0',
          description: 'FT232R \x1b[31mred',
          hardwareId: 'USB VID:PID=0403:6001',
          open: false,
        },
        { portName: '/dev/ttyAMA0', description: '', hardwareId: 'platform:fe201000.serial', open: true },
      ],
    });
  });

  it('lists what happened to it', async () => {
    const { Kind } = lineside.v1.RecordedEvent;
    const { ENTRY_CLOCK_KNOWN, ENTRY_CLOCK_NOT_SET } = lineside.v1.EntryClock;
    assert.equal((await cli('events')).stdout, 'no events\n');
    service.events = [
      { id: u64(1), timestampMs: u64(1_000), clock: ENTRY_CLOCK_NOT_SET, kind: Kind.LOST, detail: 'EIO' },
      {
        id: u64(2),
        afterEntryId: u64(7),
        timestampMs: u64(2_000),
        clock: ENTRY_CLOCK_KNOWN,
        kind: Kind.HOLD_BEGUN,
        by: 'al\x1b',
      },
    ];
    const { stdout } = await cli('events');
    assert.match(
      stdout,
      /^TIME +ENTRY +EVENT +BY +MORE\n.*01\.000 +\? +0 +lost +EIO\n.*02\.000 +7 +hold begun +al\\x1b\n$/,
    );
    assert.deepEqual(JSON.parse((await cli('events', '--last', '1', '--json')).stdout), {
      events: [
        {
          id: 2,
          time: '1970-01-01T00:00:02.000Z',
          timestampMs: 2_000,
          clock: 'known',
          afterEntryId: 7,
          kind: 'holdBegun',
          by: 'al\x1b',
          detail: '',
        },
      ],
    });
    assert.equal((await cli('events', '--last', '1001')).status, 2);
  });

  it('is released from its holder', async () => {
    service.patchStatus({ holder: { name: 'alice' } });
    assert.equal((await cli('release')).stdout, 'released: it was held by alice\n');
    assert.equal((await cli('release', '--json')).stdout, '{"heldBy":null}\n');
  });

  it('opens with the short form and with options, and prints what is open', async () => {
    const short = await cli('open', '/dev/ttyUSB0', '9600,7E2');
    assert.deepEqual([short.status, short.stdout], [0, 'open: /dev/ttyUSB0 9600,7E2\n']);
    const long = await cli(
      ...'open /dev/x --baud 300 --data-bits 5 --parity mark --stop-bits 1.5 --packet-size 8 --json'.split(' '),
    );
    const expected = {
      flowControl: 'none',
      portName: '/dev/x',
      baudRate: 300,
      dataBits: 5,
      parity: 'mark',
      stopBits: 1.5,
      packetSize: 8,
    };
    assert.deepEqual(JSON.parse(long.stdout), { open: true, ...expected });
    assert.equal(service.flowControl, undefined, 'asked of the contract');
    assert.equal((await cli('settings')).stdout, '/dev/x 300,5M1.5 packets of 8 bytes\n');
    assert.equal((await cli('close')).stdout, 'closed\n');
    const closed = await cli('settings');
    assert.deepEqual([closed.status, closed.stdout], [0, 'closed\n']);
    assert.equal((await cli('settings', '--json')).stdout, '{"open":false}\n');
  });

  it('opens with flow control', async () => {
    const { stdout } = await cli('open', '/dev/x', '300', '--flow-control', 'rtscts');
    assert.equal(stdout, 'open: /dev/x 300,8N1, flow control rtscts\n');
    assert.deepEqual([service.flowControl, service.rxGapMs], [1, null]);
  });

  it('opens with an RX gap, 0 too', async () => {
    const { stdout } = await cli('open', '/dev/x', '300', '--rx-gap', '0');
    assert.equal(stdout, 'open: /dev/x 300,8N1, RX gap 0 ms\n');
    assert.deepEqual([service.flowControl, service.rxGapMs], [0, 0]);
  });

  it('opens the only port without a name, and names without their directory', async () => {
    service.devices = [{ portName: '/dev/ttyUSB0' }];
    assert.equal((await cli('open')).stdout, 'open: /dev/ttyUSB0 115200,8N1\n');
    assert.equal((await cli('open', '9600,7E1')).stdout, 'open: /dev/ttyUSB0 9600,7E1\n');
    assert.equal((await cli('open', 'ttyUSB0', '300')).stdout, 'open: /dev/ttyUSB0 300,8N1\n');
    service.devices = [{ portName: '/run/a/sim' }, { portName: '/run/b/sim' }, { portName: '/dev/ttyS0' }];
    const several = await cli('open');
    const names = '/run/a/sim, /run/b/sim, /dev/ttyS0';
    assert.deepEqual([several.status, several.stdout], [5, '']);
    assert.equal(several.stderr, `lineside: cannot open a port: the box has several ports. Name one of ${names}.\n`);
    // A link is not listed: the service resolves it.
    service.onlyPorts = ['/dev/serial/by-id/usb-FTDI'];
    assert.equal((await cli('open', 'usb-FTDI')).stdout, 'open: /dev/serial/by-id/usb-FTDI 115200,8N1\n');
    const ambiguous = await cli('open', 'sim');
    assert.match(ambiguous.stderr, /no serial port is called "sim"\. Name one of \/run\/a\/sim, /);
    service.devices = [];
    assert.match((await cli('open')).stderr, /the box has no serial port\. Plug one in/);
  });

  it('says what the service refused, and exits by its status', async () => {
    service.answer = { status: 2, error: 'no listed port /dev/nope' };
    const missing = await cli('open', '/dev/nope');
    assert.deepEqual([missing.status, missing.stdout], [5, '']);
    const why = 'no serial port is called "/dev/nope". Plug one in: lineside devices lists the ports.';
    assert.equal(missing.stderr, `lineside: cannot open /dev/nope: ${why}\n`);
    service.answer = { status: 1, error: 'baud_rate must be 1 to 12000000' };
    const json = await cli('open', '/dev/x', '--baud', '0', '--json');
    assert.equal(json.status, 1);
    assert.deepEqual(JSON.parse(json.stderr), {
      error: {
        code: 'INVALID_ARGUMENT',
        what: 'cannot open /dev/x',
        message: 'baud_rate must be 1 to 12000000',
        next: '',
        exitStatus: 1,
      },
    });
    service.answer = { status: 3, error: 'cannot open /dev/x: process 7 holds it' };
    const held = await cli('open', '/dev/x');
    assert.match(held.stderr, /^lineside: cannot open \/dev\/x: process 7 holds it\. /);
    service.answer = { status: 42, error: '' };
    assert.equal((await cli('open', '/dev/x')).status, 1);
  });

  it('shows and sets modem lines, and sends a break', async () => {
    assert.equal((await cli('modem')).stdout, 'DTR on  RTS on  CTS off  DSR off  DCD off  RI off\n');
    assert.match((await cli('modem', '--dtr', 'off')).stdout, /^DTR off {2}RTS on/);
    assert.equal((await cli('break')).status, 0);
    assert.equal((await cli('break', '1000')).stdout, 'break of 1000 ms sent\n');
    assert.deepEqual(service.breaks, [250, 1000]);
    assert.equal((await cli('break', '9000')).status, 2);
  });
});

describe('sending and receiving', () => {
  it('sends text, escapes and hex with exact sequence numbers', async () => {
    service.config = { portName: '/dev/x', baudRate: 115_200, dataBits: 8 };
    assert.equal((await cli('send', 'AT', '--crlf')).stdout, 'sent 4 bytes in 1 packet\n');
    await cli('send', '--escape', '\\x02A\\r\\n\\\\');
    const last = await cli('send', '--hex', '01 03 ff', '--seq', '18446744073709551615', '--json');
    assert.deepEqual(JSON.parse(last.stdout), {
      packets: 1,
      bytes: 3,
      firstSeqId: '18446744073709551615',
      lastSeqId: '18446744073709551615',
    });
    assert.deepEqual(
      service.sent.map(({ seqId, payload }) => [seqId, payload.toString('hex')]),
      [
        ['1', '41540d0a'],
        ['1', '02410d0a5c'],
        ['18446744073709551615', '0103ff'],
      ],
    );
  });

  it('cuts a file by packet size, and by a second of the line', async () => {
    const path = file('firmware.bin', Buffer.alloc(2500, 7));
    service.config = { portName: '/dev/x', baudRate: 9600, dataBits: 8 };
    assert.equal((await cli('send', '--file', path)).stdout, 'sent 2,500 bytes in 3 packets\n');
    assert.deepEqual(
      service.sent.map(({ payload }) => payload.length),
      [960, 960, 580],
    );
    service.config = { ...service.config, packetSize: 1000 };
    service.sent = [];
    const odd = await cli('send', '--file', path);
    assert.equal(odd.status, 1);
    assert.match(odd.stderr, /no multiple of the packet size 1000; nothing was sent/);
    assert.equal(service.sent.length, 0);
    const piped = await run(['send', '--file', '-'], { socket, stdin: Buffer.alloc(3000, 1) });
    assert.equal(piped.stdout, 'sent 3,000 bytes in 3 packets\n');
    assert.deepEqual(
      service.sent.map(({ seqId }) => seqId),
      ['1', '2', '3'],
    );
    assert.equal((await cli('send', '--file', at('none'))).status, 1);
  });

  it('names the next step when no port is open', async () => {
    service.answer = { status: 4, error: 'no port is open' };
    const sent = await cli('send', 'x');
    assert.equal(sent.status, 6);
    assert.match(sent.stderr, /^lineside: cannot send: no port is open\. Open one: lineside open PORT/);
    const received = await cli('receive');
    assert.equal(received.status, 6);
  });

  it('refuses a command line that names no or two things to send', async () => {
    for (const argv of [
      ['send'],
      ['send', 'a', '--hex', '01'],
      ['send', '--hex', 'zz'],
      ['send', '--hex', '01', '--crlf'],
      ['send', ''],
    ]) {
      assert.equal((await run(argv, { socket })).status, 2, argv.join(' '));
    }
  });

  it('receives as text, hex, raw and JSON, and waits for what comes', async () => {
    service.config = { portName: '/dev/x' };
    const payload = Buffer.from('OK\r\n\xff', 'latin1');
    service.incoming = Array.from({ length: 5 }, () => ({ payload }));
    assert.equal((await cli('receive')).stdout, 'OK\\r\\n\\xff\n');
    assert.equal((await cli('receive', '--hex')).stdout, '4f 4b 0d 0a ff\n');
    assert.deepEqual((await cli('receive', '--raw')).bytes, payload);
    assert.equal((await cli('receive', '--json', '--count', '2')).stdout.trim().split('\n').length, 2);
    assert.equal((await cli('receive')).status, 5);
    const waiting = start(['receive', '--wait', '30'], { socket });
    service.incoming.push({ payload: Buffer.from('late'), tags: { dropped_packets: '3' } });
    const late = await waiting.done;
    assert.deepEqual([late.status, late.stdout], [0, 'late\n']);
    assert.match(late.stderr, /3 packets before this one were dropped/);
  });

  it('ends a wait on Ctrl-C with 130', async () => {
    service.config = { portName: '/dev/x' };
    const waiting = start(['receive', '--wait', '600'], { socket });
    await until('connected', () => service.incoming.length === 0);
    waiting.signal('SIGINT');
    assert.deepEqual([(await waiting.done).status, waiting.stderr()], [130, '']);
  });
});

describe('the refusals of the service', () => {
  const cases: readonly [Status, string, number, RegExp][] = [
    [Status.UNAUTHENTICATED, 'no valid token', 4, /--token-file FILE/],
    [Status.PERMISSION_DENIED, 'viewer may not', 4, /role operator/],
    [Status.RESOURCE_EXHAUSTED, 'too many', 1, /Try again/],
    [Status.INTERNAL, '', 1, /journalctl/],
    [Status.FAILED_PRECONDITION, 'NOT_CONNECTED: none', 6, /lineside open PORT/],
  ];
  for (const [code, details, status, next] of cases) {
    it(`turns ${Status[code]} into exit status ${status}`, async () => {
      service.refusal = new ServerError(code, details);
      const outcome = await cli('devices');
      assert.equal(outcome.status, status);
      assert.match(outcome.stderr, /^lineside: cannot list the ports: /);
      assert.match(outcome.stderr, next);
    });
  }

  it('abandons a call that the service does not answer', async () => {
    service.stuck = true;
    const outcome = await cli('devices', '--timeout', '0.2');
    assert.equal(outcome.status, 3);
    assert.match(outcome.stderr, /no answer within 0\.2 s/);
  });
});
