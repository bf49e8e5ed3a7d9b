/** alerts and audit: what is wrong now, and who did what. */
import type { Command } from 'commander';
import { Fields } from '../connection/answers.ts';
import { apiPath } from '../connection/hub-client.ts';
import { exitStatus } from '../failure.ts';
import { safeText } from '../output/hex.ts';
import { type JsonObject, jsonLine, shownJson } from '../output/json.ts';
import { spanText } from '../output/numbers.ts';
import { labelledWrapped } from '../output/table.ts';
import type { HubCall, Shell } from '../shell.ts';
import { showList } from './listing.ts';
import { timeText, withLimit } from './refdata-options.ts';

const usualAudit = 50;
/** The interface's largest page. */
const pageSize = 1000;

export function addAlerts(program: Command, shell: Shell): void {
  const command = program
    .command('alerts')
    .description(
      'show what is wrong with the delivery and the machine now; status 1 when there is anything but news (info)',
    )
    .addHelpText('after', '\nExample:\n  lineside alerts || echo "look at lineside outbox"\n');
  shell.hub(command, { what: 'cannot read the alerts', run: alerts });
}

async function alerts(call: HubCall<object>): Promise<number> {
  const hub = await call.hub();
  const answer = await hub.get(apiPath('alerts'));
  const items = new Fields(answer, 'the list').objects('items');
  const rows = items.map(alertRow);
  const text = rows.length === 0 ? 'no alerts\n' : labelledWrapped(rows, call.out.width);
  await call.out.write(call.json ? jsonLine({ alerts: items }) : text);
  return items.every(({ severity }) => severity === 'info') ? exitStatus.ok : exitStatus.refused;
}

function alertRow(raw: JsonObject): readonly [string, string] {
  const alert = new Fields(raw, 'the alert');
  const span = spanText(Math.round(alert.number('forSeconds') * 1000));
  return [
    safeText(alert.text('name')),
    `${safeText(alert.text('severity'))}, for ${span}: ${safeText(alert.text('summary'))}`,
  ];
}

interface AuditOptions {
  readonly action?: string;
  readonly limit?: number;
}

export function addAudit(program: Command, shell: Shell): void {
  const command = program
    .command('audit')
    .description('show who did what to the reference data, the outbox and the webhooks, newest first')
    .option('--action <action>', 'only these: outbox.dlq, outbox.discard, records.imported, webhook.updated, ...')
    .addHelpText('after', '\nExamples:\n  lineside audit\n  lineside audit --action outbox.dlq --limit 10\n');
  shell.hub<AuditOptions>(withLimit(command, String(usualAudit)), { what: 'cannot read the audit', run: audit });
}

async function audit(call: HubCall<AuditOptions>): Promise<number> {
  const { action, limit } = call.options;
  const hub = await call.hub();
  const pages = hub.pages(apiPath('admin', 'audit'), { action }, pageSize, limit ?? usualAudit);
  const heading = ['WHEN', 'WHO', 'ACTION', 'WHAT', 'DETAILS'];
  return showList(call, pages, { heading, row: auditRow, none: 'there is nothing in the audit' });
}

function auditRow(raw: JsonObject): string[] {
  const entry = new Fields(raw, 'the audit record');
  return [
    timeText(entry.text('at')),
    ...['actor', 'action', 'subject'].map((field) => safeText(entry.text(field))),
    shownJson(entry.object('details').raw),
  ];
}
