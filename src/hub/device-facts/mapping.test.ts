import assert from 'node:assert/strict';
import { test } from 'node:test';
import { serial } from '../../shared/proto/services.ts';
import {
  changesTo,
  type Known,
  lineRecord,
  portRecords,
  type StatusFields,
  steady,
  unknownLine,
} from './device-facts.ts';

const requested = { portName: '/dev/ttyUSB0', baudRate: 115_200, dataBits: 8, parity: 1, stopBits: 1, packetSize: 16 };
const open: StatusFields = { portState: 3, requested, portError: '', currentPortName: '/dev/ttyUSB1' };
const config = {
  portName: '/dev/ttyUSB0',
  baudRate: 115_200,
  dataBits: 8,
  parity: 'even',
  stopBits: '1.5',
  packetSize: 16,
};

test('the line as a record: its state, the port it has now, the configuration that was requested', () => {
  assert.deepEqual(lineRecord(open, 'box'), {
    deviceId: 'box',
    state: 'open',
    portName: '/dev/ttyUSB1',
    config,
    error: '',
  });
  assert.deepEqual(lineRecord({ portState: 1, requested: null, portError: '', currentPortName: '' }, 'box'), {
    deviceId: 'box',
    state: 'closed',
    portName: '',
    config: null,
    error: '',
  });
});

test('a field that is 0 in a received message is mapped too', () => {
  const bytes = serial.SerialConfig.encode({ portName: '/dev/ttyS0', baudRate: 9_600, dataBits: 8 }).finish();
  const wire = serial.SerialConfig.decode(bytes);
  assert.deepEqual(lineRecord({ ...open, requested: wire }, 'box')['config'], {
    portName: '/dev/ttyS0',
    baudRate: 9_600,
    dataBits: 8,
    parity: 'none',
    stopBits: '1',
    packetSize: 0,
  });
});

test('steps that last for moments are no states of their own', () => {
  const names = [0, 1, 2, 3, 4, 5, 6, 7].map((portState) => lineRecord({ ...open, portState }, 'box')['state']);
  assert.deepEqual(names, ['unknown', 'closed', 'closed', 'open', 'lost', 'lost', 'closed', 'unknown']);
});

test('a port that stays lost keeps the first words for it', () => {
  const lost = lineRecord({ ...open, portState: 4, portError: 'unplugged' }, 'box');
  const again = lineRecord({ ...open, portState: 5, portError: 'no such file' }, 'box');
  assert.deepEqual(steady(again, lost), lost);
  assert.deepEqual(steady(again, lineRecord(open, 'box')), again, 'one that was open does not');
  assert.deepEqual(steady(again, undefined), again);
  assert.equal(steady(lineRecord(open, 'box'), lost)['error'], '');
});

test('port and configuration stay known while the line does not answer', () => {
  const known = lineRecord(open, 'box');
  const { portName, state, config: kept } = unknownLine(known, 'box');
  assert.deepEqual([portName, state, kept], ['/dev/ttyUSB1', 'unknown', config]);
  assert.deepEqual(unknownLine(unknownLine(known, 'box'), 'box'), unknownLine(known, 'box'), 'and again');
  assert.equal(unknownLine(undefined, 'box')['config'], null);
});

test('only what differs is written: what goes first, then what comes and what changed', () => {
  const wanted = portRecords(
    [
      { portName: '/dev/ttyS0', description: 'UART', hardwareId: 'PNP0501' },
      { portName: '/dev/ttyUSB0', description: 'other', hardwareId: 'USB' },
      { portName: '/dev/ttyUSB1', description: '', hardwareId: '' },
    ],
    'box',
  );
  const known = new Map<string, Known>([
    ['/dev/gone', { data: {}, version: 7 }],
    [
      '/dev/ttyS0',
      { data: { hardwareId: 'PNP0501', portName: '/dev/ttyS0', description: 'UART', deviceId: 'box' }, version: 1 },
    ],
    [
      '/dev/ttyUSB0',
      { data: { deviceId: 'box', portName: '/dev/ttyUSB0', description: 'one', hardwareId: 'USB' }, version: 3 },
    ],
  ]);
  const changes = changesTo(wanted, known).map((change) => [
    change.kind,
    change.key,
    'version' in change ? change.version : 0,
  ]);
  assert.deepEqual(changes, [
    ['close', '/dev/gone', 7],
    ['update', '/dev/ttyUSB0', 3],
    ['create', '/dev/ttyUSB1', 0],
  ]);
  assert.deepEqual(changesTo(new Map(), new Map()), []);
});
