/** The shapes of the line's requests and answers. Pure. */
import { type TObject, type TProperties, type TSchema, Type } from '@sinclair/typebox';
import { type MessageField, messages } from '../../../shared/gen/messages.js';
import {
  clockStates,
  entryClocks,
  eventKinds,
  flowControls,
  logStates,
  parities,
  portStates,
  stopBits,
} from '../../../shared/proto/line-status.ts';
import {
  commandFormats,
  lineEndings,
  MAX_COMMAND_BYTES,
  MAX_COMMANDS,
  MAX_NAME_CHARS,
  PLAIN_TEXT,
} from '../../refdata/face.ts';
import { MAX_LOG_ENTRIES } from '../limits.ts';
import { choice, count, exact, orNull, version } from './shapes.ts';

/** The protocol has 32 bits; the line checks the value. */
const number32 = (description: string, options: object = {}) =>
  Type.Integer({ description, minimum: 0, maximum: 0xffff_ffff, ...options });

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

const commandItems = Type.Array(
  exact({
    name: Type.String({
      minLength: 1,
      maxLength: MAX_NAME_CHARS,
      pattern: PLAIN_TEXT,
      description: 'Each once in the list.',
      examples: ['read status'],
    }),
    format: choice(commandFormats, 'How data is read.'),
    data: Type.String({
      minLength: 1,
      maxLength: MAX_COMMAND_BYTES,
      description: `As it is typed: text with \\n \\r \\t \\0 \\\\ and \\xNN, or hex. At most ${MAX_COMMAND_BYTES} bytes in UTF-8.`,
      examples: ['STATUS?'],
    }),
    lineEnding: choice(lineEndings, 'Sent behind a text.'),
  }),
  { maxItems: MAX_COMMANDS, description: `In the order in which they are shown; at most ${MAX_COMMANDS}.` },
);

export const LineBody = {
  open: exact({
    ...config,
    packetSize: Type.Optional(packetSize),
    flowControl: Type.Optional(choice(flowControls, 'Flow control; default: none.')),
    rxGapMs: Type.Optional(
      number32(
        'Milliseconds of silence that end a chunk of received bytes, 0 to 1000; 0: each read is a chunk; default: serial.rx_gap_ms.',
      ),
    ),
  }),
  send: exact({
    hex: Type.Optional(Type.String({ description: 'Bytes in hex, with or without spaces.', examples: ['48 65 6c'] })),
    base64: Type.Optional(Type.String({ description: 'Bytes in base64; instead of hex.' })),
  }),
  commands: exact({ items: commandItems }),
} as const;

function bound(description: string) {
  return Type.Optional(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER, description }));
}

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
  follow: Type.Optional(choice(['true', 'false'], 'true: continue with what appears, until either side ends it.')),
  dir: Type.Optional(choice(['rx', 'tx'], 'Only what was received, or sent.')),
  sinceMs: bound('Only entries with a timestampMs from here on.'),
  untilMs: bound('Only entries with a timestampMs before.'),
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: MAX_LOG_ENTRIES,
      default: MAX_LOG_ENTRIES,
      description: 'End after so many entries; not with follow or last.',
    }),
  ),
});

/** GetLogHistogram's own. */
const MAX_BUCKETS = 200;

export const HistogramQuery = exact({
  sinceMs: bound('Only entries with a timestampMs from here on; default: from the first entry.'),
  untilMs: bound('Only entries with a timestampMs before; default: to the last entry.'),
  buckets: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: MAX_BUCKETS,
      default: 100,
      description: 'Parts of the span, of the same width.',
    }),
  ),
});

/** Both are SearchLog's own. */
const MAX_PATTERN_BYTES = 1_024;
const MAX_MATCHES = 1_000;

const pattern = (description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength: 3 * MAX_PATTERN_BYTES, description }));

export const SearchQuery = exact({
  text: pattern(`What to search for: at most ${MAX_PATTERN_BYTES} bytes in UTF-8.`),
  hex: pattern('Instead of text: bytes in hex, with or without spaces; ?? is any byte.'),
  regex: pattern('Instead of text: a regular expression of RE2.'),
  ignoreCase: Type.Optional(choice(['true', 'false'], 'true: letters A to Z match in both cases; not with hex.')),
  after: bound(
    "Only matches that end in an entry with a greater id: resumeAfterId of the search before. A match that begins in an entry before is found, unless that is more than 5,000 entries or 16 MiB of the log's file before.",
  ),
  logId: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 128,
      description: 'With after: the log that it is of; another is refused.',
    }),
  ),
  dir: Type.Optional(choice(['rx', 'tx'], 'Only what was received, or sent.')),
  sinceMs: bound('Only in entries with a timestampMs from here on.'),
  untilMs: bound('Only in entries with a timestampMs before.'),
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: MAX_MATCHES, default: MAX_MATCHES, description: 'End after so many matches.' }),
  ),
});

/** Both are ListEvents' own. */
export const DEFAULT_EVENTS = 100;
const MAX_EVENTS = 1_000;

