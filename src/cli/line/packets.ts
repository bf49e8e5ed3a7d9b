/** send and receive: packets to the line, and packets out of its incoming buffer. */

import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import Long from 'long';
import { pause } from '../../shared/base/clock.ts';
import { visibleText } from '../../shared/log-formats/byte-text.ts';
import type { serial } from '../../shared/proto/services.ts';
import { type Entry, type Given, option } from '../command.ts';
import { checkAnswer } from '../connection/service.ts';
import { CliFailure, exitStatus, usageFailure } from '../failure.ts';
import { fileFailure, readable } from '../input.ts';
import { parseHex, safeText, spacedHex, textBytes } from '../output/hex.ts';
import { dataJson, jsonLine } from '../output/json.ts';
import { byteSize, counted, exact, parseUint64, secondsAsMs, wholeNumber } from '../output/numbers.ts';
import type { Args, Call } from '../shell.ts';
import { currentConfig } from './port.ts';
import { bitsPerByte } from './settings.ts';

/** What the port is open with, as far as packets go. */
export type Line = Pick<serial.SerialConfig, 'baudRate' | 'dataBits' | 'parity' | 'stopBits' | 'packetSize'>;

/** Between two looks into an empty buffer: the contract has no waiting receive. `log --follow` shows bytes at once. */
const pollMs = 50;
export const longestWaitSeconds = 86_400;

const sendOptions = [
  option('--hex <bytes>', 'bytes in hex: "01 03 00 0a"'),
  option(
    '--file <file>',
    'a file (-: standard input), cut into packets of --packet-size, else of up to a second of the line',
  ),
  option('--escape', 'understand \\r \\n \\t \\0 \\e \\\\ and \\xNN in the text'),
  option('--crlf', 'end the text with CR LF'),
  option('--cr', 'end the text with CR'),
  option('--seq <n>', 'seq_id of the first packet (default 1)', { parse: parseUint64 }),
] as const;
type SendOptions = Given<typeof sendOptions>;

const receiveOptions = [
  option('--wait <seconds>', 'wait so long for each packet', { parse: secondsAsMs(longestWaitSeconds), usual: 0 }),
  option('--count <n>', 'how many packets', { parse: wholeNumber(1, Number.MAX_SAFE_INTEGER), usual: 1 }),
  option('--hex', 'print hex'),
  option('--raw', 'print the bytes as they are'),
] as const;
type ReceiveOptions = Given<typeof receiveOptions>;

export const packetCommands: readonly Entry[] = [
  {
    command: 'send',
    help: 'send text, hex bytes or a file; done when the kernel has taken every byte',
    arguments: [{ name: '[text]', help: 'text to send, as UTF-8' }],
    options: sendOptions,
    examples: [
      'lineside send AT --cr',
      'lineside send --escape "\\x02READ\\x03"',
      'lineside send --hex "01 03 00 00 00 0a c5 cd"',
      'lineside send --file firmware.bin',
    ],
    what: 'send',
    run: send,
  },
  {
    command: 'receive',
    help: 'take received packets from the buffer; each goes to one caller only (the log keeps them for all)',
    options: receiveOptions,
    examples: ['lineside receive', 'lineside send AT --cr && lineside receive --wait 2 --hex'],
    what: 'receive',
    run: receive,
  },
];

/** Counts what was sent. */
interface Tally {
  packets: number;
  bytes: number;
  next: Long;
}

async function send(call: Call<SendOptions>, { text }: Args): Promise<number> {
  const { options } = call;
  const payload = inlinePayload(text, options);
  const line = await currentConfig(call);
  const first = options.seq ?? Long.UONE;
  const tally: Tally = { packets: 0, bytes: 0, next: first };
  if (payload !== undefined) await sendPacket(call, line, payload, tally);
  else await sendFile(call, line, options.file ?? '-', tally);
  if (tally.packets === 0) throw new CliFailure('refused', 'EMPTY', 'there is nothing in the file');
  const { packets, bytes } = tally;
  const sent = { packets, bytes, firstSeqId: exact(first), lastSeqId: exact(tally.next.subtract(1)) };
  return call.print(sent, `sent ${counted(bytes, 'byte')} in ${counted(packets, 'packet')}`);
}

