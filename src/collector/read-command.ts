/** `lineside collector read`: what is stored, for people or as JSON lines. */

import { exitStatus } from '../cli/failure.ts';
import type { CliIo } from '../cli/io.ts';
import { EntryPrinter } from '../cli/output/entries.ts';
import { safeText } from '../cli/output/hex.ts';
import { entryJson, gapJson, type Json, jsonLine } from '../cli/output/json.ts';
import { counted, exact, grouped, localTime, systemZone } from '../cli/output/numbers.ts';
import { Output } from '../cli/output/output.ts';
import { type GapShown, type Item, readStored } from './reader.ts';

export interface ReadOptions {
  readonly dir: string;
  readonly device?: string;
  readonly log?: string;
  readonly json?: boolean;
  readonly base64?: boolean;
  readonly view: 'hex' | 'text' | 'both';
  readonly ids?: boolean;
}

/** Answers the exit status: `nothing` where nothing is stored of what was asked for, `lost` where a file is damaged. */
export async function readCommand(options: ReadOptions, io: CliIo): Promise<number> {
  const out = new Output(io.stdout);
  const render = options.json === true ? jsonOf(options) : textOf(options, out, io);
  let status: number = exitStatus.nothing;
  try {
    for await (const item of readStored(options.dir, { deviceId: options.device, logId: options.log })) {
      if (status === exitStatus.nothing) status = exitStatus.ok;
      if (item.kind === 'damage') {
        status = exitStatus.lost;
        io.stderr.write(`lineside: ${item.file} is damaged, and not read to its end.\n`);
      } else {
        await out.write(render(item));
      }
    }
    await out.flush();
    if (status === exitStatus.nothing) io.stderr.write('lineside: nothing is stored there of what was asked for.\n');
    return status;
  } finally {
    out.release();
  }
}

type Shown = Exclude<Item, { kind: 'damage' }>;

function jsonOf({ base64 }: ReadOptions): (item: Shown) => string {
  const form = base64 === true ? 'base64' : 'hex';
  return (item) => {
    if (item.kind === 'log') return jsonLine({ log: { deviceId: item.deviceId, logId: item.logId } });
    return jsonLine(item.kind === 'gap' ? { gap: gapObject(item.value) } : entryJson(item.value, form));
  };
}

/** The form of `log export`, and what only this side knows. */
function gapObject(gap: GapShown): Json {
  const { cause, openEnded } = gap;
  const times = exact(gap.toMs) === 0 ? { from: null, to: null } : {};
  return { cause, ...gapJson(gap), ...times, ...(openEnded ? { openEnded } : {}) };
}

function textOf({ view, ids }: ReadOptions, out: Output, io: CliIo): (item: Shown) => string {
  const colour = out.isTerminal && (io.env['NO_COLOR'] ?? '') === '';
  const look = { view, width: out.width, colour, ids: ids === true, zone: systemZone };
  let printer = new EntryPrinter(look);
  return (item) => {
    if (item.kind === 'gap') return `-- ${gapText(item.value)} --\n`;
    if (item.kind === 'entry') return printer.item(item);
    // The day is shown again for each log.
    printer = new EntryPrinter(look);
    return `== device ${safeText(item.deviceId)}, log ${safeText(item.logId)} ==\n`;
  };
}

const phrases: Readonly<Record<GapShown['cause'], string>> = {
  notStored: 'not stored on the box',
  overtaken: 'removed on the box before they could be sent',
  logReplaced: "lost with the box's log, which was replaced",
  tooLarge: 'too large to be sent',
  notHere: 'not here',
};

function gapText(gap: GapShown): string {
  const { cause, firstId, lastId, entries, openEnded, fromMs, toMs, reason } = gap;
  // Only what could not be stored was counted.
  const count = `${cause === 'notStored' ? '' : 'at most '}${counted(entries, 'entry', 'entries')}`;
  const what = openEnded ? 'an unknown number of entries' : `${count}, ids ${grouped(firstId)} to ${grouped(lastId)},`;
  const from = localTime(fromMs, systemZone);
  const to = localTime(toMs, systemZone);
  const times = exact(toMs) === 0 ? '' : `, ${from.date} ${from.time} to ${to.date} ${to.time}`;
  return `${what} ${phrases[cause]}${times}${reason === '' ? '' : `: ${safeText(reason)}`}`;
}
