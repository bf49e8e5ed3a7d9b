/** outbox: what is still to be published to the broker, and why it waits; its dead letters; alerts; the audit. */
import { shownJson } from '../../shared/base/shown-json.ts';
import { option } from '../command.ts';
import { Fields } from '../connection/answers.ts';
import { apiPath, type Hub } from '../connection/hub-client.ts';
import { CliFailure, exitStatus } from '../failure.ts';
import { safeText } from '../output/hex.ts';
import { type JsonObject } from '../output/json.ts';
import { counted, grouped, spanText } from '../output/numbers.ts';
import { labelledWrapped, type Row } from '../output/table.ts';
import type { Args, Call } from '../shell.ts';
import { isWatched, type WatchOptions, watch, watched } from '../watch.ts';
import { auditReason, hubCommands, numberArgument, type Target, timeText, wholeList } from './hub-command.ts';

/** Each carries its envelope, with up to 256 KiB of data twice. */
const deadLetters = { item: 'the dead letter', pageSize: 50 };
const deadLetter = numberArgument('its number');

export const outboxCommands = hubCommands([
  {
    command: 'outbox',
    help: 'show what waits for the broker and why; `outbox dead-letters` shows what was abandoned',
    options: [watch],
    examples: [
      'lineside outbox',
      'lineside outbox --watch 5',
      'lineside outbox --json | jq .waiting',
      'lineside outbox dead-letters',
    ],
    what: 'read the outbox',
    endsOnCtrlC: isWatched,
    answer: (call: Call<WatchOptions>) => watched(call, (lead) => showOutbox(call, lead)),
  },
  {
    command: 'outbox dead-letters',
    help: 'changes that could not be sent: list (default), show, requeue, discard',
    examples: [
      'lineside outbox dead-letters',
      'lineside outbox dead-letters show 17',
      'lineside outbox dead-letters requeue 17 --reason "the ACL is fixed"',
    ],
  },
  {
    command: 'outbox dead-letters list',
    isDefault: true,
    help: 'list them',
    what: 'list the dead letters',
    request: 'GET admin/outbox/dead-letters',
    ...deadLetters,
    usualLimit: wholeList,
    columns: {
      ID: '{id}',
      DIED: '{diedAt:time}',
      RECORD: '{dictionary}:{businessKey} {action}',
      REASON: '{reason}',
    },
    none: 'there are no dead letters',
  },
  {
    command: 'outbox dead-letters show',
    help: 'show one, with the event as it would have been sent',
    arguments: [deadLetter],
    what: 'show dead letter <id>',
    request: 'GET admin/outbox/dead-letters',
    answer: showDead,
  },
  {
    command: 'outbox dead-letters requeue',
    help: 'send it again; later changes of its key may have gone before',
    arguments: [deadLetter],
    options: [auditReason],
    what: 'requeue dead letter <id>',
    request: 'POST admin/outbox/dead-letters/<id>/requeue',
    done: 'dead letter <id> waits again to be sent',
  },
  {
    command: 'outbox dead-letters discard',
    help: 'discard it permanently: consumers never hear of this change',
    arguments: [deadLetter],
    options: [{ ...auditReason, required: true }],
    what: 'discard dead letter <id>',
    request: 'POST admin/outbox/dead-letters/<id>/discard',
    done: 'dead letter <id> is discarded',
  },
]);

export const auditCommands = hubCommands([
  {
    command: 'alerts',
    help: 'show what is wrong with the delivery and the machine now; status 1 when there is anything but news (info)',
    examples: ['lineside alerts || echo "see lineside outbox"'],
    what: 'read the alerts',
    answer: showAlerts,
  },
  {
    command: 'audit',
    help: 'show who did what to dictionaries, the outbox and webhooks, newest first (of a record: `record history`)',
    options: [
      option('--action <action>', 'only these: outbox.dlq, outbox.discard, records.imported, webhook.updated, ...', {
        field: 'action',
      }),
    ],
    examples: ['lineside audit', 'lineside audit --action outbox.dlq --limit 10'],
    what: 'read the audit',
    request: 'GET admin/audit',
    item: 'the audit record',
    // The interface's largest page.
    pageSize: 1000,
    usualLimit: 50,
    columns: {
      WHEN: '{at:time}',
      WHO: '{actor}',
      ACTION: '{action}',
      WHAT: '{subject}',
      DETAILS: '{details:json}',
    },
    none: 'there is nothing in the audit',
  },
]);