export const EventsQuery = exact({
  before: bound('Only events with a smaller id; default: the newest.'),
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: MAX_EVENTS, default: DEFAULT_EVENTS, description: 'At most so many.' }),
  ),
});

const type = <const T extends string>(name: T) => Type.Literal(name);
const modemInputs = { cts: Type.Boolean(), dsr: Type.Boolean(), dcd: Type.Boolean(), ri: Type.Boolean() };

/** What a terminal may ask for besides the bytes that it sends. */
export const terminalCommands = {
  break: exact({
    type: type('break'),
    ms: Type.Integer({ minimum: 1, maximum: 5_000, description: 'How long the line is held in break.' }),
  }),
  lines: exact({
    type: type('lines'),
    dtr: Type.Optional(Type.Boolean({ description: 'Left out: unchanged.' })),
    rts: Type.Optional(Type.Boolean({ description: 'Left out: unchanged.' })),
  }),
  hold: exact({
    type: type('hold'),
    ticket: Type.Optional(
      Type.String({ maxLength: 64, description: 'Of an earlier hold that is to continue; default: a new hold.' }),
    ),
  }),
  release: exact({ type: type('release') }),
} as const;

/** One use of the WebSocket. */
export const TerminalQuery = exact({
  ticket: Type.String({
    description: 'Of POST /api/v1/line/terminal/tickets; used up by the request, whatever its outcome.',
  }),
});

const terminalNotices = [
  exact({ type: type('port'), state: choice(portStates, 'How the port stands; the first one ends the scrollback.') }),
  exact({ type: type('lines'), dtr: Type.Boolean(), rts: Type.Boolean(), ...modemInputs }),
  exact({ type: type('sent'), bytes: count('Of one message, which the kernel has taken.') }),
  exact({
    type: type('done'),
    what: choice(['break', 'lines', 'hold', 'release'], 'The command.'),
    ticket: Type.Optional(
      Type.String({ description: 'Of a hold: with it another connection takes the hold up again.' }),
    ),
  }),
  exact({
    type: type('refused'),
    what: choice(['bytes', 'command', 'break', 'lines', 'hold', 'release'], 'command: one that could not be read.'),
    bytes: count('Of a message that was not sent.'),
    message: Type.String(),
  }),
  exact({ type: type('alive') }),
  exact({ type: type('end'), code: Type.String({ description: 'Of the problems.' }), message: Type.String() }),
] as const;

const enums: Readonly<Record<string, (description: string) => TSchema>> = {
  PortState: (description) => choice(portStates, description),
  LogState: (description) => choice(logStates, description),
  ClockState: (description) => choice(clockStates, description),
  EntryClock: (description) => choice(entryClocks, description),
  Kind: (description) => choice(eventKinds, description),
  Parity: () => framing.parity,
  StopBits: () => framing.stopBits,
  FlowControl: (description) => choice(flowControls, description),
};

/** A message of lineside.proto as line-status.ts writes it: its fields and their comments are the declaration. */
function messageSchema(message: string, own: Readonly<Record<string, TSchema>> = {}): TObject {
  const fields = (messages[message] ?? []).map((field) => [field.name, own[field.name] ?? fieldSchema(field)]);
  return exact(Object.fromEntries(fields) as TProperties);
}

function fieldSchema({ type, repeated, comment: description }: MessageField): TSchema {
  if (repeated) return Type.Array(messageSchema(type), { description });
  if (type in messages) return messageSchema(type);
  if (type === 'string') return Type.String({ description });
  if (type === 'bool') return Type.Boolean({ description });
  if (type === 'sint64') return Type.Integer({ description });
  if (type === 'uint32') return number32(description);
  return enums[type]?.(description) ?? count(description);
}

export const lineComponents = {
  LineStatus: messageSchema('LineStatus', {
    requested: orNull(exact({ ...config, packetSize }), 'What it was opened with; null: it is closed.'),
    effective: orNull(messageSchema('EffectiveSettings'), 'What the line runs with; null: it is not open.'),
    holder: orNull(messageSchema('Holder'), 'Who holds the line; null: no one.'),
    kernel: orNull(
      messageSchema('KernelCounters'),
      'Counted by the driver since it was loaded; null: it does not count.',
    ),
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
  LogHistogram: messageSchema('LogHistogram'),
  LineEvents: exact({ items: Type.Array(messageSchema('RecordedEvent')) }),
  TerminalTicket: exact({
    ticket: Type.String({ description: 'For one WebSocket.' }),
    validSeconds: count('How long it waits for its WebSocket.'),
  }),
  TerminalCommand: Type.Union(Object.values(terminalCommands), { description: 'A text message to a terminal.' }),
  TerminalNotice: Type.Union([...terminalNotices], { description: 'A text message of a terminal.' }),
  LineCommands: exact({ version, items: commandItems }),
  Sent: exact({ bytes: count('Bytes that the kernel has taken.') }),
  Caller: exact({
    name: Type.String({ description: 'Of the token; "local" on the Unix socket.' }),
    roles: Type.Array(Type.String()),
  }),
} as const;
