/** The shape of what the hub says of its machine. Pure. */
import { Type } from '@sinclair/typebox';
import { choice, count, exact } from './shapes.ts';

const figure = (description: string) =>
  Type.Unsafe<number | null>({ type: ['number', 'null'], description: `${description} null: it cannot be told.` });
const told = (description: string) =>
  choice(['yes', 'no', 'unknown'], `${description} unknown: the kernel does not tell, which is not "no".`);

export const hostComponents = {
  HostFacts: exact({
    bootId: Type.String({ description: 'Of this boot of the machine.' }),
    uptimeSeconds: count('Since the machine was switched on.'),
    ageSeconds: count('Of what was measured.'),
    temperatureCelsius: figure('Of the processor.'),
    throttled: told('The processor is slowed down now, by heat or for want of voltage.'),
    underVoltage: told('The supply voltage is too low now.'),
    memory: exact({ totalBytes: figure('All there is.'), availableBytes: figure('Without swapping.') }),
    load: exact({
      averages: Type.Array(Type.Number(), { description: 'Runnable threads over 1, 5 and 15 minutes.' }),
      processors: count('Processors.'),
      usedPercent: figure('Of all processors, over the last half minute.'),
    }),
    disk: exact({
      totalBytes: figure("Of the file system of the hub's data."),
      freeBytes: figure('Free on it.'),
      writtenBytes: figure('To the whole card since the machine was switched on.'),
      writtenBytesEver: figure('To the file system since it was made (ext4).'),
      lifeUsedPercent: figure('Of the life time of the card at most; eMMC tells in steps of ten, SD cards do not.'),
      reserve: choice(['normal', 'warning', 'urgent', 'unknown'], 'Spare blocks of the card.'),
    }),
    clock: choice(['synced', 'unsynced', 'unknown'], 'Whether time sync has set the clock in this boot.'),
    boots: exact({
      count: figure('Boots in which the hub ran on these data.'),
      powerLosses: figure('Of them, those before which it had not been stopped.'),
      afterPowerLoss: Type.Boolean({ description: 'This boot is one of them.' }),
    }),
    slot: Type.Unsafe<{ name: string; trying: boolean; dataLost: boolean; updateFailed: boolean } | null>({
      type: ['object', 'null'],
      required: ['name', 'trying', 'dataLost', 'updateFailed'],
      additionalProperties: false,
      properties: {
        name: { type: 'string', description: 'Which of the two systems runs.' },
        trying: { type: 'boolean', description: 'Not yet known to work: the next boot goes back to the other one.' },
        dataLost: { type: 'boolean', description: 'The data partition could not be mounted: all is in memory only.' },
        updateFailed: { type: 'boolean', description: 'An update did not become healthy, and the box went back.' },
      },
      description: 'Of the appliance image; null: this is none.',
    }),
  }),
} as const;