async function showAlerts(call: Call<object>): Promise<number> {
  const hub = await call.hub();
  const items = new Fields(await hub.get(apiPath('alerts')), 'the list').objects('items');
  const rows = items.map(alertRow);
  await call.print({ alerts: items }, rows.length === 0 ? 'no alerts' : labelledWrapped(rows, call.out.width));
  return items.every(({ severity }) => severity === 'info') ? exitStatus.ok : exitStatus.refused;
}

function alertRow(raw: JsonObject): Row {
  const alert = new Fields(raw, 'the alert');
  const span = spanText(Math.round(alert.number('forSeconds') * 1000));
  return [
    safeText(alert.text('name')),
    `${safeText(alert.text('severity'))}, for ${span}: ${safeText(alert.text('summary'))}`,
  ];
}

async function showDead(call: Call<object>, [, path]: Target, _: JsonObject, { id = '' }: Args): Promise<number> {
  const raw = await find(await call.hub(), path, Number(id));
  const dead = new Fields(raw, deadLetters.item);
  const withheld = raw['envelope'] === null;
  const name = safeText(`${dead.text('dictionary')}:${dead.text('businessKey')}`);
  const rows: Row[] = [
    ['Dead letter', `${dead.number('id')}, since ${timeText(dead.text('diedAt'))}`],
    ['Reason', `${safeText(dead.text('reason'))} (after ${counted(dead.number('attempts'), 'attempt')})`],
    ['Record', `${name}, ${safeText(dead.text('action'))} at ${timeText(dead.text('txTime'))}`],
    ['Topic', safeText(dead.text('topic'))],
    ['Event', withheld ? `not shown: your token does not open the scope ${safeText(dead.text('scope'))}` : ''],
  ];
  const event = withheld ? '' : shownJson(dead.object('envelope').raw, 2);
  return call.print(raw, `${labelledWrapped(rows, call.out.width)}${event}`);
}

/** The interface has no route for a single one, and a box has few. */
async function find(hub: Hub, path: string, id: number): Promise<JsonObject> {
  for await (const page of hub.pages(path, {}, deadLetters.pageSize, wholeList)) {
    const found = page.find((item) => item['id'] === id);
    if (found !== undefined) return found;
  }
  const next = 'lineside outbox dead-letters lists them.';
  throw new CliFailure('nothing', 'NOT_FOUND', 'there is no such dead letter', { next });
}

async function showOutbox(call: Call<object>, lead: string): Promise<number> {
  const hub = await call.hub();
  const now = await hub.get(apiPath('admin', 'outbox'));
  const text = outboxText(new Fields(now, 'the outbox'), call.out.width);
  return call.print(now, lead + text);
}

// The outbox for people: what waits, why, since when, and whether anything is lost.

function outboxText(outbox: Fields, width: number): string {
  const broker = outbox.object('broker');
  const rows: Row[] = [
    ['Broker', brokerText(broker)],
    ['Waiting', waitingText(outbox, broker)],
  ];
  const ease = easeText(outbox, broker);
  if (ease !== '') rows.push(['', ease]);
  const pruned = outbox.number('prunedTotal');
  if (pruned > 0)
    rows.push(['Pruned', `the ${counted(pruned, 'oldest event')} since the start: outbox.max_bytes was reached`]);
  const inFlight = outbox.number('inFlight');
  const onTheWay = inFlight === 0 ? 'nothing' : `${counted(inFlight, 'change')} on the way, not acknowledged yet`;
  rows.push(['In flight', onTheWay], ...blockedRows(outbox), deadRow(outbox.number('deadLetters')));
  for (const topic of broker.objects('topics')) rows.push(topicRow(new Fields(topic, 'the topic')));
  rows.push(['Since start', sinceStartText(outbox)]);
  return labelledWrapped(oncePerLabel(rows), width);
}

