/** The lines of the log's stream (application/x-ndjson) as messages. Pure. */
import { fromBase64 } from './bytes.ts';
import type { EntryRow, Row } from './rows.ts';

export type Message =
  | { readonly type: 'log'; readonly logId: string; readonly headId: number }
  | { readonly type: 'row'; readonly row: Row }
  | { readonly type: 'position'; readonly nextAfterId: number }
  | { readonly type: 'alive' }
  | { readonly type: 'end'; readonly code: string; readonly message: string };

/** Far above an entry of the largest size as base64: longer is no stream of ours. */
const MAX_LINE_CHARS = 16 * 1024 * 1024;

/** Text that comes in any pieces, as the messages of each piece. Throws where a line is no JSON. */
export async function* messagesOf(pieces: AsyncIterable<string>): AsyncGenerator<readonly Message[]> {
  let rest = '';
  for await (const piece of pieces) {
    const lines = (rest + piece).split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > MAX_LINE_CHARS) throw new Error('the stream has a line without an end');
    yield lines.filter((line) => line !== '').flatMap((line) => messageOf(line) ?? []);
  }
}

/** undefined: of a type that this page does not know. */
function messageOf(line: string): Message | undefined {
  const { type, ...fields } = JSON.parse(line) as Readonly<Record<string, unknown>>;
  switch (type) {
    case 'log':
      return { type, logId: textOf(fields['logId']), headId: Number(fields['headId']) };
    case 'entry':
      return { type: 'row', row: entryOf(fields) };
    case 'gap':
      return { type: 'row', row: gapOf(fields) };
    case 'position':
      return { type, nextAfterId: Number(fields['nextAfterId']) };
    case 'alive':
      return { type };
    case 'end':
      return { type, code: textOf(fields['code']), message: textOf(fields['message']) };
    default:
      return undefined;
  }
}

const clocks = ['known', 'notSet', 'corrected'] as const;

function entryOf(fields: Readonly<Record<string, unknown>>): EntryRow {
  return {
    kind: 'entry',
    id: Number(fields['id']),
    dir: fields['dir'] === 'tx' ? 'tx' : 'rx',
    timestampMs: Number(fields['timestampMs']),
    clock: clocks.find((one) => one === fields['clock']) ?? 'unknown',
    bytes: fromBase64(textOf(fields['data'])),
    note: textOf(fields['note']),
  };
}

function gapOf(fields: Readonly<Record<string, unknown>>): Row {
  return {
    kind: 'gap',
    id: Number(fields['lastId']),
    firstId: Number(fields['firstId']),
    entries: Number(fields['entries']),
    reason: textOf(fields['reason']),
  };
}

function textOf(field: unknown): string {
  return typeof field === 'string' ? field : '';
}
