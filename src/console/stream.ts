/** The lines of the streams of the log and of its search (application/x-ndjson) as messages. Pure. */
import { fromBase64 } from './bytes.ts';
import type { EntryRow, GapRow, Row } from './rows.ts';
import { text } from './text.ts';

export type Message =
  | { readonly type: 'log'; readonly logId: string; readonly headId: number }
  | { readonly type: 'row'; readonly row: Row }
  | { readonly type: 'position'; readonly nextAfterId: number }
  | { readonly type: 'alive' }
  | Match
  | Progress
  | { readonly type: 'done'; readonly reason: 'complete' | 'limit' | 'time'; readonly resumeAfterId: number }
  | { readonly type: 'end'; readonly code: string; readonly message: string };

/** Of a search, as the box writes it. */
export interface Match {
  readonly type: 'match';
  /** The entry that holds its first byte, and the byte's place there. */
  readonly entryId: number;
  readonly offset: number;
  readonly dir: 'rx' | 'tx';
  readonly timestampMs: number;
}

/** Since the search began. */
export interface Progress {
  readonly type: 'progress';
  readonly entries: number;
  readonly bytes: number;
}

/** Far above an entry of the largest size as base64. */
const MAX_LINE_CHARS = 16 * 1024 * 1024;

/** Text in pieces of any size, as the messages of each piece. Throws if a line is no JSON. */
export async function* messagesOf(pieces: AsyncIterable<string>): AsyncGenerator<readonly Message[]> {
  let rest = '';
  for await (const piece of pieces) {
    const lines = (rest + piece).split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > MAX_LINE_CHARS) throw new Error(text.problems.endlessLine);
    yield lines.filter((line) => line !== '').flatMap((line) => messageOf(line) ?? []);
  }
}

/** As the box writes them; a later version of it may write others. */
type Line =
  | Exclude<Message, { readonly type: 'row' }>
  | (Omit<EntryRow, 'kind' | 'bytes'> & { readonly type: 'entry'; readonly data: string })
  | (Omit<GapRow, 'kind' | 'id'> & { readonly type: 'gap'; readonly lastId: number })
  | { readonly type: 'unknown' };

function messageOf(text: string): Message | undefined {
  const line = JSON.parse(text) as Line;
  switch (line.type) {
    case 'entry': {
      const { type: _, data, ...entry } = line;
      return { type: 'row', row: { ...entry, kind: 'entry', bytes: fromBase64(data) } };
    }
    case 'gap': {
      const { type: _, lastId: id, ...gap } = line;
      return { type: 'row', row: { ...gap, kind: 'gap', id } };
    }
    case 'log':
    case 'position':
    case 'alive':
    case 'match':
    case 'progress':
    case 'done':
    case 'end':
      return line;
    default:
      return undefined;
  }
}