/** The bytes of text or hex; undefined for a file. */
function inlinePayload(text: string | undefined, options: SendOptions): Uint8Array | undefined {
  const sources = [text, options.hex, options.file].filter((source) => source !== undefined);
  if (sources.length !== 1) throw usageFailure('give exactly one of TEXT, --hex and --file');
  const onlyText = options.escape ?? options.crlf ?? options.cr;
  if (text === undefined && onlyText !== undefined) throw usageFailure('--escape, --crlf and --cr go with TEXT');
  if (options.crlf === true && options.cr === true) throw usageFailure('--crlf and --cr exclude each other');
  const payload = text === undefined ? options.hex && parseHex(options.hex) : textPayload(text, options);
  if (payload !== undefined && payload.length === 0) throw usageFailure('there is nothing to send');
  return payload === '' ? undefined : payload;
}

function textPayload(text: string, options: SendOptions): Uint8Array {
  const body = textBytes(text, options.escape === true);
  const end = options.crlf === true ? '\r\n' : options.cr === true ? '\r' : '';
  return Uint8Array.from(Buffer.concat([body, Buffer.from(end)]));
}

async function sendFile(call: Call<SendOptions>, line: Line, path: string, tally: Tally): Promise<void> {
  const source = path === '-' ? call.io.stdin : await openPieces(path, line.packetSize);
  try {
    for await (const piece of fixedPieces(source, pieceBytes(line), call.stop)) {
      if (line.packetSize !== 0 && piece.length !== line.packetSize) {
        const done = tally.packets === 0 ? 'nothing was sent' : `${counted(tally.bytes, 'byte')} were sent before`;
        const rest = counted(piece.length, 'byte');
        throw unfilled(`the last ${rest} do not fill a packet of ${line.packetSize}; ${done}`);
      }
      await sendPacket(call, line, piece, tally);
    }
  } finally {
    source.destroy();
  }
}

function unfilled(why: string): CliFailure {
  const next = 'Pad the file, or open the port with --packet-size 0.';
  return new CliFailure('refused', 'INVALID_ARGUMENT', why, { next });
}

async function sendPacket(call: Call<object>, line: Line, payload: Uint8Array, tally: Tally): Promise<void> {
  const seqId = tally.next;
  try {
    const answer = await call.line(
      ({ serial }, options) => serial.sendPacket({ seqId, payload }, options),
      lineTimeMs(line, payload.length),
    );
    checkAnswer(answer);
    if (!answer.echoSeqId.equals(seqId)) {
      const why = `the service answered packet ${exact(answer.echoSeqId)} instead of ${exact(seqId)}`;
      throw new CliFailure('refused', 'ECHO_MISMATCH', why);
    }
  } catch (error) {
    throw error instanceof CliFailure ? error.during(sending(tally)) : error;
  }
  tally.packets += 1;
  tally.bytes += payload.length;
  tally.next = seqId.add(1);
}

function sending(tally: Tally): string {
  return tally.packets === 0
    ? 'cannot send'
    : `cannot send packet ${tally.packets + 1} (${byteSize(tally.bytes)} were sent before it)`;
}

/** How long the line needs for so many bytes; 0 when it is closed. */
function lineTimeMs(line: Line, bytes: number): number {
  return line.baudRate === 0 ? 0 : Math.ceil((bytes * bitsPerByte(line) * 1000) / line.baudRate);
}

// A file or standard input as pieces of a fixed size, the last one perhaps shorter.

/** serial.max_payload_bytes as it is unless the box's configuration says less. */
export const maxPayloadBytes = 65_536;

/** The bytes as pieces of a size, and what does not fill one. */
export function pieces(all: Buffer, size: number): { readonly whole: Buffer[]; readonly rest: Buffer } {
  const count = Math.floor(all.length / size);
  const whole = Array.from({ length: count }, (_, n) => all.subarray(n * size, (n + 1) * size));
  return { whole, rest: all.subarray(count * size) };
}