/** connected for 2 h 3 min; OFFLINE for 3 h 0 min: cannot reach 10.0.0.5:9093 (connection refused) */
function brokerText(broker: Fields): string {
  if (!broker.truth('configured'))
    return 'Kafka is not configured (kafka.bootstrap is empty): events are kept on this box';
  const span = spanText(Math.round(broker.number('forSeconds') * 1000));
  const reason = safeText(broker.text('reason'));
  if (broker.truth('connected')) return `connected for ${span}${reason === '' ? '' : `; ${reason}`}`;
  return `OFFLINE for ${span}${reason === '' ? '' : `: ${reason}`}`;
}

function waitingText(outbox: Fields, broker: Fields): string {
  const waiting = outbox.number('waiting');
  if (waiting === 0 && !broker.truth('configured')) return 'nothing: no event is kept';
  if (waiting === 0) return 'nothing: every change has been acknowledged by the broker';
  const verb = waiting === 1 ? 'waits' : 'wait';
  return `${counted(waiting, 'change')} ${verb}${oldestText(outbox.objectOr('oldest', undefined), waiting)}`;
}

function oldestText(oldest: Fields | undefined, waiting: number): string {
  if (oldest === undefined) return '';
  const age = spanText(Math.round(oldest.number('ageSeconds') * 1000));
  return `${waiting === 1 ? ',' : ', the oldest'} since ${timeText(oldest.text('txTime'))} (${age})`;
}

/** What becomes of the changes that wait while the broker is unreachable. */
function easeText(outbox: Fields, broker: Fields): string {
  if (broker.truth('connected') || outbox.number('waiting') === 0) return '';
  return broker.truth('configured')
    ? 'nothing is lost: they are stored on this box and are published automatically when the broker is back'
    : 'they are published when a broker is configured; if outbox.max_bytes is reached before, the oldest are pruned';
}

function blockedRows(outbox: Fields): Row[] {
  const all = outbox.number('blockedKeyCount');
  if (all === 0) return [];
  const keys = outbox.objects('blockedKeys');
  const rows: Row[] = [['Blocked', `${counted(all, 'key')}: the broker refused a change, what comes after it waits`]];
  for (const raw of keys) {
    const key = new Fields(raw, 'the blocked key');
    const tries = counted(key.number('attempts'), 'attempt');
    const next = spanText(Math.max(0, Math.round(key.number('nextAttemptInSeconds') * 1000)));
    const reason = safeText(key.text('reason'));
    rows.push([
      '',
      `${safeText(key.text('key'))} (${safeText(key.text('topic'))}): ${reason}; ${tries}, next in ${next}`,
    ]);
  }
  if (all > keys.length) rows.push(['', `... and ${grouped(all - keys.length)} more`]);
  return rows;
}

function deadRow(dead: number): Row {
  if (dead === 0) return ['Dead letters', 'none'];
  const verb = dead === 1 ? 'is' : 'are';
  return [
    'Dead letters',
    `${counted(dead, 'change')} could not be sent and ${verb} set aside: lineside outbox dead-letters`,
  ];
}

function topicRow(topic: Fields): Row {
  const lacks = topic.texts('lacks').map(safeText);
  const partitions = counted(topic.number('partitions'), 'partition');
  const name = safeText(topic.text('name'));
  return ['Topics', `${name}, ${partitions}${lacks.length === 0 ? '' : `; LACKS: ${lacks.join('; ')}`}`];
}

function sinceStartText(outbox: Fields): string {
  const published = grouped(outbox.number('publishedTotal'));
  const refused = grouped(outbox.number('refusedTotal'));
  return `${published} published, ${refused} refused by the broker, ${grouped(outbox.number('unreachedTotal'))} tries that did not reach it`;
}

function oncePerLabel(rows: readonly Row[]): Row[] {
  return rows.map(([label, value], at) => [label === rows[at - 1]?.[0] ? '' : label, value]);
}
