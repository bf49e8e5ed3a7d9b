/** Whether a card that holds every fsync for half a second is ever felt on the thread that reads the UART. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../../../src/shared/base/wait.fixture.ts';
import { temporaryDirectory } from '../../e2e/daemon.ts';
import { requireCommand } from '../processes.ts';
import { startLineside } from '../stations.ts';
import { inTurns, more, type Row } from '../table.ts';

const BAUD = 115_200;
const RECORD_BYTES = 16;
const FSYNC_MICROSECONDS = 500_000;
/** A twentieth of what is injected: two runs of a shared machine differ by as much. */
const NOISE_MS = 25;

interface Stall {
  /** Between two arrivals at the subscriber. */
  readonly longestGapMs: number;
  /** From the write on the PTY to the subscriber. */
  readonly longestDelayMs: number;
  readonly fsyncs: number;
}

export const stall: Row = {
  name: 'stall',
  async run({ quick, say }) {
    requireCommand('strace', 'apt-get install strace');
    const seconds = quick ? 5 : 15;
    const found = await inTurns(
      { rounds: quick ? 1 : 3 },
      { plain: () => measure(false, seconds), injected: () => measure(true, seconds) },
      (kind, one) => say(`${kind}: ${show(one)}`),
    );
    const [plain, injected] = [worst(found.plain), worst(found.injected)];
    const difference = injected.longestGapMs - plain.longestGapMs;
    const ok = difference < NOISE_MS && injected.fsyncs > 0;
    return [
      {
        row: 'longest stall of the UART thread while each fsync takes 500 ms (strace), 16-byte records at 115,200 baud',
        lineside: show(injected),
        against: `none injected: ${show(plain)}`,
        ...more(difference, 1, 'ms', `no difference (below ${NOISE_MS} ms)`, ok),
      },
    ];
  },
};

async function measure(inject: boolean, seconds: number): Promise<Stall> {
  const trace = join(temporaryDirectory(), 'strace');
  const wrapper = ['strace', '-f', '--seccomp-bpf', '-qq', '-o', trace, '-e', 'trace=fsync,fdatasync'];
  if (inject) wrapper.push('-e', `inject=fsync,fdatasync:delay_exit=${FSYNC_MICROSECONDS}`);
  const { driver, receive, close } = await startLineside(BAUD, { wrapper, gapMs: 0 });
  const records = Math.round((BAUD / 10 / RECORD_BYTES) * seconds);
  const watch = new Watch();
  await receive((buffer, from, to) => watch.take(buffer, from, to));
  const before = fsyncs(trace);
  await driver.stamps(records, RECORD_BYTES, BAUD / 10);
  await until('the last record', () => watch.bytes >= records * RECORD_BYTES);
  const during = fsyncs(trace) - before;
  await close();
  return { longestGapMs: watch.longestGapMs, longestDelayMs: watch.longestDelayMs, fsyncs: during };
}

class Watch {
  bytes = 0;
  longestGapMs = 0;
  longestDelayMs = 0;
  #last = 0;

  take(buffer: Buffer, from: number, to: number): void {
    const now = Number(process.hrtime.bigint()) / 1e6;
    if (this.#last > 0) this.longestGapMs = Math.max(this.longestGapMs, now - this.#last);
    this.#last = now;
    // An entry begins with a record, unless a read ended inside the one before: then its stamp is not at hand.
    if (this.bytes % RECORD_BYTES === 0 && to - from >= RECORD_BYTES) {
      const stampMs = Number(buffer.readBigUInt64LE(from + 8)) / 1e6;
      this.longestDelayMs = Math.max(this.longestDelayMs, now - stampMs);
    }
    this.bytes += to - from;
  }
}

function fsyncs(trace: string): number {
  return readFileSync(trace, 'utf8')
    .split('\n')
    .filter((line) => line.includes('sync(')).length;
}

const worst = (stalls: readonly Stall[]): Stall => ({
  longestGapMs: Math.max(...stalls.map((one) => one.longestGapMs)),
  longestDelayMs: Math.max(...stalls.map((one) => one.longestDelayMs)),
  fsyncs: stalls.reduce((sum, one) => sum + one.fsyncs, 0),
});

const show = (one: Stall): string =>
  `longest gap ${one.longestGapMs.toFixed(1)} ms, longest delay ${one.longestDelayMs.toFixed(1)} ms, ${one.fsyncs} fsyncs`;
