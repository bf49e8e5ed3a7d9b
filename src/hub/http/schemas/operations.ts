/** The shapes of operations: the outbox, dead letters, the audit, alerts, the machine. Pure. */
import { Type } from '@sinclair/typebox';
import type { JsonObject } from '../../outbox/event.ts';
import { businessKey } from './refdata.ts';
import { choice, count, dictionaryName, exact, jsonObject, orNull, page, scope, time } from './shapes.ts';

export const AuditQuery = exact({
  action: Type.Optional(Type.String({ description: 'Only records of this action.', examples: ['outbox.dlq'] })),
  ...page,
});

/** Which events of the outbox are listed. */
export const EventQuery = exact({
  dictionary: Type.Optional(Type.String({ description: 'Only those of this dictionary.', examples: ['site.rooms'] })),
  businessKey: Type.Optional(
    Type.String({ description: 'Only those of records with this key.', examples: ['room-12'] }),
  ),
  ...page,
});

/** Of an event in the outbox. */
const event = {
  id: Type.Integer(),
  topic: Type.String(),
  scope,
  dictionary: dictionaryName,
  businessKey,
  action: choice(['created', 'updated', 'closed'], 'What the change was.'),
  txTime: time('Of the change.'),
  attempts: count('Refusals.'),
};

const figure = (description: string) =>
  Type.Unsafe<number | null>({ type: ['number', 'null'], description: `${description} null: unknown.` });
const yesOrNo = (description: string) =>
  choice(['yes', 'no', 'unknown'], `${description} unknown: the kernel does not report it, which does not mean "no".`);

export const operationComponents = {
  OutboxStatus: exact({
    waiting: count('Rows that the broker has still to acknowledge.'),
    oldest: Type.Optional(
      exact({ id: Type.Integer(), txTime: time('Of its transaction.'), ageSeconds: Type.Number() }),
    ),
    inFlight: count('Rows in flight.'),
    inFlightBytes: count('Their bytes.'),
    publishedTotal: count('Acknowledged since the start.'),
    refusedTotal: count('Refusals by a broker that was reached, since the start.'),
    unreachedTotal: count('Sendings that reached no broker, since the start.'),
    prunedTotal: count(
      'Oldest events removed unpublished, since the start: no broker, and outbox.max_bytes was reached.',
    ),
    deadLetters: count('Rows that cannot be published.'),
    blockedKeys: Type.Array(
      exact({
        topic: Type.String(),
        key: Type.String({ description: '<dictionary>:<businessKey>' }),
        outboxId: Type.Integer(),
        attempts: count('Refusals of its first row.'),
        reason: Type.String(),
        nextAttemptInSeconds: Type.Number(),
      }),
      { description: 'At most 100.' },
    ),
    blockedKeyCount: count('Of all.'),
    broker: exact({
      configured: Type.Boolean({ description: 'false: kafka.bootstrap is empty, rows wait.' }),
      connected: Type.Boolean(),
      reason: Type.String(),
      forSeconds: Type.Number(),
      producersReplaced: count('Times since the start that the client was recreated after a fatal error.'),
      topics: Type.Array(
        exact({
          name: Type.String(),
          partitions: count('0: not there, or not known yet.'),
          lacks: Type.Array(Type.String()),
        }),
      ),
    }),
  }),
  WaitingEvent: exact({
    ...event,
    waitsFor: choice(
      ['broker', 'retry', 'earlier', 'topic', 'turn'],
      'broker: none is configured, or it is not connected; retry: it was refused or not reached; earlier: an event of the same record is sent first; topic: too many records of the topic are refused; turn: it is in flight, or is sent soon.',
    ),
    reason: Type.String({ description: 'In words.' }),
    nextAttemptInSeconds: orNull(Type.Number({ minimum: 0 }), 'null: it has no time of its own.'),
  }),
  DeadLetter: exact({
    ...event,
    diedAt: time('When it was abandoned.'),
    reason: Type.String(),
    envelope: Type.Unsafe<JsonObject | null>({
      type: ['object', 'null'],
      description: 'The event as it would have been sent; null where its scope is not open to the caller.',
    }),
  }),
  AuditRecord: exact({
    id: Type.Integer(),
    at: time('When.'),
    actor: Type.String(),
    action: Type.String({ examples: ['outbox.dlq'] }),
    subject: Type.String(),
    details: jsonObject('What belongs to the action.'),
  }),
  Alert: exact({
    name: Type.String({ examples: ['RefdataOutboxLagHigh'] }),
    severity: choice(['info', 'warning', 'critical'], 'How bad it is.'),
    forSeconds: Type.Number(),
    summary: Type.String(),
    value: Type.Number(),
  }),
  Health: exact({
    status: Type.Literal('ok'),
    version: Type.String(),
    name: Type.String({ description: 'Host name of the box.', examples: ['press-04'] }),
    deviceId: Type.String({ examples: ['lineside-1a2b3c4d5e6f'] }),
  }),
  HostFacts: exact({
    bootId: Type.String({ description: 'Of this boot of the machine.' }),
    uptimeSeconds: count('Since the machine was switched on.'),
    ageSeconds: count('Of what was measured.'),
    temperatureCelsius: figure('Of the processor.'),
    throttled: yesOrNo('The processor is throttled now, because of heat or low voltage.'),
    underVoltage: yesOrNo('The supply voltage is too low now.'),
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
      lifeUsedPercent: figure(
        'Upper limit of the used life time of the card. eMMC reports it in steps of ten; SD cards do not report it.',
      ),
      reserve: choice(
        ['normal', 'warning', 'urgent', 'unknown'],
        'Spare blocks of the card; warning: 80 % are used, urgent: 90 %.',
      ),
    }),
    clock: choice(['synced', 'unsynced', 'unknown'], 'Whether time sync has set the clock in this boot.'),
    boots: exact({
      count: figure('Boots in which the hub ran on these data.'),
      powerLosses: figure('Of them, those before which it had not been stopped.'),
      afterPowerLoss: Type.Boolean({ description: 'This boot is one of them.' }),
    }),
    slot: orNull(
      exact({
        name: Type.String({ description: 'Which of the two systems runs.' }),
        trying: Type.Boolean({
          description: 'On trial: after three starts without success the box returns to the other one.',
        }),
        dataLost: Type.Boolean({ description: 'The data partition could not be mounted: all is in memory only.' }),
        updateFailed: Type.Boolean({ description: 'An update did not become healthy, and the box went back.' }),
      }),
      'Of the appliance image; null: this is none.',
    ),
    hub: exact({
      configurationRefused: Type.String({
        description:
          'What the hub found wrong with the configuration file at the last reload: the keys or lines with a fault. The hub uses the configuration of before. Empty when the file was taken.',
      }),
      listenerFault: Type.String({
        description:
          'Addresses that the hub should serve and does not, each with the reason. Empty when all are served.',
      }),
    }),
  }),
} as const;
