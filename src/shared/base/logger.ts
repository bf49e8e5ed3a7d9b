/**
 * The operator's log: one line for each thing that matters, to standard error, which systemd's journal keeps.
 * `level message key=value ...`; values with spaces are quoted. Not to be mixed up with the serial log.
 */
type Level = 'debug' | 'info' | 'warn' | 'error';
type Fields = Readonly<Record<string, string | number | boolean | undefined>>;

export interface Logger {
  debug(message: string, fields?: Fields): void;
  info(message: string, fields?: Fields): void;
  warn(message: string, fields?: Fields): void;
  error(message: string, fields?: Fields): void;
}

/** Syslog priorities, which journald reads from a `<N>` prefix. */
const priority: Readonly<Record<Level, number>> = { debug: 7, info: 6, warn: 4, error: 3 };

export interface LoggerOptions {
  readonly write: (line: string) => void;
  /** True under journald: lines carry a priority, and no time of their own. */
  readonly journal: boolean;
  readonly debug: boolean;
  readonly wallMs: () => number;
}

export function createLogger(options: LoggerOptions): Logger {
  const emit = (level: Level, message: string, fields: Fields = {}): void => {
    if (level === 'debug' && !options.debug) return;
    const prefix = options.journal ? `<${priority[level]}>` : `${new Date(options.wallMs()).toISOString()} `;
    options.write(`${prefix}${level} ${message}${format(fields)}\n`);
  };
  return {
    debug: (m, f) => emit('debug', m, f),
    info: (m, f) => emit('info', m, f),
    warn: (m, f) => emit('warn', m, f),
    error: (m, f) => emit('error', m, f),
  };
}

export const silentLogger: Logger = { debug() {}, info() {}, warn() {}, error() {} };

function format(fields: Fields): string {
  let text = '';
  for (const [key, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    const shown = String(value);
    text += ` ${key}=${/^[^\s"=]+$/.test(shown) ? shown : JSON.stringify(shown)}`;
  }
  return text;
}
