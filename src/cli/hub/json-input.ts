/** JSON that a command is given: on the command line, in a file, on standard input. Kept exactly, or refused. */
import { createReadStream } from 'node:fs';
import type { Readable } from 'node:stream';
import { decodeUtf8, parseExactJson } from '../../shared/base/exact-json.ts';
import { fileFailure } from '../connection/secrets.ts';
import { CliFailure, exitStatus, usageFailure } from '../failure.ts';
import { safeText } from '../output/hex.ts';
import type { Json, JsonObject } from '../output/json.ts';
import type { Call } from '../shell.ts';

/** Data may have 256 KiB and a schema 64 KiB, written as densely as can be: this leaves room for any layout. */
const maxTextBytes = 1024 * 1024;

/** DATA of a command line: JSON text, @FILE, or - for standard input. */
export async function dataArgument(call: Call<object>, text: string): Promise<JsonObject> {
  if (text === '-') return jsonOfFile(call, '-');
  if (text.startsWith('@')) return jsonOfFile(call, text.slice(1));
  return objectOf(text, 'DATA');
}

/** A file that holds one JSON object; -: standard input. */
export async function jsonOfFile(call: Call<object>, path: string): Promise<JsonObject> {
  if (path === '') throw usageFailure('no file is named', 'Write @FILE, or - for standard input.');
  const name = path === '-' ? 'standard input' : path;
  const source = path === '-' ? call.io.stdin : createReadStream(path, { signal: call.stop });
  const bytes = await wholeOf(source, name, call.stop);
  const text = decodeUtf8(bytes);
  if (text === undefined) throw refused(name, 'it is not UTF-8');
  if (text.trim() === '') throw refused(name, 'there is nothing in it');
  return objectOf(text, name);
}

async function wholeOf(source: Readable, name: string, stop: AbortSignal): Promise<Buffer> {
  const parts: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const part of readable(source, name, stop)) {
      parts.push(part);
      bytes += part.length;
      if (bytes > maxTextBytes) throw refused(name, 'it has more than 1 MiB');
    }
  } finally {
    source.destroy();
  }
  return Buffer.concat(parts);
}

/** The chunks of a file or of standard input; ends with the signal's reason, or a failure that names the source. */
export async function* readable(source: Readable, name: string, stop: AbortSignal): AsyncGenerator<Buffer> {
  const end = (): void => void source.destroy();
  stop.addEventListener('abort', end, { once: true });
  try {
    stop.throwIfAborted();
    for await (const part of source) yield Buffer.from(part as Uint8Array | string);
  } catch (error) {
    stop.throwIfAborted();
    throw fileFailure('read', name, error);
  } finally {
    stop.removeEventListener('abort', end);
  }
  stop.throwIfAborted();
}

function objectOf(text: string, name: string): JsonObject {
  const { value, fault } = parseExactJson(text);
  if (fault !== undefined) throw refused(name, `${fault.pointer === '' ? 'it' : fault.pointer} ${fault.message}`);
  const json = value as Json;
  if (typeof json === 'object' && json !== null && !Array.isArray(json)) return json as JsonObject;
  throw refused(name, 'it is no JSON object');
}

function refused(name: string, why: string): CliFailure {
  return new CliFailure({
    status: exitStatus.refused,
    code: 'BAD_JSON',
    what: `cannot use ${safeText(name)}`,
    why: safeText(why),
    next: 'Nothing was sent. DATA is a JSON object: \'{"name": "Pump 1"}\', @FILE, or - for standard input.',
  });
}
