/** Programs in Python that know the published contracts alone: Debian's interpreter and libraries, and stubs as any user makes them. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { until, within } from '../../src/shared/base/wait.fixture.ts';
import { environment, ROOT, startProcess, temporaryDirectory } from './daemon.ts';

export const PYTHON = '/usr/bin/python3';
/** librdkafka before 2.6.1, as in Debian 12, fails to authenticate by SCRAM with Apache Kafka 4: this is a later one. */
export const LIBRARIES = { LD_LIBRARY_PATH: join(ROOT, 'node_modules/node-rdkafka/build/deps') };

/** The Debian package that lacks for these modules; false: none. */
export function pythonMissing(modules: string): string | false {
  if (spawnSync(PYTHON, ['-c', `import ${modules}`]).status !== 0) return `Debian's Python lacks one of ${modules}`;
  return spawnSync('protoc', ['--version']).status === 0 ? false : 'protoc is missing';
}

let stubs: string | undefined;

/** The directory with messages and gRPC stubs of both .proto files. */
export function stubsDir(): string {
  if (stubs !== undefined) return stubs;
  const dir = temporaryDirectory();
  // Google's own file; Debian has it in a package of 20 MB (libprotobuf-dev).
  const known = join(temporaryDirectory(), 'google/protobuf');
  mkdirSync(known, { recursive: true });
  writeFileSync(join(known, 'empty.proto'), 'syntax = "proto3";\npackage google.protobuf;\nmessage Empty {}\n');
  const plugin = spawnSync('sh', ['-c', 'command -v grpc_python_plugin'], { encoding: 'utf8' }).stdout.trim();
  assert.notEqual(plugin, '', 'grpc_python_plugin is missing: apt-get install protobuf-compiler-grpc');
  const includes = [`-I${join(ROOT, 'proto')}`, `-I${resolve(known, '../..')}`];
  const out = [`--python_out=${dir}`, `--grpc_python_out=${dir}`, `--plugin=protoc-gen-grpc_python=${plugin}`];
  const made = spawnSync('protoc', [...includes, ...out, 'lineside.proto', 'serial.proto'], { encoding: 'utf8' });
  assert.equal(made.status, 0, `protoc: ${made.error?.message ?? made.stderr}`);
  stubs = dir;
  return dir;
}

/** A program of docs/examples beside the stubs, as its first lines ask; its lines as they come, and the end of it. */
export function startExample(name: string, args: readonly string[]) {
  const program = join(stubsDir(), name);
  copyFileSync(join(ROOT, 'docs/examples', name), program);
  const child = startProcess(PYTHON, [program, ...args], environment(LIBRARIES));
  const { stdout, stderr } = child;
  if (stdout === null || stderr === null) throw new Error('no pipes to the example');
  const lines: string[] = [];
  createInterface({ input: stdout }).on('line', (line) => lines.push(line));
  const complaint = text(stderr);
  return { child, lines, ended: once(child, 'close').then(([status]) => ({ status, complaint })) };
}

/** A program that prints JSON, an object to a line, and {"end": ...} as the last: the others, and the end. */
export async function consume(
  args: readonly string[],
  input: string,
  limitMs: number,
): Promise<{ readonly lines: readonly unknown[]; readonly end: unknown }> {
  const child = startProcess(PYTHON, args, environment(LIBRARIES));
  const { stdin, stdout, stderr } = child;
  if (stdin === null || stdout === null || stderr === null) throw new Error('no pipes to the consumer');
  const lines: unknown[] = [];
  let end: unknown;
  createInterface({ input: stdout }).on('line', (line) => {
    const printed = JSON.parse(line) as { readonly end?: unknown };
    if (printed.end === undefined) lines.push(printed);
    else end = printed.end;
  });
  stdin.end(input);
  const [complaint] = await within('the consumer', Promise.all([text(stderr), once(child, 'close')]), limitMs);
  if (end === undefined) throw new Error(`the consumer did not complete:\n${complaint}`);
  return { lines, end };
}

/** A program of this folder that prints what it saw, a JSON object to a line; it ends with the file. */
export function startSeeing(name: string, ...args: readonly string[]) {
  const child = startProcess(PYTHON, [join(import.meta.dirname, name), ...args], environment());
  const lines: string[] = [];
  const complaints: string[] = [];
  if (child.stdout !== null) createInterface({ input: child.stdout }).on('line', (line) => lines.push(line));
  child.stderr?.on('data', (part) => complaints.push(String(part)));
  const seen = (at: number) =>
    until('what the program saw', () => {
      assert.ok(child.exitCode === null || lines.length > at, complaints.join(''));
      return lines[at] === undefined ? undefined : (JSON.parse(lines[at]) as Record<string, unknown>);
    });
  return { child, seen };
}
