/** `lineside collector serve` as a process that is killed and started again at the same port, and what it has stored. */
import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { until, within } from '../../src/shared/base/wait.fixture.ts';
import { environment, MAIN, NODE, signalPid, startProcess } from './daemon.ts';
import { runCli } from './run-cli.ts';

/** Below the ports that the kernel assigns: it stays free while the collector is down. */
const PORTS = { from: 15_000, to: 30_000 };
const START_MS = 60_000;

export type CollectorProcess = Awaited<ReturnType<typeof startCollector>>;

/** `port` 0: one that is free. */
export async function startCollector(dir: string, port = 0, more: readonly string[] = []) {
  for (;;) {
    const asked = port === 0 ? randomInt(PORTS.from, PORTS.to) : port;
    const args = ['collector', 'serve', '--listen', `127.0.0.1:${asked}`, '--dir', dir, ...more];
    const child = startProcess(NODE, [MAIN, ...args], environment());
    const logLines: string[] = [];
    if (child.stderr !== null) createInterface({ input: child.stderr }).on('line', (line) => logLines.push(line));
    let isOver = false;
    const closed = once(child, 'close').then(([status, signal]: (number | string | null)[]) => {
      isOver = true;
      return status ?? signal;
    });
    const isUp = (): boolean => logLines.some((line) => line.includes('collector ready'));
    await until('the collector is ready, or over', () => isUp() || isOver, START_MS);
    if (!isUp()) {
      assert.ok(port === 0 && logLines.join().includes('EADDRINUSE'), logLines.join('\n'));
      continue;
    }
    const end = (signal: 'SIGKILL' | 'SIGTERM') => {
      signalPid(child.pid ?? 0, signal);
      return within(`the collector ends after ${signal}`, closed);
    };
    return {
      port: asked,
      dir,
      logLines,
      kill: async (): Promise<void> => void (await end('SIGKILL')),
      /** SIGTERM; answers the exit status. */
      async stop(): Promise<number> {
        const status = await end('SIGTERM');
        assert.equal(typeof status, 'number', logLines.join('\n'));
        return Number(status);
      },
    };
  }
}

export interface Gap {
  readonly cause: string;
  readonly firstId: number;
  readonly lastId: number;
}

/** A log as `collector read` prints it: entries as the objects of `log export`, and gaps. */
export async function collected(dir: string, device: string): Promise<{ entries: unknown[]; gaps: Gap[] }> {
  const objects = await objectsOf(['collector', 'read', '--dir', dir, '--device', device, '--json'], [0, 5]);
  return {
    entries: objects.filter(({ log, gap }) => log === undefined && gap === undefined),
    gaps: objects.flatMap(({ gap }) => (gap === undefined ? [] : [gap])),
  };
}

/** The log of the box by its own command. */
export function exported(socket: string): Promise<unknown[]> {
  return objectsOf(['log', 'export', '--format', 'jsonl', '--socket', socket], [0]);
}

async function objectsOf(args: readonly string[], good: readonly number[]) {
  const { status, stdout, stderr } = await runCli(args);
  assert.ok(good.includes(status), stderr);
  const lines = stdout.split('\n').filter((line) => line !== '');
  return lines.map((line) => JSON.parse(line) as { log?: unknown; gap?: Gap });
}
