/**
 * npm run bench -- line|search|outbox|webhooks|upstream|box|console [row ...] [--quick] [--save] [--json FILE]
 * Prints one table: each row against its peer or limit, measured in the same run. Needs scripts/build; the line's rows
 * cc, strace and ser2net, the search's cc, the outbox's, upstream's and box's Java and Maven (Apache Kafka), upstream's also cc, console's Chromium and cc; rows whose tools
 * are missing say so. Run it on a quiet machine. LINESIDE_E2E_BUILD names another build than build/: to hold two against
 * each other.
 */
import { writeFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import { parseArgs } from 'node:util';
import { cleanUp } from '../e2e/daemon.ts';
import { Skipped } from './processes.ts';
import { type Line, machine, type Row, render } from './table.ts';

/** Imported when wanted: a broker is looked for then, which takes a second. */
const suites: Readonly<Record<string, () => Promise<{ readonly rows: readonly Row[] }>>> = {
  line: () => import('./line/rows.ts'),
  search: () => import('./search/rows.ts'),
  outbox: () => import('./outbox/rows.ts'),
  webhooks: () => import('./webhooks/rows.ts'),
  upstream: () => import('./upstream/rows.ts'),
  box: () => import('./box/rows.ts'),
  // Typed with the browser's types, which the rest of the tests do not have.
  console: () => import(join(import.meta.dirname, '../console/speed.ts')) as Promise<{ readonly rows: readonly Row[] }>,
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { quick: { type: 'boolean' }, save: { type: 'boolean' }, json: { type: 'string' } },
});
const [suite = '', ...names] = positionals;
const found = await suites[suite]?.();
if (found === undefined) usage(`no such suite: ${suite}`);
const { rows } = found;
const unknown = names.filter((name) => !rows.some((row) => row.name === name));
if (unknown.length > 0)
  usage(`no such row: ${unknown.join(', ')}; there are ${rows.map((row) => row.name).join(', ')}`);

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

// As on a device: no compile cache (0.8 MB of the line, 1.3 MB of the hub), no certificates of a developer's machine (0.7 and 1.4 MB).
process.env['NODE_COMPILE_CACHE'] = '';
delete process.env['NODE_EXTRA_CA_CERTS'];

const quick = values.quick === true;
const lines: Line[] = [];
const reasons: string[] = [];
const head = [...machine(), `load average before: ${(loadavg()[0] ?? 0).toFixed(2)}`];
for (const row of names.length === 0 ? rows : rows.filter(({ name }) => names.includes(name)))
  test(row.name, { timeout: Number.POSITIVE_INFINITY }, (t) => measure(row, t));
after(report);

async function measure(row: Row, t: TestContext): Promise<void> {
  console.error(`${new Date().toISOString().slice(11, 19)} ${row.name}`);
  try {
    const found = await row.run({ quick, say: (text) => console.error(`  ${text}`) });
    lines.push(...found);
    if (row.whyMissed !== undefined && found.some(({ verdict }) => verdict === 'missed'))
      reasons.push(`- \`${row.name}\`: ${row.whyMissed}`);
  } catch (error) {
    const against = (error instanceof Error ? error.message : String(error)).replaceAll('\n', ' ');
    const verdict = error instanceof Skipped ? 'SKIPPED' : 'missed';
    lines.push({ row: row.name, lineside: '', against, ratio: '', aim: '', verdict });
    if (!(error instanceof Skipped)) throw error;
    t.skip(against);
  } finally {
    cleanUp();
  }
}

function report(): void {
  const title = `# npm run bench -- ${[suite, ...names].join(' ')}${quick ? ' --quick' : ''}`;
  const why = reasons.length === 0 ? '' : `\nWhy aims are missed:\n\n${reasons.join('\n')}\n`;
  const text = `${title}\n\n${head.map((line) => `- ${line}`).join('\n')}\n\n${render(lines)}\n${why}`;
  console.log(text);
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ machine: head, lines }, null, 2)}\n`);
  if (values.save === true) writeFileSync(join(import.meta.dirname, `${suite}.latest.md`), text);
}

function usage(why: string): never {
  const names = Object.keys(suites).join('|');
  console.error(`${why}\nusage: npm run bench -- ${names} [row ...] [--quick] [--save] [--json FILE]`);
  process.exit(2);
}
