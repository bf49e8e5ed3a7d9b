/** Runs the CLI inside a test: streams that remember, signals by call, the real clock. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { after } from 'node:test';
import { type Clock, systemClock } from '../shared/base/clock.ts';
import { type CliParts, runCli } from './cli.ts';
import type { CliIo, StopSignal } from './io.ts';

export interface Outcome {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly bytes: Buffer;
}

export interface Running {
  readonly done: Promise<Outcome>;
  stdout(): string;
  stderr(): string;
  signal(name: StopSignal): void;
}

export interface DriveOptions extends Partial<Pick<CliParts, 'version' | 'local'>> {
  /** A stream is read as it is, and ended by the test. */
  readonly stdin?: string | Uint8Array | PassThrough;
  readonly env?: Record<string, string>;
  readonly socket?: string;
  readonly clock?: Clock;
  /** Of the hub. */
  readonly httpSocket?: string;
  readonly tty?: { readonly columns: number };
  /** Standard error is a terminal. */
  readonly errorTty?: { readonly columns: number };
}

export function start(argv: readonly string[], options: DriveOptions = {}): Running {
  const [stdout, stderr] = [collector(), collector()];
  const stdin = options.stdin instanceof PassThrough ? options.stdin : new PassThrough();
  if (stdin !== options.stdin) stdin.end(options.stdin ?? '');
  const handlers = new Map<StopSignal, () => void>();
  if (options.tty !== undefined) Object.assign(stdout.stream, { isTTY: true, columns: options.tty.columns });
  if (options.errorTty !== undefined) Object.assign(stderr.stream, { isTTY: true, columns: options.errorTty.columns });
  const io: CliIo = {
    stdin,
    stdout: stdout.stream,
    stderr: stderr.stream,
    env: options.env ?? {},
    clock: options.clock ?? systemClock,
    onSignal(name, call) {
      handlers.set(name, call);
      return () => handlers.delete(name);
    },
  };
  const parts = {
    version: options.version ?? '0.0.0',
    localSocket: (section: 'grpc' | 'http') =>
      (section === 'grpc' ? options.socket : options.httpSocket) ?? `/nonexistent/${section}.sock`,
    ...(options.local !== undefined && { local: options.local }),
  };
  const done = runCli(argv, io, parts).then((status) => {
    return { status, stdout: stdout.text(), stderr: stderr.text(), bytes: stdout.bytes() };
  });
  return { done, stdout: stdout.text, stderr: stderr.text, signal: (name) => handlers.get(name)?.() };
}

export function run(argv: readonly string[], options: DriveOptions = {}): Promise<Outcome> {
  return start(argv, options).done;
}

function collector() {
  const stream = new PassThrough();
  const parts: Buffer[] = [];
  stream.on('data', (part: Buffer) => parts.push(part));
  const bytes = (): Buffer => Buffer.concat(parts);
  return { stream, bytes, text: (): string => bytes().toString('utf8') };
}

/** Whether anything in the text could drive a terminal: C0 and C1 controls, and Unicode's invisible and direction marks. */
export function drivesTerminal(text: string): boolean {
  return /[\p{Cc}\p{Cf}]/u.test(text);
}

/** The environment of a child process that runs the CLI: nothing of the developer's own settings. */
export function cleanEnv(more: Record<string, string> = {}): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith('LINESIDE_'));
  return { ...Object.fromEntries(kept), XDG_CONFIG_HOME: '/nonexistent', ...more };
}

/** A directory for the tests of a file, removed after them. */
export function testFiles(prefix = 'lineside-cli-') {
  const dir = mkdtempSync(join(tmpdir(), prefix));
  after(() => rmSync(dir, { recursive: true }));
  const at = (name: string): string => join(dir, name);
  const file = (name: string, text: string | Uint8Array): string => {
    writeFileSync(at(name), text);
    return at(name);
  };
  return { dir, at, file };
}