/**
 * The size of a file's packets: the port's own, else what the line carries in a second, so that an answer comes well
 * within the time limit and Ctrl-C acts soon.
 */
export function pieceBytes(line: Line): number {
  if (line.packetSize !== 0) return line.packetSize;
  return Math.min(maxPayloadBytes, Math.max(1, Math.floor(line.baudRate / bitsPerByte(line))));
}

/** Opens a file; one that cannot be cut into whole packets is refused before anything is sent. */
export async function openPieces(path: string, packetSize: number): Promise<Readable> {
  const info = await stat(path).catch((error: unknown) => {
    throw fileFailure('read', path, error);
  });
  if (info.isFile() && packetSize !== 0 && info.size % packetSize !== 0) {
    const bytes = counted(info.size, 'byte');
    throw unfilled(`the file has ${bytes}, no multiple of the packet size ${packetSize}; nothing was sent`);
  }
  return createReadStream(path);
}

export async function* fixedPieces(source: Readable, size: number, stop: AbortSignal): AsyncGenerator<Uint8Array> {
  let held: Buffer[] = [];
  let heldBytes = 0;
  for await (const part of readable(source, 'the input', stop)) {
    held.push(part);
    heldBytes += part.length;
    if (heldBytes < size) continue;
    const { whole, rest } = pieces(Buffer.concat(held), size);
    yield* whole;
    held = [rest];
    heldBytes = rest.length;
  }
  if (heldBytes > 0) yield Buffer.concat(held);
}

async function receive(call: Call<ReceiveOptions>): Promise<number> {
  if ([call.options.hex, call.options.raw, call.json].filter((on) => on === true).length > 1) {
    throw usageFailure('--hex, --raw and --json exclude each other');
  }
  for (let taken = 0; taken < call.options.count; taken += 1) {
    const packet = await nextPacket(call);
    if (packet === undefined) throw nothingReceived(taken, call.options);
    await warnOfDrops(call, packet);
    await call.out.write(packetText(packet, call));
  }
  return exitStatus.ok;
}

/** A packet, or undefined when none came in time. */
async function nextPacket(call: Call<ReceiveOptions>): Promise<serial.Packet | undefined> {
  const until = call.io.clock.monoMs() + call.options.wait;
  for (;;) {
    const packet = await call
      .line(({ serial }, options) => serial.receivePacket({}, options))
      .catch((error: unknown) => {
        if (error instanceof CliFailure && error.code === 'NOT_FOUND') return undefined;
        throw error;
      });
    const leftMs = until - call.io.clock.monoMs();
    if (packet !== undefined || leftMs <= 0) return packet;
    await pause(call.io.clock, Math.min(pollMs, leftMs), call.stop);
    call.stop.throwIfAborted();
  }
}

function nothingReceived(taken: number, options: ReceiveOptions): CliFailure {
  const why = taken === 0 ? 'nothing was received' : `only ${taken} of ${options.count} packets were received`;
  const next = options.wait === 0 ? 'Wait for the device with --wait SECONDS.' : '';
  return new CliFailure('nothing', 'NOT_FOUND', why, { next });
}

async function warnOfDrops(call: Call<object>, packet: serial.Packet): Promise<void> {
  const dropped = packet.tags['dropped_packets'];
  if (dropped === undefined || call.json) return;
  await call.err.write(
    `lineside: ${safeText(dropped)} packets before this one were dropped: the buffer was full (the log has them)\n`,
  );
}

function packetText(packet: serial.Packet, call: Call<ReceiveOptions>): string | Uint8Array {
  const { payload } = packet;
  if (call.json) return jsonLine({ seqId: exact(packet.seqId), ...dataJson(payload, 'hex'), tags: packet.tags });
  if (call.options.raw === true) return payload;
  return `${call.options.hex === true ? spacedHex(payload) : visibleText(payload)}\n`;
}
