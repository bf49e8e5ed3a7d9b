/** Whether a card that holds every fsync for half a second is ever felt on the thread that reads the UART. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../../../src/shared/base/wait.fixture.ts';
import { STREAM_LOG, streamLogRequest } from '../calls.ts';
import { type LeanEntry, readEntry, serverStream } from '../grpc-lean.ts';
import { startLineside } from '../lineside.ts';
import { requireCommand, temporaryDirectory } from '../processes.ts';
import { PtyDriver } from '../pty-driver.ts';
import { judge, type Row } from '../table.ts';

const BAUD = 115_200;
const RECORD_BYTES = 16;
const FSYNC_MICROSECONDS = 500_000;
/** A twentieth of what is injected: two runs of a shared machine differ by as much. */
const NOISE_MS = 25;
const RX = 1;

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
    const found: Record<'injected' | 'plain', Stall[]> = { injected: [], plain: [] };
    for (let round = 0; round < (quick ? 1 : 3); round++) {
      for (const kind of ['plain', 'injected'] as const) {
        const one = await measure(kind === 'injected', seconds);
        say(`${kind}: ${show(one)}`);
        found[kind].push(one);
      }
    }
    const injected = worst(found.injected);
    const plain = worst(found.plain);
    const difference = injected.longestGapMs - plain.longestGapMs;
    return [
      {
        row: 'longest stall of the UART thread while each fsync takes 500 ms (strace), 16-byte records at 115,200 baud',
        lineside: show(injected),
        against: `none injected: ${show(plain)}`,
        ratio: `${difference >= 0 ? '+' : ''}${difference.toFixed(1)} ms`,
        aim: `no difference (below ${NOISE_MS} ms)`,
        verdict: judge(difference < NOISE_MS && injected.fsyncs > 0),
      },
    ];
  },
};

async function measure(inject: boolean, seconds: number): Promise<Stall> {
  const trace = join(temporaryDirectory(), 'strace');
  const wrapper = ['strace', '-f', '--seccomp-bpf', '-qq', '-o', trace, '-e', 'trace=fsync,fdatasync'];
  if (inject) wrapper.push('-e', `inject=fsync,fdatasync:delay_exit=${FSYNC_MICROSECONDS}`);
  const driver = await PtyDriver.open();
  const lineside = await startLineside({ wrapper, serial: { rx_gap_ms: 0 } });
  await lineside.open(driver.slavePath, BAUD);
  const records = Math.round((BAUD / 10 / RECORD_BYTES) * seconds);
  const watch = new Watch();
  const stream = serverStream(lineside.address, STREAM_LOG, streamLogRequest(false), (buffer, from, to) =>
    watch.take(buffer, from, to),
  );
  await stream.open;
  const before = fsyncs(trace);
  await driver.stamps(records, RECORD_BYTES, BAUD / 10);
  await until('the last record', () => watch.bytes >= records * RECORD_BYTES);
  const during = fsyncs(trace) - before;
  await stream.close();
  await lineside.close();
  await driver.close();
  return { longestGapMs: watch.longestGapMs, longestDelayMs: watch.longestDelayMs, fsyncs: during };
}

class Watch {
  bytes = 0;
  longestGapMs = 0;
  longestDelayMs = 0;
  #last = 0;
  readonly #entry: LeanEntry = { dir: 0, dataFrom: 0, dataTo: 0 };

  take(buffer: Buffer, from: number, to: number): void {
    readEntry(buffer, from, to, this.#entry);
    const { dir, dataFrom, dataTo } = this.#entry;
    if (dir !== RX) return;
    const now = Number(process.hrtime.bigint()) / 1e6;
    if (this.#last > 0) this.longestGapMs = Math.max(this.longestGapMs, now - this.#last);
    this.#last = now;
    // An entry begins with a record, unless a read ended inside the one before: then its stamp is not at hand.
    if (this.bytes % RECORD_BYTES === 0 && dataTo - dataFrom >= RECORD_BYTES) {
      const stampMs = Number(buffer.readBigUInt64LE(dataFrom + 8)) / 1e6;
      this.longestDelayMs = Math.max(this.longestDelayMs, now - stampMs);
    }
    this.bytes += dataTo - dataFrom;
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
