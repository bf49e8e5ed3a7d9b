/** What a command is given: files, standard input, and JSON in them, which is kept exactly or refused. */
import { createReadStream } from 'node:fs';
import type { Readable } from 'node:stream';
import { messageOf, systemCode } from '../shared/base/errors.ts';
import { decodeUtf8, parseExactJson } from '../shared/base/json.ts';
import { CliFailure, usageFailure } from './failure.ts';
import { safeText } from './output/hex.ts';
import type { Json, JsonObject } from './output/json.ts';

/** Of the command that reads. */
interface Reader {
  readonly io: { readonly stdin: Readable };
  readonly stop: AbortSignal;
}

/** Data may have 256 KiB and a schema 64 KiB, written as densely as can be: this leaves room for any layout. */
const maxTextBytes = 1024 * 1024;

const dataHint = 'DATA is a JSON object: \'{"name": "Pump 1"}\', @FILE, or - for standard input.';
const fileHint = 'Name a file that holds one JSON object, or - for standard input.';

/** DATA of a command line: JSON text, @FILE, or - for standard input. */
export async function dataArgument(call: Reader, text: string): Promise<JsonObject> {
  if (text === '-') return jsonOfFile(call, '-', dataHint);
  if (text.startsWith('@')) return jsonOfFile(call, text.slice(1), dataHint);
  return objectOf(text, 'DATA', dataHint);
}

/** A file that holds one JSON object; -: standard input. */
export async function jsonOfFile(call: Reader, path: string, hint = fileHint): Promise<JsonObject> {
  if (path === '') throw usageFailure('no file is named', 'Write @FILE, or - for standard input.');
  const name = nameOf(path);
  const text = await wholeText(call, path, maxTextBytes, '1 MiB', (why) => refused(name, why, hint));
  if (text.trim() === '') throw refused(name, 'there is nothing in it', hint);
  return objectOf(text, name, hint);
}

/** For people: the path, or what "-" stands for. */
function nameOf(path: string): string {
  return path === '-' ? 'standard input' : path;
}

/** The whole of a small file, or of standard input (-), as UTF-8; `limit` says in words how large it may be. */
export async function wholeText(
  call: Reader,
  path: string,
  maxBytes: number,
  limit: string,
  refuse: (why: string) => CliFailure,
): Promise<string> {
  const source = path === '-' ? call.io.stdin : createReadStream(path, { signal: call.stop });
  const parts: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const part of readable(source, nameOf(path), call.stop)) {
      parts.push(part);
      bytes += part.length;
      if (bytes > maxBytes) throw refuse(`it has more than ${limit}`);
    }
  } finally {
    source.destroy();
  }
  const text = decodeUtf8(Buffer.concat(parts));
  if (text === undefined) throw refuse('it is not UTF-8');
  return text;
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

function objectOf(text: string, name: string, hint: string): JsonObject {
  const { value, fault } = parseExactJson(text);
  if (fault !== undefined) throw refused(name, `${fault.pointer === '' ? 'it' : fault.pointer} ${fault.message}`, hint);
  const json = value as Json;
  if (typeof json === 'object' && json !== null && !Array.isArray(json)) return json as JsonObject;
  throw refused(name, 'it is no JSON object', hint);
}

function refused(name: string, why: string, next: string): CliFailure {
  const details = { what: `cannot use ${safeText(name)}`, next: `Nothing was sent. ${next}` };
  return new CliFailure('refused', 'BAD_JSON', safeText(why), details);
}

const fileFaults: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file or directory',
  EACCES: 'permission denied',
  EISDIR: 'it is a directory',
  ENOSPC: 'no space left on the device',
  EROFS: 'the file system is read-only',
};

export function fileFailure(verb: string, path: string, error: unknown): CliFailure {
  const code = systemCode(error);
  const why = fileFaults[code] ?? messageOf(error);
  return new CliFailure('refused', code || 'FILE', why, { what: `cannot ${verb} ${path}`, cause: error });
}
