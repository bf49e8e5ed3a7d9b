/** The serial line for the console: status, open, close, send; and its log as NDJSON. */
import type { OutgoingHttpHeaders } from 'node:http';
import { TLSSocket } from 'node:tls';
import type { Static } from '@sinclair/typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import Long from 'long';
import { LinesideError } from '../../../shared/base/errors.ts';
import {
  eventJson,
  flowControls,
  messageJson,
  parities,
  statusNumbers,
  stopBits,
} from '../../../shared/proto/line-status.ts';
import { lineside, serial } from '../../../shared/proto/services.ts';
import type { Caller } from '../access.ts';
import { NDJSON } from '../bodies.ts';
import { bytesBehindUpgrade, mayBeSlow } from '../connections.ts';
import { checkOrigin } from '../headers.ts';
import { MAX_LOG_ENTRIES, TERMINAL_TICKET_MS } from '../limits.ts';
import { type LogStream, logLines, type StreamKind, sendPieces } from '../line/line-log.ts';
import { histogramRequest, searchLines, searchRequest } from '../line/log-search.ts';
import { TERMINAL_PATH } from '../line/terminal-tickets.ts';
import { invalid } from '../problem.ts';
import { changingLine, guarded, readingLine } from '../schemas/answers.ts';
import {
  DEFAULT_EVENTS,
  EventsQuery,
  HistogramQuery,
  LineBody,
  LogQuery,
  SearchQuery,
  TerminalQuery,
} from '../schemas/line.ts';
import type { RouteParts, Routes } from './route.ts';

export function lineRoutes(routes: Routes, { line }: RouteParts): void {
  const route = routes('line');
  const status = async (): Promise<object> => statusNumbers(await line.status());
  route('GET /api/v1/line', 'viewer', {
    id: 'getLine',
    summary: 'The port, its counters, the log and the clock',
    base: readingLine,
    answer: { what: 'How it stands.', of: 'LineStatus' },
    handle: status,
  });
  route('GET /api/v1/line/ports', 'viewer', {
    id: 'listPorts',
    summary: 'List the serial ports of the box',
    base: readingLine,
    answer: { what: 'Ports.', of: 'LinePorts' },
    async handle() {
      const ports = await line.ports();
      return {
        items: ports.map(({ portName, description, hardwareId }) => ({ portName, description, hardwareId })),
      };
    },
  });
  route('GET /api/v1/line/events', 'viewer', {
    id: 'listLineEvents',
    summary: 'What happened to the line beside its traffic: the newest, or those before a known one',
    query: EventsQuery,
    base: readingLine,
    answer: { what: 'In the order of their ids.', of: 'LineEvents' },
    async handle({ query: { before = 0, limit = DEFAULT_EVENTS } }) {
      const events = await line.events(before, limit);
      return { items: events.map((event) => eventJson(event, (value) => value.toNumber())) };
    },
  });
  route('POST /api/v1/line/open', 'operator', {
    id: 'openLine',
    summary: 'Open a port, or reopen it with other settings',
    body: LineBody.open,
    base: changingLine,
    answer: { what: 'It is open.', of: 'LineStatus' },
    problems: ['PORT_NOT_FOUND', 'PORT_BUSY'],
    async handle({ body, caller }) {
      await line.open(openRequest(body), caller.name);
      return status();
    },
  });
  route('POST /api/v1/line/close', 'operator', {
    id: 'closeLine',
    summary: 'Close the port',
    base: changingLine,
    answer: { what: 'It is closed.', of: 'LineStatus' },
    async handle({ caller }) {
      await line.close(caller.name);
      return status();
    },
  });
  route('POST /api/v1/line/send', 'operator', {
    id: 'sendToLine',
    summary: 'Write bytes to the open port, as one packet',
    body: LineBody.send,
    base: changingLine,
    answer: { what: 'The kernel has taken them.', of: 'Sent' },
    problems: ['NOT_CONNECTED', 'WRITE_TIMEOUT'],
    async handle({ body, gone }) {
      const payload = sentBytes(body);
      await line.send(payload, gone);
      return { bytes: payload.length };
    },
  });
}

export function lineCommandRoutes(routes: Routes, { refdata }: RouteParts): void {
  const route = routes('line');
  const one = { what: 'The list.', of: 'LineCommands', etag: true } as const;
  route('GET /api/v1/line/commands', 'viewer', {
    id: 'getLineCommands',
    summary: 'Read the saved commands of the line',
    answer: one,
    handle: () => refdata.lineCommands(),
  });
  route('PUT /api/v1/line/commands', 'operator', {
    id: 'saveLineCommands',
    summary: 'Replace the saved commands of the line',
    body: LineBody.commands,
    version: 'required',
    answer: one,
    handle: ({ caller, body, version }) => refdata.saveLineCommands(caller.name, body.items, version),
  });
}

