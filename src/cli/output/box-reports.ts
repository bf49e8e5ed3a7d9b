/** What a box says of itself, as lines: the same from its own commands and over the network. Pure. */

interface Finding {
  readonly state: string;
  readonly found: string;
  /** '' if there is nothing to do. */
  readonly todo: string;
}

interface Checked {
  readonly title: string;
  readonly state: string;
  readonly findings: readonly Finding[];
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

export function checkSummary(checks: readonly Pick<Checked, 'state' | 'title'>[]): string {
  const titles = (state: string): string[] => checks.filter((one) => one.state === state).map(({ title }) => title);
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

interface Fault {
  /** '' if the line is no TOML. */
  readonly path: string;
  readonly line: number | undefined;
  readonly message: string;
}

/** Of a text in place of the configuration file: what it would do, or did. Keys by what applies them. */
interface Change {
  readonly file: string;
  readonly isChanged: boolean;
  readonly faults: readonly Fault[];
  readonly live: readonly string[];
  readonly hub: readonly string[];
  readonly restart: readonly string[];
  readonly unused: readonly string[];
}

export function faultLine({ path, line, message }: Fault): string {
  return [...(line === undefined ? [] : [`line ${line}`]), ...(path === '' ? [] : [path]), message].join(': ');
}

export function changeLines(change: Change, isDry: boolean, isReloaded: boolean): string[] {
  const { file, faults, isChanged, live, hub, restart, unused } = change;
  if (faults.length > 0) return faults.map(faultLine);
  if (!isChanged) return [`${file}: nothing to change`];
  const list = (what: string, paths: readonly string[]): string[] =>
    paths.length === 0 ? [] : [`${what}: ${paths.join(' ')}`];
  return [
    `${file} ${isDry ? 'would be changed' : 'is changed'}`,
    ...list('applied by the reload', live),
    ...list('applied by a restart of the hub, at the reload', hub),
    ...list('applied by "systemctl restart lineside"', restart),
    ...list('not used, since systemd opens the sockets', unused),
    ...(isDry || isReloaded ? [] : ['not reloaded: systemctl reload lineside']),
  ];
}

interface Slots {
  readonly version: string;
  readonly running: string;
  readonly good: string;
  readonly onTrial: boolean;
  /** null: none. */
  readonly trying: string | null;
  readonly failed: string | null;
  readonly triesLeft: number;
}

export function slotLines({ version, running, onTrial, good, trying, triesLeft, failed }: Slots): string[] {
  const lines = [
    `slot ${running} runs lineside ${version}${onTrial ? ', on trial' : ''}; slot ${good} is the good one`,
  ];
  if (trying !== null && trying !== running)
    lines.push(`slot ${trying} holds an update that is tried at the next start`);
  if (failed !== null)
    lines.push(`the update in slot ${failed} did not become healthy: the box returned to slot ${good}`);
  if (onTrial) lines.push(`starts left before the box returns to slot ${good}: ${triesLeft}`);
  return lines;
}
