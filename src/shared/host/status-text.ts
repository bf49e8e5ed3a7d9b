/** The STATUS lines that systemctl status shows: how the line, and how the hub is, in words. Pure. */

export interface LineFigures {
  readonly line: {
    readonly state: 'closed' | 'opening' | 'open' | 'closing' | 'lost' | 'reopening';
    readonly devicePath: string;
    readonly requested: { readonly portName: string } | undefined;
    readonly effective:
      | { readonly baudRate: number; readonly dataBits: number; readonly parity: number; readonly stopBits: number }
      | undefined;
  };
  readonly log: { readonly state: 'ok' | 'failing'; readonly error: string; readonly usedBytes: number };
}

export interface HubFigures {
  readonly waiting: number;
  readonly deadLetters: number;
  readonly broker: { readonly configured: boolean; readonly connected: boolean; readonly forSeconds: number };
  /** Deliveries that ended without being delivered. */
  readonly review: number;
  /** '' while changes are taken, else why not. */
  readonly refusing: string;
}

/** As the contract numbers them: none, even, odd, mark, space; 1, 1.5, 2. */
const PARITIES = 'NEOMS';
const STOPS = ['1', '1.5', '2'];
const UNITS = ['B', 'kB', 'MB', 'GB', 'TB'];

export function lineStatus({ line, log }: LineFigures): string {
  const kept = log.state === 'ok' ? '' : `LOG NOT KEPT: ${log.error}; `;
  return `${kept}${port(line)}, log ${bytes(log.usedBytes)}`;
}

function port({ state, devicePath, requested, effective }: LineFigures['line']): string {
  const name = devicePath === '' ? (requested?.portName ?? '') : devicePath;
  switch (state) {
    case 'open':
      return `open ${name}${effective === undefined ? '' : ` ${settings(effective)}`}`;
    case 'lost':
    case 'reopening':
      return `lost ${name}, waiting for it`;
    case 'opening':
    case 'closing':
      return `${state} ${name}`;
    case 'closed':
      return 'no port open';
  }
}

function settings(of: NonNullable<LineFigures['line']['effective']>): string {
  return `${of.baudRate} ${of.dataBits}${PARITIES[of.parity] ?? '?'}${STOPS[of.stopBits] ?? '?'}`;
}

export function hubStatus({ waiting, deadLetters, broker, review, refusing }: HubFigures): string {
  return [
    refusing === '' ? '' : `CHANGES REFUSED: ${refusing}`,
    `outbox ${grouped(waiting)} waiting`,
    reach(broker),
    deadLetters === 0 ? '' : counted(deadLetters, 'dead letter'),
    review === 0 ? '' : `${counted(review, 'deliver', 'y', 'ies')} for review`,
  ]
    .filter((part) => part !== '')
    .join(', ');
}

function reach({ configured, connected, forSeconds }: HubFigures['broker']): string {
  if (!configured) return 'no broker configured';
  return connected ? 'broker reached' : `broker unreachable for ${duration(forSeconds)}`;
}

function counted(count: number, stem: string, one = '', more = 's'): string {
  return `${grouped(count)} ${stem}${count === 1 ? one : more}`;
}

/** 1,204 */
function grouped(count: number): string {
  return String(count).replaceAll(/\B(?=(?:\d{3})+$)/g, ',');
}

/** 1.2 GB: thousands of thousands, as cards are sold. */
function bytes(count: number): string {
  let value = count;
  let unit = 0;
  for (; value >= 999.5 && unit < UNITS.length - 1; unit++) value /= 1_000;
  return `${unit === 0 || value >= 9.95 ? value.toFixed(0) : value.toFixed(1)} ${UNITS[unit]}`;
}

/** Coarse, so that the line does not change with every second. */
function duration(seconds: number): string {
  if (seconds < 60) return `${Math.floor(seconds / 10) * 10} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}
