/** outbox dead-letters: changes that could not be sent: listed, shown, sent again, given up. */
import type { Command } from 'commander';
import { Fields } from '../connection/answers.ts';
import { apiPath, type Hub } from '../connection/hub-client.ts';
import { CliFailure, exitStatus } from '../failure.ts';
import { safeText } from '../output/hex.ts';
import { type JsonObject, jsonLine, shownJson } from '../output/json.ts';
import { counted, wholeNumber } from '../output/numbers.ts';
import { labelledWrapped } from '../output/table.ts';
import type { HubCall, Shell } from '../shell.ts';
import { showList } from './listing.ts';
import { type ReasonOption, reasonField, timeText, wholeList, withLimit } from './refdata-options.ts';

/** Each carries its envelope, with up to 256 KiB of data twice. */
const pageSize = 50;
const path = apiPath('admin', 'outbox', 'dead-letters');

export function addDeadLetters(outbox: Command, shell: Shell): void {
  const command = outbox
    .command('dead-letters')
    .description('changes that could not be sent: list (default), show, requeue, discard')
    .addHelpText(
      'after',
      '\nExamples:\n  lineside outbox dead-letters\n  lineside outbox dead-letters show 17\n  lineside outbox dead-letters requeue 17 --reason "the ACL is fixed"\n',
    );
  const list = command.command('list', { isDefault: true }).description('list them');
  shell.hub<{ limit?: number }>(withLimit(list, 'all'), {
    what: 'cannot list the dead letters',
    run: listDead,
  });
  shell.hub(withId(command.command('show').description('show one, with the event as it would have been sent')), {
    what: ([id = '']) => `cannot show dead letter ${id}`,
    run: showDead,
  });
  const requeue = command
    .command('requeue')
    .description('send it again; later changes of its key may have gone before');
  shell.hub<ReasonOption>(withId(requeue).option('--reason <text>', 'why; kept in the audit'), {
    what: ([id = '']) => `cannot requeue dead letter ${id}`,
    run: (call, args) => decide(call, args, 'requeue', 'waits again to be sent'),
  });
  const discard = command.command('discard').description('discard it permanently: consumers never hear of this change');
  shell.hub<ReasonOption>(withId(discard).requiredOption('--reason <text>', 'why; kept in the audit'), {
    what: ([id = '']) => `cannot discard dead letter ${id}`,
    run: (call, args) => decide(call, args, 'discard', 'is discarded'),
  });
}

function withId(command: Command): Command {
  return command.argument('<id>', 'its number', (text) => String(wholeNumber(1, Number.MAX_SAFE_INTEGER)(text)));
}

async function listDead(call: HubCall<{ limit?: number }>): Promise<number> {
  const hub = await call.hub();
  const pages = hub.pages(path, {}, pageSize, call.options.limit ?? wholeList);
  return showList(call, pages, { heading: ['ID', 'DIED', 'RECORD', 'REASON'], row, none: 'there are no dead letters' });
}

function row(raw: JsonObject): string[] {
  const dead = new Fields(raw, 'the dead letter');
  return [
    String(dead.number('id')),
    timeText(dead.text('diedAt')),
    `${recordName(dead)} ${safeText(dead.text('action'))}`,
    safeText(dead.text('reason')),
  ];
}

function recordName(dead: Fields): string {
  return safeText(`${dead.text('dictionary')}:${dead.text('businessKey')}`);
}

async function showDead(call: HubCall<object>, [id = '']: readonly string[]): Promise<number> {
  const raw = await find(await call.hub(), Number(id));
  const dead = new Fields(raw, 'the dead letter');
  const withheld = raw['envelope'] === null;
  const rows: (readonly [string, string])[] = [
    ['Dead letter', `${dead.number('id')}, since ${timeText(dead.text('diedAt'))}`],
    ['Reason', `${safeText(dead.text('reason'))} (after ${counted(dead.number('attempts'), 'attempt')})`],
    ['Record', `${recordName(dead)}, ${safeText(dead.text('action'))} at ${timeText(dead.text('txTime'))}`],
    ['Topic', safeText(dead.text('topic'))],
    ['Event', withheld ? `not shown: your token does not open the scope ${safeText(dead.text('scope'))}` : ''],
  ];
  const event = withheld ? '' : `${shownJson(dead.object('envelope').raw, 2)}\n`;
  const text = `${labelledWrapped(rows, call.out.width)}${event}`;
  await call.out.write(call.json ? jsonLine(raw) : text);
  return exitStatus.ok;
}

/** The interface has no route for a single one, and a box has few. */
async function find(hub: Hub, id: number): Promise<JsonObject> {
  for await (const page of hub.pages(path, {}, pageSize, wholeList)) {
    const found = page.find((item) => item['id'] === id);
    if (found !== undefined) return found;
  }
  const next = 'lineside outbox dead-letters lists them.';
  throw new CliFailure({ status: exitStatus.nothing, code: 'NOT_FOUND', why: 'there is no such dead letter', next });
}

async function decide(
  call: HubCall<ReasonOption>,
  [id = '']: readonly string[],
  step: 'requeue' | 'discard',
  done: string,
): Promise<number> {
  const hub = await call.hub();
  const answer = await hub.write('POST', `${path}/${id}/${step}`, reasonField(call.options));
  await call.out.write(call.json ? jsonLine(answer) : `dead letter ${id} ${done}\n`);
  return exitStatus.ok;
}
