import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { LineStatus } from '../../shared/gen/http.ts';
import { differences, inEffectText, readSettings, settingsNow, settingsText } from './settings.ts';

const requested = { portName: '/dev/a', baudRate: 9_600, dataBits: 7, parity: 'even', stopBits: 2, packetSize: 5 };
const effective = { baudRate: 9_600, dataBits: 7, parity: 'even', stopBits: 2, unverified: false, driver: 'x' };

function statusOf(change: object): LineStatus {
  const flow = { requestedFlowControl: 'rtscts', rxGapUs: 40_000, rxGapAsked: true, requestedRxGapMs: 40 };
  return { requested, effective: { ...effective, flowControl: 'rtscts' }, ...flow, ...change } as unknown as LineStatus;
}

const typed = {
  portName: '/dev/a',
  baudRate: '9600',
  dataBits: '7',
  parity: 'even',
  stopBits: '2',
  flowControl: 'rtscts',
  packetSize: '5',
  rxGapMs: '40',
};

describe('settings of the port', () => {
  it('are short in text', () => {
    assert.equal(inEffectText(statusOf({})), '9600 7E2, RTS/CTS, RX gap 40 ms');
    assert.equal(inEffectText(statusOf({ effective: null })), undefined);
    assert.equal(settingsText({ baudRate: 300, dataBits: 5, parity: 'mark', stopBits: 1.5 }), '300 5M1.5');
  });

  it('begin as they are in effect; of a lost port as it comes back; without a port as usual', () => {
    assert.deepEqual(settingsNow(statusOf({})), typed);
    assert.deepEqual(settingsNow(statusOf({ effective: null, rxGapUs: 0 })), typed);
    const changed = { ...effective, baudRate: 4_800, parity: 'none', flowControl: 'none' };
    const now = settingsNow(statusOf({ effective: changed, rxGapAsked: false, requestedRxGapMs: 0 }));
    assert.deepEqual(now, { ...typed, baudRate: '4800', parity: 'none', flowControl: 'none', rxGapMs: '' });
    for (const status of [undefined, statusOf({ requested: null, effective: null, rxGapAsked: false })]) {
      const { portName, baudRate, rxGapMs } = settingsNow(status);
      assert.deepEqual([portName, baudRate, rxGapMs], ['', '115200', '']);
    }
  });

  it('do not take over the error of a divider, but show it', () => {
    const status = statusOf({ effective: { ...effective, baudRate: 9_615, flowControl: 'none' } });
    assert.equal(settingsNow(status).baudRate, '9600');
    assert.deepEqual(differences(status), [
      'Baud rate: 9600 was requested, 9615 is in effect.',
      'Flow control: RTS/CTS was requested, none is in effect.',
    ]);
    assert.deepEqual(differences(statusOf({})), []);
    assert.deepEqual(differences(statusOf({ effective: null })), []);
  });

  it('are read as Open takes them', () => {
    const { portName, parity } = requested;
    const numbers = { baudRate: 9_600, dataBits: 7, stopBits: 2, packetSize: 5 };
    const body = { portName, parity, flowControl: 'rtscts', ...numbers };
    assert.deepEqual(readSettings(typed), { body: { ...body, rxGapMs: 40 } });
    assert.deepEqual(readSettings({ ...typed, portName: ' /dev/a ', rxGapMs: ' ' }), { body });
    assert.deepEqual(readSettings({ ...typed, rxGapMs: '0' }), { body: { ...body, rxGapMs: 0 } });
  });

  it('that cannot be are named with their value and what is allowed, all at once', () => {
    const wrong = { portName: ' ', baudRate: '0', stopBits: '1.5', packetSize: '65537', rxGapMs: '1001' };
    assert.deepEqual(readSettings({ ...typed, ...wrong }), {
      faults: {
        portName: 'Name of the port: nothing is typed. Choose a port, or type its name.',
        baudRate: 'Baud rate: "0" is not a whole number from 1 to 12,000,000',
        stopBits: 'Stop bits: 1.5 is allowed with 5 data bits only, not with 7',
        packetSize: 'Packet size: "65537" is not a whole number from 0 to 65,536',
        rxGapMs: 'RX gap: "1001" is not a whole number from 0 to 1,000; empty: as configured',
      },
    });
    for (const baudRate of ['', '9600.5', '-1', '9e3', '12000001', '99999999999999999999']) {
      assert.deepEqual(Object.keys(Object(readSettings({ ...typed, baudRate })).faults ?? {}), ['baudRate'], baudRate);
    }
    assert.ok('body' in readSettings({ ...typed, stopBits: '1.5', dataBits: '5' }));
    for (const edge of [{ baudRate: '12000000' }, { baudRate: '1' }, { packetSize: '65536' }, { rxGapMs: '1000' }])
      assert.ok('body' in readSettings({ ...typed, ...edge }), JSON.stringify(edge));
  });
});
