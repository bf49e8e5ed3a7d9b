/**
 * npm run bench -- line|outbox|webhooks|upstream [row ...] [--quick] [--save] [--json FILE]
 * Prints one table: each row against its peer or limit, measured in the same run. Needs scripts/build; the line's rows
 * cc, strace and ser2net, the outbox's and upstream's Java and Maven (Apache Kafka), upstream's also cc; rows whose tools
 * are missing say so. Run it on a quiet machine.
 */
import { writeFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { lineRows } from './line/rows.ts';
import { outboxRows } from './outbox/rows.ts';
import { cleanUp, Skipped } from './processes.ts';
import { type Context, type Line, machine, type Row, render } from './table.ts';
import { upstreamRows } from './upstream/rows.ts';
import { webhookRows } from './webhooks/rows.ts';

const suites: Readonly<Record<string, readonly Row[]>> = {
  line: lineRows,
  outbox: outboxRows,
  webhooks: webhookRows,
  upstream: upstreamRows,
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { quick: { type: 'boolean' }, save: { type: 'boolean' }, json: { type: 'string' } },
});
const [suite = '', ...names] = positionals;
const rows = suites[suite];
if (rows === undefined) usage(`no such suite: ${suite}`);
const unknown = names.filter((name) => !rows.some((row) => row.name === name));
if (unknown.length > 0) usage(`no such row: ${unknown.join(', ')}`);

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));
process.once('exit', cleanUp);

const context: Context = { quick: values.quick === true, say: (text) => console.error(`  ${text}`) };
const chosen = names.length === 0 ? rows : rows.filter((row) => names.includes(row.name));
const lines: Line[] = [];
const head = [...machine(), `load average before: ${(loadavg()[0] ?? 0).toFixed(2)}`];
for (const row of chosen) {
  console.error(`${new Date().toISOString().slice(11, 19)} ${row.name}`);
  lines.push(...(await measured(row)));
}
const report = `# npm run bench -- ${[suite, ...names].join(' ')}${context.quick ? ' --quick' : ''}\n\n${head.map((text) => `- ${text}`).join('\n')}\n\n${render(lines)}\n`;
console.log(report);
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ machine: head, lines }, null, 2)}\n`);
if (values.save === true) writeFileSync(join(import.meta.dirname, `${suite}.latest.md`), report);
process.exit(0);

async function measured(row: Row): Promise<readonly Line[]> {
  try {
    return await row.run(context);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    if (!(error instanceof Skipped)) console.error(error);
    return [
      {
        row: row.name,
        lineside: '',
        against: why.replaceAll('\n', ' '),
        ratio: '',
        aim: '',
        verdict: error instanceof Skipped ? 'SKIPPED' : 'missed',
      },
    ];
  } finally {
    cleanUp();
  }
}

function usage(why: string): never {
  console.error(
    `${why}\nusage: npm run bench -- line|outbox|webhooks|upstream [row ...] [--quick] [--save] [--json FILE]`,
  );
  for (const [name, known] of Object.entries(suites))
    console.error(`rows of ${name}: ${known.map((row) => row.name).join(', ')}`);
  process.exit(2);
}
