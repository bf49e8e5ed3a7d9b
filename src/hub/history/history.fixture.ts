/** A history of a box whose line, sensors and clocks the test sets. Run as a program it is killed in the middle of an hour. */
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import { silentLogger } from '../../shared/base/logger.ts';
import { type ClockState } from '../../shared/host/clock-sync.ts';
import { wellHost } from '../../shared/host/host-facts.fixture.ts';
import { lineside } from '../../shared/proto/services.ts';
import { History } from './history.ts';

export const [MINUTE_MS, HOUR_MS] = [60_000, 3_600_000];

interface Settings {
  readonly dir: string;
  readonly boot?: string;
  /** Minutes since the boot at which the hub starts. */
  readonly bootMinute?: number;
  readonly clock?: FakeClock;
  readonly logger?: typeof silentLogger;
  readonly maxWaitingHours?: number;
}

export class HistoryBox {
  readonly clock: FakeClock;
  readonly history: History;
  /** undefined: the line does not answer. */
  line: { portState?: number; counters: Record<string, number>; kernel?: object } | undefined = { counters: {} };
  heat: number | null = null;
  cardBytes: number | null = null;
  clockState: ClockState = 'synced';
  /** Called before each sample. */
  onSample: () => void = () => undefined;

  constructor(settings: Settings) {
    const { dir, boot = 'boot', bootMinute = 0, clock = new FakeClock(), logger = silentLogger, ...rest } = settings;
    this.clock = clock;
    const startMs = clock.monoMs() - bootMinute * MINUTE_MS;
    const bootMs = (): number => clock.monoMs() - startMs;
    this.history = new History({
      dir,
      clock,
      logger,
      ...rest,
      askLine: async () => {
        this.onSample();
        if (this.line === undefined) throw new Error('unreachable');
        const { portState = 3, ...rest } = this.line;
        return lineside.v1.LineStatus.fromObject({ uptimeMs: bootMs(), portState, ...rest });
      },
      host: {
        facts: () => ({
          ...wellHost,
          temperatureCelsius: this.heat,
          disk: { ...wellHost.disk, writtenBytes: this.cardBytes },
        }),
      },
      clockSync: {
        bootId: boot,
        bootMs,
        offsetMs: () => clock.wallMs() - bootMs(),
        state: () => this.clockState,
      },
    });
    this.history.start();
  }

  count(name: string, more: number): void {
    if (this.line !== undefined) this.line.counters[name] = (this.line.counters[name] ?? 0) + more;
  }

  async minutes(count: number): Promise<void> {
    await this.clock.pass(count * MINUTE_MS);
  }

  /** The last so many minutes, up to the one that runs. */
  read(minutes: number, stepMs = MINUTE_MS) {
    const untilMs = this.clock.wallMs() + 1;
    return this.history.read({ sinceMs: untilMs - minutes * MINUTE_MS, untilMs, stepMs });
  }
}

const [, program, dir] = process.argv;
if (program === import.meta.filename && dir !== undefined) {
  const box = new HistoryBox({ dir });
  box.onSample = () => box.count('rxBytes', 10);
  await box.minutes(3 * 60 + 30);
  process.kill(process.pid, 'SIGKILL');
}
