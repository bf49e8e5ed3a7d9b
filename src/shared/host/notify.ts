/** systemd's notification socket (sd_notify). Where NOTIFY_SOCKET is not set nothing is loaded. */
import { LinesideError, messageOf } from '../base/errors.ts';
import type { Logger } from '../base/logger.ts';

export interface Notifier {
  /** WATCHDOG_USEC of this process; undefined: no watchdog waits for it. */
  readonly watchdogIntervalMs: number | undefined;
  /** Sends assignments: READY=1, STATUS=..., WATCHDOG=1. */
  readonly notify: (assignments: Readonly<Record<string, string>>) => void;
}

/** Variables that a child must not inherit. */
const variables = ['NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID'] as const;
/** A message that could not be sent: these are sent with the next one, the others have lost their meaning by then. */
const lasting: ReadonlySet<string> = new Set(['READY', 'STOPPING', 'STATUS']);
const US_PER_MS = 1_000;

type Send = (message: Uint8Array) => void;

/**
 * undefined: systemd does not listen. Takes the variables out of `env`. Throws INTERNAL where there is a socket that cannot be
 * used: systemd would wait in vain.
 */
export async function createNotifier(
  env: Record<string, string | undefined>,
  logger: Logger,
): Promise<Notifier | undefined> {
  const { NOTIFY_SOCKET: name, WATCHDOG_USEC: usec, WATCHDOG_PID: pid } = env;
  for (const variable of variables) delete env[variable];
  if (name === undefined || name === '') return undefined;
  const isOurs = pid === undefined || Number(pid) === process.pid;
  const intervalMs = Number(usec) / US_PER_MS;
  const watchdogIntervalMs = isOurs && intervalMs > 0 ? intervalMs : undefined;
  return { watchdogIntervalMs, notify: notifierOf(await openSocket(name), logger) };
}

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

function notifierOf(send: Send, logger: Logger): Notifier['notify'] {
  const unsent = new Map<string, string>();
  let isDeaf = false;
  return (assignments) => {
    if ('STOPPING' in assignments) unsent.delete('READY');
    // A line feed would begin another assignment.
    for (const [name, value] of Object.entries(assignments)) unsent.set(name, value.replaceAll(/\s*\n\s*/g, '; '));
    try {
      send(Buffer.from([...unsent].map(([name, value]) => `${name}=${value}`).join('\n')));
      unsent.clear();
      isDeaf = false;
    } catch (error) {
      for (const name of unsent.keys()) if (!lasting.has(name)) unsent.delete(name);
      if (!isDeaf)
        logger.warn('systemd could not be notified of the state of the service', { error: messageOf(error) });
      isDeaf = true;
    }
  };
}
