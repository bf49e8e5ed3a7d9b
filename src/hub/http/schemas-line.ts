/** The shapes of what the routes of the line take and answer. Pure. */
import { type TSchema, Type } from '@sinclair/typebox';
import { clockStates, logStates, parities, portStates, stopBits } from '../../shared/proto/line-status.ts';
import { MAX_LOG_ENTRIES } from './limits.ts';
import { choice, count, exact } from './shapes.ts';

/** A number of 32 bits, which is what the protocol carries; the line judges the rest. */
const number32 = (description: string, options: object = {}) =>
  Type.Integer({ description, minimum: 0, maximum: 0xffff_ffff, ...options });
const orNull = <T extends TSchema>(schema: T, description: string) =>
  Type.Union([schema, Type.Null()], { description });

const framing = {
  parity: choice(parities, 'Parity bit.'),
  stopBits: Type.Unsafe<(typeof stopBits)[number]>({ type: 'number', enum: [...stopBits], description: 'Stop bits.' }),
};
const config = {
  portName: Type.String({ description: 'Name of a port, as /line/ports lists it.', examples: ['/dev/ttyAMA0'] }),
  baudRate: number32('Baud.', { examples: [115_200] }),
  dataBits: number32('5 to 8.', { examples: [8] }),
  ...framing,
};
const packetSize = number32('Bytes of a received packet; 0: any.');

export const LineBody = {
  open: exact({ ...config, packetSize: Type.Optional(packetSize) }),
  send: exact({
    hex: Type.Optional(Type.String({ description: 'Bytes in hex, with or without spaces.', examples: ['48 65 6c'] })),
    base64: Type.Optional(Type.String({ description: 'Bytes in base64; instead of hex.' })),
  }),
} as const;

export const LogQuery = exact({
  after: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'Only entries with a greater id; default: from the oldest.',
    }),
  ),
  last: Type.Optional(
    Type.Integer({ minimum: 1, maximum: MAX_LOG_ENTRIES, description: 'Instead: the last so many entries.' }),
  ),
  follow: Type.Optional(choice(['true', 'false'], 'true: go on with what appears, until either side ends it.')),
  dir: Type.Optional(choice(['rx', 'tx'], 'Only what was received, or sent.')),
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: MAX_LOG_ENTRIES,
      default: MAX_LOG_ENTRIES,
      description: 'End after so many entries; not with follow or last.',
    }),
  ),
});

const gap = exact({
  firstId: count('First id that is missing.'),
  lastId: count('Last.'),
  entries: count('How many there were.'),
  bytes: count('Their bytes.'),
  fromMs: count('When the first of them came, milliseconds since 1970.'),
  toMs: count('When the last of them came.'),
  reason: Type.String(),
});

const counters = exact({
  rxBytes: count('Received.'),
  txBytes: count('Sent.'),
  rxChunks: count('Reads that gave them.'),
  txPackets: count('Packets sent.'),
  rxDroppedPackets: count('Received packets that no client fetched.'),
  rxDroppedBytes: count('Their bytes.'),
  txFailedPackets: count('Packets that were refused or failed.'),
  rxBufferedPackets: count('Waiting to be fetched now.'),
  rxBufferedBytes: count('Their bytes.'),
  txQueuedPackets: count('Waiting to be written now.'),
  txQueuedBytes: count('Their bytes.'),
  losses: count('How often the port was lost.'),
  reopens: count('How often it came back.'),
  rxPauses: count('How often reading paused for the log.'),
  rxFetchedPackets: count('Received packets that ReceivePacket fetched.'),
});

const log = exact({
  state: choice(logStates, 'failing: entries are NOT being stored.'),
  error: Type.String({ description: 'Why not; else empty.' }),
  logId: Type.String({ description: 'Identity of the log; another one begins again at id 1.' }),
  firstId: count('Of the oldest stored entry; 0: there is none.'),
  lastId: count('Of the newest stored one.'),
  headId: count('Last one given out.'),
  usedBytes: count('That hold entries.'),
  fileBytes: count('Of its files.'),
  maxBytes: count('Limit of usedBytes.'),
  pendingEntries: count('Waiting to be stored.'),
  pendingBytes: count('Their bytes.'),
  lostEntries: count('That could not be stored.'),
  lostBytes: count('Their bytes.'),
  gaps: Type.Array(gap, { description: 'The latest ranges that could not be stored, at most 16.' }),
  prunedEntries: count('Removed by retention since the start.'),
  setAside: Type.String({ description: 'Where a damaged log was set aside at this start.' }),
  commits: count('Since the start.'),
  readBudgetUsedBytes: count('That readers hold of the 32 MiB that all readers share.'),
  waitingReaders: count('Readers that wait for a part of it.'),
});

export const lineComponents = {
  LineStatus: exact({
    portState: choice(portStates, 'State of the port.'),
    portError: Type.String({ description: 'Why it is lost; else empty.' }),
    portStateAgeMs: count('Milliseconds in this state.'),
    requested: orNull(exact({ ...config, packetSize }), 'What it was opened with; null: it is closed.'),
    effective: orNull(
      exact({
        baudRate: number32('As the kernel says.'),
        dataBits: number32('As the kernel says.'),
        ...framing,
        unverified: Type.Boolean({ description: 'The settings mean nothing there (a pseudo-terminal).' }),
        driver: Type.String({ description: 'Of the kernel, where it is known.' }),
      }),
      'What the line runs with; null: it is not open.',
    ),
    currentPortName: Type.String({ description: 'Its name now, which may be another after it was plugged in again.' }),
    counters,
    kernel: orNull(
      exact({
        frame: count('Framing errors.'),
        overrun: count('Overruns of the UART.'),
        parity: count('Parity errors.'),
        brk: count('Breaks.'),
        bufOverrun: count("Overruns of the kernel's buffer."),
        rx: count('Bytes received.'),
        tx: count('Bytes sent.'),
      }),
      'Counted by the driver since it was loaded; null: it does not count.',
    ),
    log,
    clock: exact({
      state: choice(clockStates, 'Whether the wall clock was set in this boot.'),
      correctedByMs: Type.Integer({ description: 'By how much earlier entries were corrected.' }),
    }),
    uptimeMs: count('Since the line started.'),
    version: Type.String(),
    residentBytes: count('Memory of the line.'),
    subscribers: count('Open streams of the log.'),
    configurationRefused: Type.String({ description: 'Keys with a fault that the last reload found; else empty.' }),
  }),
  LinePorts: exact({
    items: Type.Array(
      exact({
        portName: Type.String(),
        description: Type.String(),
        hardwareId: Type.String({ description: 'Stable over restarts, where the hardware has an identity.' }),
      }),
    ),
  }),
  Sent: exact({ bytes: count('Bytes that the kernel has taken.') }),
  Caller: exact({
    name: Type.String({ description: 'Of the token; "local" on the Unix socket.' }),
    roles: Type.Array(Type.String()),
  }),
  LineHistory: exact({
    intervalS: count('Seconds between two samples.'),
    samples: Type.Array(Type.Array(Type.Number(), { minItems: 6, maxItems: 6 }), {
      description:
        'Oldest first: age in seconds, bytes received, bytes sent, received packets dropped, errors (framing, parity, overruns, packets that failed), each in the interval that ended then; 1 if the port was open. Where the line did not answer there is none.',
    }),
  }),
} as const;
