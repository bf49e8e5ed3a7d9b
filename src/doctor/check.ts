/** The findings of the doctor's checks. Pure. */

export type State = 'ok' | 'warning' | 'failed' | 'skipped';

/** One thing that was checked: a line, and what to do about it in another. */
export interface Finding {
  readonly state: State;
  readonly found: string;
  /** '' if there is nothing to do. */
  readonly todo: string;
}

export interface CheckName {
  readonly name: string;
  readonly title: string;
}

export type Findings = Generator<Finding, void, void>;

export interface Checked extends CheckName {
  /** That of its worst finding. */
  readonly state: State;
  readonly findings: readonly Finding[];
  readonly tookMs: number;
}

const says =
  (state: State) =>
  (found: string, todo: string): Finding => ({ state, found, todo });

export const warning = says('warning');
export const failed = says('failed');
export const ok = (found: string): Finding => ({ state: 'ok', found, todo: '' });
export const skipped = (found: string, todo = ''): Finding => ({ state: 'skipped', found, todo });

export function needsRoot(what: string): Finding {
  return skipped(`${what} cannot be seen by this user`, 'Run it as root.');
}

/** `fine` when a check has found nothing else to report. */
export function orFine(findings: Iterable<Finding>, fine: string): Finding[] {
  const all = [...findings];
  return all.length > 0 ? all : [ok(fine)];
}

const order: readonly State[] = ['skipped', 'ok', 'warning', 'failed'];

/** Skipped counts for nothing beside something that was checked. */
export function worst(findings: readonly Pick<Finding, 'state'>[]): State {
  return order[Math.max(0, ...findings.map(({ state }) => order.indexOf(state)))] ?? 'skipped';
}
