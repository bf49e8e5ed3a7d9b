/** Compiles and steers uart.c: a port behind a UART that reports its bytes in bursts, at the pace of the baud rate. */
import { spawnSync } from 'node:child_process';
import { basename, join } from 'node:path';
import { createInterface } from 'node:readline';
import { within } from '../../src/shared/base/wait.fixture.ts';
import { startProcess, temporaryDirectory } from './daemon.ts';

/** What was written: `writes` are the bursts, `at` their offsets in the frame. */
export interface WrittenFrame {
  readonly hex: string;
  readonly writes: readonly { readonly at: number; readonly wallMs: number; readonly lateMs: number }[];
  /** A stop of the process in the midst of it; handedOver: the kernel had handed over all that was written, at its end. */
  readonly stop?: { readonly fromMs: number; readonly toMs: number; readonly handedOver: boolean };
}

export interface Uart {
  readonly slavePath: string;
  /** Runs a command; gives the frames that it wrote. */
  run(command: string): Promise<WrittenFrame[]>;
}

/** Path of a program, compiled; `more`: what it needs beside libutil. */
export function compiled(source: string, ...more: readonly string[]): string {
  const program = join(temporaryDirectory(), basename(source, '.c'));
  const { status, error, stderr } = spawnSync('cc', ['-O2', '-o', program, source, ...more, '-lutil'], {
    encoding: 'utf8',
  });
  if (status === 0) return program;
  throw new Error(`${source} needs a C compiler (apt-get install gcc libc6-dev): ${error?.message ?? stderr}`);
}

export async function startUart(): Promise<Uart> {
  const child = startProcess(compiled(join(import.meta.dirname, 'uart.c')), []);
  if (child.stdout === null || child.stdin === null) throw new Error('no pipes to uart.c');
  const { stdin } = child;
  child.stderr?.pipe(process.stderr);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async (what: string): Promise<string> => {
    const { value, done } = await within(what, lines.next(), 60_000);
    if (done === true) throw new Error(`uart.c ended: ${what}`);
    return value;
  };
  return {
    slavePath: await next('the path of the port'),
    async run(command) {
      stdin.write(`${command}\n`);
      const frames: WrittenFrame[] = [];
      for (;;) {
        const line = await next(command);
        if (line === '') return frames;
        frames.push(JSON.parse(line) as WrittenFrame);
      }
    },
  };
}
