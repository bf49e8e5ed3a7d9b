/** The findings of the doctor's checks, and how they are shown. Pure. */

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

const stateWidth = 9;

export function checkLines({ title, findings }: Pick<Checked, 'title' | 'findings'>, titleWidth: number): string {
  return findings
    .map(({ state, found, todo }, index) => {
      const head = `${state.padEnd(stateWidth)}${(index === 0 ? title : '').padEnd(titleWidth)}`;
      const next = todo === '' ? '' : `${' '.repeat(head.length)}-> ${oneLine(todo)}\n`;
      return `${head}${oneLine(found)}\n${next}`;
    })
    .join('');
}

export function summaryLine(checks: readonly Pick<Checked, 'state' | 'title'>[]): string {
  const titles = (state: State): string[] => checks.filter((one) => one.state === state).map(({ title }) => title);
  const [bad, odd] = [titles('failed'), titles('warning')];
  const parts = [
    bad.length === 0 ? 'nothing failed' : `failed: ${bad.join(', ')}`,
    ...(odd.length === 0 ? [] : [`warnings: ${odd.join(', ')}`]),
  ];
  return `\n${checks.length} checks; ${parts.join('; ')}\n`;
}

/** Control characters (of a name that came from outside) would write over other lines of a terminal. */
export function oneLine(text: string): string {
  return text.replaceAll(/[\p{Cc}\u2028\u2029]+/gu, ' ').trim();
}
