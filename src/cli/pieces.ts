/** A file or standard input as pieces of a fixed size, the last one perhaps shorter. */
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { CliFailure, exitStatus } from './failure.ts';
import { counted } from './numbers.ts';
import { fileFailure } from './secrets.ts';
import { bitsPerByte } from './settings.ts';

/** serial.max_payload_bytes as it is unless the box's configuration says less. */
const maxPayloadBytes = 65_536;

/**
 * The size of a file's packets: the port's own, else what the line carries in a second, so that an answer comes well
 * within the time limit and Ctrl-C acts soon.
 */
export function pieceBytes(line: {
  baudRate: number;
  dataBits: number;
  parity: number;
  stopBits: number;
  packetSize: number;
}): number {
  if (line.packetSize !== 0) return line.packetSize;
  return Math.min(maxPayloadBytes, Math.max(1, Math.floor(line.baudRate / bitsPerByte(line))));
}

/** Opens the source; a file that cannot be cut into whole packets is refused before anything is sent. */
export async function openPieces(path: string, stdin: Readable, packetSize: number): Promise<Readable> {
  if (path === '-') return stdin;
  const info = await stat(path).catch((error: unknown) => {
    throw fileFailure('read', path, error);
  });
  if (info.isFile() && packetSize !== 0 && info.size % packetSize !== 0) {
    throw new CliFailure({
      status: exitStatus.refused,
      code: 'INVALID_ARGUMENT',
      why: `the file has ${counted(info.size, 'byte')}, no multiple of the packet size ${packetSize}; nothing was sent`,
      next: 'Pad the file, or open the port with --packet-size 0.',
    });
  }
  return createReadStream(path);
}

export function closePieces(source: Readable): void {
  source.destroy();
}

export async function* fixedPieces(source: Readable, size: number, stop: AbortSignal): AsyncGenerator<Uint8Array> {
  let held: Buffer[] = [];
  let heldBytes = 0;
  for await (const part of stoppable(source, stop)) {
    held.push(part);
    heldBytes += part.length;
    if (heldBytes < size) continue;
    const all = Buffer.concat(held);
    let at = 0;
    for (; at + size <= all.length; at += size) yield all.subarray(at, at + size);
    held = [all.subarray(at)];
    heldBytes = all.length - at;
  }
  if (heldBytes > 0) yield Buffer.concat(held);
}

async function* stoppable(source: Readable, stop: AbortSignal): AsyncGenerator<Buffer> {
  const end = (): void => void source.destroy();
  stop.addEventListener('abort', end, { once: true });
  try {
    for await (const part of source) yield Buffer.from(part as Uint8Array | string);
  } catch (error) {
    stop.throwIfAborted();
    throw fileFailure('read', 'the input', error);
  } finally {
    stop.removeEventListener('abort', end);
  }
  stop.throwIfAborted();
}
