/** A command of the list, as the helper runs it. */
import { spawn } from 'node:child_process';
import { errorCatalogue, LinesideError } from '../shared/base/errors.ts';
import { objectIn } from '../shared/base/json.ts';

/** The doctor's findings are some ten KiB. */
const MAX_OUTPUT_BYTES = 1_024 * 1_024;
/** The service's own variables would move the data directory of the commands. */
const PASSED_ON = /^(PATH|HOME|LANG|TZ|NODE_\w+|MALLOC_\w+|LINESIDE_\w+)$/;

export function environmentOf(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => PASSED_ON.test(name)));
}

export interface Ended {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Killed when the signal fires, or when it prints without end. No shell. */
export function run(
  { program, given, env, input }: { program: string; given: readonly string[]; env: NodeJS.ProcessEnv; input: string },
  signal: AbortSignal,
): Promise<Ended> {
  const { promise, resolve, reject } = Promise.withResolvers<Ended>();
  const child = spawn(program, given, {
    env,
    stdio: ['pipe', 'pipe', 'pipe'],
    signal,
    killSignal: 'SIGKILL',
    cwd: '/',
  });
  // It may end without having read it.
  child.stdin.on('error', () => undefined).end(input);
  const texts = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (piece: string) => {
      texts[name] += piece;
      if (texts[name].length > MAX_OUTPUT_BYTES) child.kill('SIGKILL');
    });
  }
  let failure: Error | undefined;
  child.once('error', (error) => (failure = error));
  // Not before: what it wrote is removed then, and it must not write on.
  child.once('close', (status) =>
    failure === undefined ? resolve({ status: status ?? -1, ...texts }) : reject(failure),
  );
  return promise;
}

/** The failure that a command printed with --json, behind its warnings. */
export function failureIn(stderr: string): LinesideError | undefined {
  const line = stderr.split('\n').find((one) => one.startsWith('{'));
  const error = objectIn(line ?? '')?.['error'];
  if (typeof error !== 'object' || error === null) return undefined;
  const { code, message, next, reasons } = error as Readonly<Record<string, unknown>>;
  return new LinesideError(codeOf(code), String(message), {
    hint: typeof next === 'string' ? next : '',
    reasons: Array.isArray(reasons) ? reasons.map(String) : [],
  });
}

function codeOf(text: unknown): LinesideError['code'] {
  return typeof text === 'string' && Object.hasOwn(errorCatalogue, text) ? (text as LinesideError['code']) : 'INTERNAL';
}
