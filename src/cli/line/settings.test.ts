import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { logStates, parities, portStates, stopBits } from '../../shared/proto/line-status.ts';
import { lineside, serial } from '../../shared/proto/services.ts';
import { CliFailure, exitStatus } from '../failure.ts';
import { openConfig } from './port.ts';
import { parseSettings, settingsText } from './settings.ts';

const isUsage = (error: unknown): boolean => error instanceof CliFailure && error.status === exitStatus.usage;

describe('line settings', () => {
  it('reads and writes the short form', () => {
    assert.deepEqual(parseSettings('115200,8N1'), { baudRate: 115_200, dataBits: 8, parity: 0, stopBits: 0 });
    assert.deepEqual(parseSettings('300/5m1.5'), { baudRate: 300, dataBits: 5, parity: 3, stopBits: 1 });
    assert.deepEqual(parseSettings('9600'), { baudRate: 9600 });
    const wrong = {
      fast: 'speed',
      '': 'speed',
      '9600,9N1': 'not 9',
      '9600,8X1': 'not X',
      '9600,8N3': 'not 3',
      '9600,8N1.': 'not 1.',
    };
    for (const [text, named] of Object.entries({ ...wrong, '96000000000': '96000000000 baud' })) {
      assert.throws(
        () => parseSettings(text),
        (error) => isUsage(error) && error instanceof CliFailure && error.message.includes(named),
        text,
      );
    }
    assert.equal(settingsText({ baudRate: 9600, dataBits: 7, parity: 4, stopBits: 1 }), '9600,7S1.5');
    assert.equal(openConfig('/dev/x', '9600,7E1', { parity: 'odd', packetSize: 0, flowControl: 'none' }).parity, 2);
  });

  it('numbers parities, stop bits and states as the contract does', () => {
    const { PortState, LogState } = lineside.v1;
    for (const [names, numbers, prefix] of [
      [parities, serial.Parity, 'PARITY'],
      [portStates, PortState, 'PORT_STATE'],
      [logStates, LogState, 'LOG_STATE'],
    ] as const)
      for (const [at, name] of names.entries())
        assert.equal(numbers[at], `${prefix}_${name.toUpperCase().replace('UNKNOWN', 'UNSPECIFIED')}`);
    const bits = stopBits.map((_, at) => serial.StopBits[at]);
    assert.deepEqual(bits, ['STOPBITS_ONE', 'STOPBITS_ONE_POINT_FIVE', 'STOPBITS_TWO']);
  });
});
