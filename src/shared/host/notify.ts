/**
 * systemd's notification socket (sd_notify): readiness, STATUS lines, the watchdog's food. Where NOTIFY_SOCKET is not set
 * nothing is loaded and every call does nothing.
 */
import { LinesideError, messageOf } from '../base/errors.ts';
import type { Logger } from '../base/logger.ts';

export interface Notifier {
  /** Whether systemd listens. */
  readonly enabled: boolean;
  /** WATCHDOG_USEC of this process; undefined: no watchdog waits for watchdog(). */
  readonly watchdogIntervalMs: number | undefined;
  /** After the start, and after a reload. */
  ready(status: string): void;
  status(text: string): void;
  reloading(): void;
  stopping(status: string): void;
  watchdog(): void;
  /** The start or stop under way may last so long from now, whatever the unit's own limit is. */
  extendTimeout(ms: number): void;
}

/** Variables that a child must not inherit. */
const variables = ['NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID'] as const;
/** A message that could not be sent: these are sent with the next one, the others have lost their meaning by then. */
const lasting: ReadonlySet<string> = new Set(['READY', 'STOPPING', 'STATUS']);
const US_PER_MS = 1_000;

type Environment = Record<string, string | undefined>;
type Send = (message: Uint8Array) => void;

/** Takes the variables out of `env`. Throws INTERNAL where there is a socket that cannot be used: systemd would wait in vain. */
export async function createNotifier(env: Environment, logger: Logger): Promise<Notifier> {
  const { NOTIFY_SOCKET: name, WATCHDOG_USEC: usec, WATCHDOG_PID: pid } = env;
  for (const variable of variables) delete env[variable];
  if (name === undefined || name === '') return silent;
  const isOurs = pid === undefined || Number(pid) === process.pid;
  const intervalMs = Number(usec) / US_PER_MS;
  return new SystemdNotifier(await openSocket(name), isOurs && intervalMs > 0 ? intervalMs : undefined, logger);
}

export const silent: Notifier = {
  enabled: false,
  watchdogIntervalMs: undefined,
  ready() {},
  status() {},
  reloading() {},
  stopping() {},
  watchdog() {},
  extendTimeout() {},
};

async function openSocket(name: string): Promise<Send> {
  try {
    const { openDatagramSocket, sendDatagram, unixAddress } = await import('../base/libc.ts');
    const address = /^[/@]/.test(name) ? unixAddress(name) : undefined;
    if (address === undefined) throw new Error('it is neither a path nor an abstract name of at most 107 bytes');
    const fd = openDatagramSocket();
    return (message) => sendDatagram(fd, message, address);
  } catch (error) {
    throw new LinesideError('INTERNAL', `cannot use NOTIFY_SOCKET ${name}: ${messageOf(error)}`, {
      cause: error,
      hint: 'systemd would wait for this process in vain: repair the installation, or run it without Type=notify',
    });
  }
}

class SystemdNotifier implements Notifier {
  readonly enabled = true;
  readonly watchdogIntervalMs: number | undefined;
  readonly #send: Send;
  readonly #logger: Logger;
  readonly #unsent = new Map<string, string>();
  #isDeaf = false;

  constructor(send: Send, watchdogIntervalMs: number | undefined, logger: Logger) {
    this.#send = send;
    this.watchdogIntervalMs = watchdogIntervalMs;
    this.#logger = logger;
  }

  ready(status: string): void {
    this.#tell({ READY: '1', STATUS: status });
  }

  status(text: string): void {
    this.#tell({ STATUS: text });
  }

  reloading(): void {
    // CLOCK_MONOTONIC, as systemd compares it.
    this.#tell({ RELOADING: '1', MONOTONIC_USEC: String(process.hrtime.bigint() / 1_000n) });
  }

  stopping(status: string): void {
    this.#unsent.delete('READY');
    this.#tell({ STOPPING: '1', STATUS: status });
  }

  watchdog(): void {
    this.#tell({ WATCHDOG: '1' });
  }

  extendTimeout(ms: number): void {
    this.#tell({ EXTEND_TIMEOUT_USEC: String(Math.ceil(ms * US_PER_MS)) });
  }

  #tell(fields: Readonly<Record<string, string>>): void {
    // A line feed would begin another assignment.
    for (const [name, value] of Object.entries(fields)) this.#unsent.set(name, value.replaceAll(/\s*\n\s*/g, '; '));
    try {
      this.#send(Buffer.from([...this.#unsent].map(([name, value]) => `${name}=${value}`).join('\n')));
      this.#unsent.clear();
      this.#isDeaf = false;
    } catch (error) {
      for (const name of this.#unsent.keys()) if (!lasting.has(name)) this.#unsent.delete(name);
      if (!this.#isDeaf)
        this.#logger.warn('systemd could not be notified of the state of the service', { error: messageOf(error) });
      this.#isDeaf = true;
    }
  }
}
