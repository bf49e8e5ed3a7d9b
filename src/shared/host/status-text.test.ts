import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type HubFigures, hubStatus, type LineFigures, lineStatus } from './status-text.ts';

const open: LineFigures['line'] = {
  state: 'open',
  devicePath: '/dev/ttyAMA0',
  requested: { portName: '/dev/serial/by-id/usb-x' },
  effective: { baudRate: 115_200, dataBits: 8, parity: 0, stopBits: 0 },
};
const kept: LineFigures['log'] = { state: 'ok', error: '', usedBytes: 1_234_000_000 };
const gone = { devicePath: '', requested: { portName: '/dev/ttyUSB0' }, effective: undefined };

const lines: readonly [string, Partial<LineFigures['line']>, Partial<LineFigures['log']>][] = [
  ['open /dev/ttyAMA0 115200 8N1, log 1.2 GB', {}, {}],
  [
    'open /dev/ttyAMA0 300 5S1.5, log 0 B',
    { effective: { baudRate: 300, dataBits: 5, parity: 4, stopBits: 1 } },
    { usedBytes: 0 },
  ],
  [
    'open /dev/ttyAMA0 9600 7E2, log 999 B',
    { effective: { baudRate: 9_600, dataBits: 7, parity: 1, stopBits: 2 } },
    { usedBytes: 999 },
  ],
  ['lost /dev/ttyUSB0, waiting for it, log 1.0 kB', { ...gone, state: 'lost' }, { usedBytes: 1_000 }],
  ['lost /dev/ttyUSB0, waiting for it, log 10 kB', { ...gone, state: 'reopening' }, { usedBytes: 9_950 }],
  ['opening /dev/ttyUSB0, log 1.0 MB', { ...gone, state: 'opening' }, { usedBytes: 999_999 }],
  ['closing /dev/ttyAMA0, log 34 MB', { state: 'closing' }, { usedBytes: 34_400_000 }],
  ['no port open, log 1100 TB', { ...gone, requested: undefined, state: 'closed' }, { usedBytes: 1.1e15 }],
  [
    'LOG NOT KEPT: the disk is full; open /dev/ttyAMA0 115200 8N1, log 1.2 GB',
    {},
    { state: 'failing', error: 'the disk is full' },
  ],
];
for (const [text, line, log] of lines) {
  test(`the line says "${text}"`, () => {
    assert.equal(lineStatus({ line: { ...open, ...line }, log: { ...kept, ...log } }), text);
  });
}

const well: HubFigures = {
  waiting: 0,
  deadLetters: 0,
  broker: { configured: true, connected: true, forSeconds: 5 },
  review: 0,
  refusing: '',
};
const unreachable = (forSeconds: number): Partial<HubFigures> => ({
  waiting: 1_204,
  broker: { configured: true, connected: false, forSeconds },
});
const hubs: readonly [string, Partial<HubFigures>][] = [
  ['outbox 0 waiting, broker reached', {}],
  ['outbox 1,204 waiting, broker unreachable for 40 s', unreachable(49)],
  ['outbox 1,204 waiting, broker unreachable for 1 min', unreachable(119)],
  ['outbox 1,204 waiting, broker unreachable for 3 h', unreachable(4 * 3_600 - 1)],
  ['outbox 1,204 waiting, broker unreachable for 12 d', unreachable(12.9 * 86_400)],
  [
    'outbox 7 waiting, no broker configured',
    { waiting: 7, broker: { configured: false, connected: false, forSeconds: 0 } },
  ],
  ['outbox 0 waiting, broker reached, 1 dead letter, 1 delivery for review', { deadLetters: 1, review: 1 }],
  [
    'outbox 1,000,000 waiting, broker reached, 12 dead letters, 2 deliveries for review',
    { waiting: 1e6, deadLetters: 12, review: 2 },
  ],
  ['CHANGES REFUSED: the disk is full, outbox 0 waiting, broker reached', { refusing: 'the disk is full' }],
];
for (const [text, figures] of hubs) {
  test(`the hub says "${text}"`, () => {
    assert.equal(hubStatus({ ...well, ...figures }), text);
  });
}
