/** outbox: what is still to be told to the broker, and why it waits; its dead letters are beside this file. */
import type { Command } from 'commander';
import { Fields } from '../connection/answers.ts';
import { apiPath } from '../connection/hub-client.ts';
import { exitStatus } from '../failure.ts';
import { safeText } from '../output/hex.ts';
import { jsonLine } from '../output/json.ts';
import { counted, grouped, spanText } from '../output/numbers.ts';
import { labelledWrapped } from '../output/table.ts';
import type { HubCall, Shell } from '../shell.ts';
import { type WatchOptions, watched, watchInterval } from '../watch.ts';
import { addDeadLetters } from './dead-letters.ts';
import { timeText } from './refdata-options.ts';

export function addOutbox(program: Command, shell: Shell): void {
  const command = program
    .command('outbox')
    .enablePositionalOptions()
    .description('show what waits for the broker and why; `outbox dead-letters` shows what was given up')
    .option('--watch [seconds]', 'again every second (or so many), until Ctrl-C', watchInterval)
    .addHelpText(
      'after',
      '\nExamples:\n  lineside outbox\n  lineside outbox --watch 5\n  lineside outbox --json | jq .waiting\n  lineside outbox dead-letters\n',
    );
  shell.hub<WatchOptions>(command, {
    what: 'cannot read the outbox',
    endsOnCtrlC: ({ watch }) => watch !== undefined,
    run: (call) => watched(call, (lead) => show(call, lead)),
  });
  addDeadLetters(command, shell);
}

async function show(call: HubCall<object>, lead: string): Promise<number> {
  const hub = await call.hub();
  const now = await hub.get(apiPath('admin', 'outbox'));
  const text = outboxText(new Fields(now, 'the outbox'), call.out.width);
  await call.out.write(call.json ? jsonLine(now) : lead + text);
  return exitStatus.ok;
}

// The outbox for people, for one at 3 a.m. with a torch too: what waits, why, since when, and whether anything is lost.

type Row = readonly [string, string];

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
  rows.push(['In flight', inFlightText(outbox)], ...blockedRows(outbox), deadRow(outbox.number('deadLetters')));
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

/** What an engineer wants to hear when changes wait and the broker is away. */
function easeText(outbox: Fields, broker: Fields): string {
  if (broker.truth('connected') || outbox.number('waiting') === 0) return '';
  return broker.truth('configured')
    ? 'nothing is lost: they are stored on this box and go out by themselves when the broker is back'
    : 'they are published when a broker is configured; if outbox.max_bytes is reached before, the oldest are pruned';
}

function inFlightText(outbox: Fields): string {
  const inFlight = outbox.number('inFlight');
  return inFlight === 0 ? 'nothing' : `${counted(inFlight, 'change')} on the way, not acknowledged yet`;
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
