/** The compiled command line, run as people run it. */
import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { buffer, text } from 'node:stream/consumers';
import { within } from '../../src/shared/base/wait.fixture.ts';
import { environment, MAIN, NODE, startProcess } from './daemon.ts';

export interface CliOutcome {
  readonly status: number;
  readonly stdout: string;
  readonly bytes: Buffer;
  readonly stderr: string;
}

export interface CliOptions {
  readonly stdin?: string | Uint8Array;
  readonly env?: Readonly<Record<string, string>>;
  /** A command that runs it, such as setpriv with its options. */
  readonly before?: readonly string[];
  /** Another program than the compiled one. */
  readonly cli?: readonly string[];
}

export async function runCli(args: readonly string[], options: CliOptions = {}): Promise<CliOutcome> {
  const [program = NODE, ...words] = [...(options.before ?? []), ...(options.cli ?? [NODE, MAIN]), ...args];
  const child = startProcess(program, words, environment(options.env));
  const { stdin, stdout, stderr } = child;
  if (stdin === null || stdout === null || stderr === null) throw new Error('no pipes to the command');
  // A command that has failed already does not read.
  stdin.on('error', () => {});
  stdin.end(options.stdin ?? '');
  const [bytes, complaint, [status]] = await within(
    `lineside ${args.join(' ')}`,
    Promise.all([buffer(stdout), text(stderr), once(child, 'close') as Promise<[number]>]),
  );
  return { status, bytes, stdout: bytes.toString('utf8'), stderr: complaint };
}

/** The new token. */
export async function addToken(configFile: string, name: string, ...roles: readonly string[]): Promise<string> {
  const args = roles.flatMap((role) => ['--role', role]);
  const { status, stdout, stderr } = await runCli(['token', 'add', name, ...args, '--config', configFile]);
  assert.equal(status, 0, stderr);
  return stdout.trim().split('\n').at(-1) ?? '';
}

/** One that runs until it gets a signal. */
export interface RunningCli {
  readonly process: ChildProcess;
  stdout(): string;
  stderr(): string;
  /** Sends the signal and resolves with the exit status. */
  end(signal?: NodeJS.Signals): Promise<number>;
}

export function startCli(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  [program = NODE, ...words]: readonly string[] = [NODE, MAIN],
): RunningCli {
  const child = startProcess(program, [...words, ...args], environment(env));
  const [out, err] = [remember(child.stdout), remember(child.stderr)];
  return {
    process: child,
    stdout: out,
    stderr: err,
    async end(signal = 'SIGINT') {
      const closed = once(child, 'close') as Promise<[number]>;
      child.kill(signal);
      const [status] = await within(`the end of lineside ${args.join(' ')}`, closed);
      return status;
    },
  };
}

export function remember(stream: NodeJS.ReadableStream | null): () => string {
  const parts: Buffer[] = [];
  stream?.on('data', (part: Buffer) => parts.push(part));
  return () => Buffer.concat(parts).toString('utf8');
}