export function lineLogRoutes(routes: Routes, parts: RouteParts): void {
  const { line, clock } = parts;
  const route = routes('line');
  route('GET /api/v1/line/log', 'viewer', {
    id: 'readLineLog',
    summary: 'Read the serial log, and follow it',
    query: LogQuery,
    base: readingLine,
    answer: {
      what: 'A line of JSON each, by type: log (logId, headId) first; entry (id, dir, timestampMs, clock, uncorrectedTimestampMs where the clock is corrected, data in base64, note); gap (firstId, lastId, entries, bytes, fromMs, toMs, reason); position (nextAfterId) after each batch; with follow, alive at least every 2 s while the line answers; end (code, message) last, where the service ended it.',
      raw: [NDJSON, { type: 'string' }],
    },
    problems: ['LOG_REPLACED', 'LOG_LOST'],
    handle(call) {
      const request = readRequest(call.query);
      const kind = request.follow === true ? 'follow' : 'page';
      return streamLines(parts, call, kind, (stream) => logLines({ line, stream, clock, request }));
    },
  });
  route('GET /api/v1/line/log/search', 'viewer', {
    id: 'searchLineLog',
    summary: 'Search the stored serial log, one search at a time',
    query: SearchQuery,
    base: readingLine,
    answer: {
      what: 'A line of JSON each, by type: log (logId) first; match (entryId, offset, length, throughEntryId, dir, timestampMs, clock), in the order of the entries that they end in; progress (entries, bytes, positionId, throughId) a few times a second; done (reason: complete, limit or time; resumeAfterId) last, or end (code, message) where it failed. It ends after 60 s with the reason time.',
      raw: [NDJSON, { type: 'string' }],
    },
    problems: ['TOO_MANY', 'LOG_REPLACED'],
    handle(call) {
      const request = searchRequest(call.query);
      return streamLines(parts, call, 'page', (stream) => searchLines({ line, stream, clock, request }));
    },
  });
  route('GET /api/v1/line/log/histogram', 'viewer', {
    id: 'getLineLogHistogram',
    summary: 'Count the entries of the stored serial log over a span of time',
    query: HistogramQuery,
    base: readingLine,
    answer: { what: 'Entries and bytes by direction; of a long span an estimate.', of: 'LogHistogram' },
    async handle({ query, gone }) {
      const made = await line.histogram(histogramRequest(query), gone);
      return messageJson(lineside.v1.LogHistogram, made, (value) => value.toNumber());
    },
  });
}

/** `open` rejects as long as the request can be answered with a problem. */
async function streamLines(
  { streams, authenticate }: RouteParts,
  {
    caller,
    request,
    reply,
  }: { readonly caller: Caller; readonly request: FastifyRequest; readonly reply: FastifyReply },
  kind: StreamKind,
  open: (stream: LogStream) => Promise<AsyncIterable<Buffer>>,
): Promise<FastifyReply> {
  reply.type(NDJSON);
  if (request.method === 'HEAD') return reply.send('');
  const stream = streams.open({
    kind,
    reader: `${caller.name} ${request.ip}`,
    authenticate: () => authenticate(request),
  });
  reply.raw.once('close', () => stream.close());
  try {
    const source = await open(stream);
    reply.hijack();
    mayBeSlow(reply.raw);
    reply.raw.writeHead(200, reply.getHeaders() as OutgoingHttpHeaders);
    await sendPieces(reply.raw, source);
    return reply;
  } catch (error) {
    throw stream.signal.reason instanceof LinesideError ? stream.signal.reason : error;
  } finally {
    // A client that disconnected before the listener was added fires no event.
    stream.close();
  }
}

