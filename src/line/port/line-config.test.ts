import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type OpenRequest, validateOpen } from './line-config.ts';

const good: OpenRequest = {
  portName: '/dev/ttyAMA0',
  baudRate: 115_200,
  dataBits: 8,
  parity: 0,
  stopBits: 0,
  packetSize: 0,
};

describe('the arguments of Open', () => {
  const accepted: Partial<OpenRequest>[] = [
    {},
    { baudRate: 1 },
    { baudRate: 12_000_000 },
    { dataBits: 5, stopBits: 1 },
    { dataBits: 7, parity: 3, stopBits: 2 },
    { parity: 4 },
    { packetSize: 65_536 },
    { flowControl: 2 },
    { rxGapMs: 0 },
    { rxGapMs: 1_000 },
    // No port has such a name: that is for the inventory to say.
    { portName: 'x'.repeat(5_000) },
    { portName: '/dev/tty\0' },
  ];
  for (const change of accepted)
    it(`accepts ${JSON.stringify(change)}`, () =>
      assert.deepEqual(validateOpen({ ...good, ...change }), { flowControl: 0, ...good, ...change }));

  const refused: [Partial<OpenRequest>, RegExp][] = [
    [{ portName: '' }, /^port_name: is empty$/],
    [{ baudRate: 0 }, /^baud_rate: 0 is not 1 to 12000000$/],
    [{ baudRate: 12_000_001 }, /^baud_rate: /],
    [{ baudRate: 4_294_967_295 }, /^baud_rate: /],
    [{ baudRate: 9600.5 }, /^baud_rate: /],
    [{ dataBits: 0 }, /^data_bits: 0 is not 5, 6, 7 or 8$/],
    [{ dataBits: 4 }, /^data_bits: /],
    [{ dataBits: 9 }, /^data_bits: /],
    [{ parity: 5 }, /^parity: 5 is no Parity$/],
    [{ parity: -1 }, /^parity: /],
    [{ stopBits: 3 }, /^stop_bits: 3 is no StopBits$/],
    [{ stopBits: 1 }, /^stop_bits: 1.5 stop bits exist with 5 data bits only, not with 8$/],
    [{ packetSize: 65_537 }, /^packet_size: /],
    [{ rxGapMs: 1_001 }, /^rx_gap_ms: 1001 is not 0 to 1000$/],
    [{ rxGapMs: 2.5 }, /^rx_gap_ms: /],
    [{ flowControl: 3 }, /^flow_control: 3 is no FlowControl$/],
    [{ baudRate: 0, dataBits: 9, parity: 7 }, /^baud_rate: .*; data_bits: .*; parity: /],
  ];
  for (const [change, message] of refused)
    it(`refuses ${JSON.stringify(change).slice(0, 60)}`, () =>
      assert.throws(() => validateOpen({ ...good, ...change }), { code: 'INVALID_ARGUMENT', message }));
});