export function terminalRoutes(routes: Routes, parts: RouteParts): void {
  const { line, tickets, streams, authenticate, clock, metrics } = parts;
  const route = routes('line');
  route(`POST ${TERMINAL_PATH}/tickets`, 'operator', {
    id: 'addTerminalTicket',
    summary: 'Make the ticket for one terminal',
    base: guarded,
    answer: { status: 201, what: 'The ticket.', of: 'TerminalTicket' },
    handle(call) {
      const { caller, request } = call;
      const ticket = tickets.issue({ name: caller.name, authenticate: () => authenticate(request) });
      return call.created({ ticket, validSeconds: TERMINAL_TICKET_MS / 1_000 }, TERMINAL_PATH);
    },
  });
  route(`GET ${TERMINAL_PATH}`, 'open', {
    id: 'openTerminal',
    summary: 'Open a terminal: a WebSocket to the line, with the ticket of an operator',
    description:
      'Binary messages are bytes of the line, each of those to the box one packet of at most 16 KiB, answered by sent or refused in their order. Text messages are JSON: TerminalCommand to the box, TerminalNotice from it. First come the last received entries of the log, up to the first notice of the port; each byte comes once. alive comes at least every 5 s; end is last if the box ends it. Origin must be the address of the box.',
    query: TerminalQuery,
    base: [...guarded, 'NOT_READY'],
    answer: { status: 101, what: 'The terminal is open.' },
    async handle({ request, reply }) {
      const { ticket } = request.query as { readonly ticket?: unknown };
      const head = bytesBehindUpgrade(request.raw);
      if (head === undefined) {
        tickets.discard(ticket);
        throw new LinesideError('MALFORMED', 'a terminal is opened as a WebSocket (RFC 6455)');
      }
      const { name, authenticate } = tickets.redeem(ticket, request.ip);
      checkOrigin(request.headers, request.raw.socket instanceof TLSSocket);
      const { runTerminal } = await import('../line/terminal.ts');
      const stream = streams.open({ kind: 'terminal', reader: `${name} ${request.ip}`, authenticate });
      try {
        runTerminal({ line, stream, clock, by: name, request: request.raw, reply: reply.raw, head });
      } catch (error) {
        stream.close();
        throw error;
      }
      reply.hijack();
      metrics.answered(TERMINAL_PATH, 'GET', 101, reply.elapsedTime / 1_000);
      return reply;
    },
  });
}

const directionOf = { tx: serial.SerialLogEntry.Direction.TX, rx: serial.SerialLogEntry.Direction.RX } as const;

function readRequest(asked: Static<typeof LogQuery>): lineside.v1.ReadLogRequest.$Properties {
  const { after = 0, last, dir, limit, sinceMs, untilMs } = asked;
  const follow = asked.follow === 'true';
  const faults = [
    asked.after !== undefined && last !== undefined ? 'after and last: send one of them, not both' : '',
    limit !== undefined && last !== undefined ? 'limit: not with last, which is one' : '',
    limit !== undefined && follow ? 'limit: not with follow, which has no end' : '',
  ].filter((fault) => fault !== '');
  if (faults.length > 0) throw invalid(...faults);
  return {
    ...(last === undefined
      ? { afterId: Long.fromNumber(after, true) }
      : { last: true, limit: Long.fromNumber(last, true) }),
    ...(last === undefined && !follow && { limit: Long.fromNumber(limit ?? MAX_LOG_ENTRIES, true) }),
    ...(sinceMs !== undefined && { sinceMs: Long.fromNumber(sinceMs, true) }),
    ...(untilMs !== undefined && { untilMs: Long.fromNumber(untilMs, true) }),
    ...(dir !== undefined && { dirs: [directionOf[dir]] }),
    follow,
  };
}

function openRequest({
  flowControl = 'none',
  rxGapMs,
  ...config
}: Static<typeof LineBody.open>): lineside.v1.OpenRequest {
  const [parity, bits] = [parities.indexOf(config.parity), stopBits.indexOf(config.stopBits)];
  return lineside.v1.OpenRequest.fromObject({
    config: { ...config, parity, stopBits: bits },
    flowControl: flowControls.indexOf(flowControl),
    ...(rxGapMs !== undefined && { rxGapMs }),
  });
}

/** INVALID_ARGUMENT with the place of the fault; the bytes are not quoted. */
function sentBytes({ hex, base64 }: { readonly hex?: string; readonly base64?: string }): Uint8Array {
  if (hex !== undefined && base64 !== undefined) throw invalid('hex and base64: send one of them, not both');
  if (hex !== undefined) return hexBytes(hex);
  if (base64 !== undefined) return base64Bytes(base64);
  throw invalid('hex is missing (or base64)');
}

/** "48 65", "4865" */
function hexBytes(text: string): Uint8Array {
  const odd = text.search(/[^0-9a-fA-F\s]/);
  if (odd !== -1) throw invalid(`hex has a character at position ${odd} that is no hex digit`);
  const part = text.split(/\s+/).findIndex((digits) => digits.length % 2 === 1);
  if (part !== -1) throw invalid(`hex has an odd number of digits in its group ${part + 1}`);
  return Buffer.from(text.replaceAll(/\s+/g, ''), 'hex');
}

function base64Bytes(text: string): Uint8Array {
  // Node's decoder skips characters that it does not know.
  const isBase64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(text);
  if (!isBase64) throw invalid('base64 is not base64 (RFC 4648, with its padding)');
  return Buffer.from(text, 'base64');
}
