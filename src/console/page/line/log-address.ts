/** What is searched for, and where in the log one is: in the address, so that a link can be sent. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { everything, type Wanted } from '../../rows.ts';
import { hashOf, placeOf, withQuery } from '../../views.ts';
import type { EntryPlace } from './log-model.ts';

/** A search of the stored log, in the direction of the log's own filter. */
export interface StoredSearch {
  readonly pattern: string;
  readonly kind: Wanted['as'] | 'regex';
  readonly matchesCase: boolean;
  /** Only in entries from this time on; 0: from the oldest. */
  readonly fromMs: number;
  /** Only in entries before; 0: to the newest. */
  readonly toMs: number;
}

export interface Address extends Wanted {
  /** The time that the log is shown from; 0: it is followed. */
  readonly jumpMs: number;
  /** Instead: the entry that is shown. */
  readonly entry: EntryPlace | undefined;
  /** Entries from this time on are hidden; 0: there is no end. */
  readonly untilMs: number;
  /** Undefined: its dialog is closed. */
  readonly search: StoredSearch | undefined;
}

/** A search of what the log shows now. */
export function newSearch({ text, as, jumpMs, untilMs }: Address): StoredSearch {
  return { pattern: text, kind: as, matchesCase: false, fromMs: jumpMs, toMs: untilMs };
}

/** `go`: to the place in the log that a link has. `links` counts the links that were opened in this page. */
export function useAddress(
  go: (address: Address) => void,
): readonly [address: Address, want: (changed: Partial<Address>) => void, links: number] {
  const [address, setAddress] = useState(() => addressOf(placeOf(location.hash)?.query ?? {}));
  const [links, setLinks] = useState(0);
  const now = useRef({ address, go });
  now.current.go = go;
  const want = (changed: Partial<Address>): void => {
    const next = { ...now.current.address, ...changed };
    now.current.address = next;
    setAddress(next);
    try {
      // No view of its own to go back to with each letter that is typed.
      history.replaceState(null, '', withQuery(hashOf('line'), queryOf(next)));
    } catch {
      // A browser may refuse many changes within seconds: the address is right again after the next one.
    }
  };
  useEffect(() => {
    // At the begin, and for a link that is opened in this page.
    const enter = (): void => {
      const place = placeOf(location.hash);
      if (place?.section !== 'line') return;
      // Back from another view, where nothing was forgotten.
      if (Object.keys(place.query).length === 0) return want({});
      const next = addressOf(place.query);
      want(next);
      setLinks((count) => count + 1);
      now.current.go(next);
    };
    enter();
    addEventListener('hashchange', enter);
    return () => removeEventListener('hashchange', enter);
  }, []);
  return [address, want, links];
}

function queryOf({ dir, text, as, jumpMs, entry, untilMs, search }: Address): Record<string, string> {
  return {
    dir: dir === everything.dir ? '' : dir,
    text,
    as: as === everything.as || text === '' ? '' : as,
    at: timeOf(jumpMs),
    until: timeOf(untilMs),
    ...(entry !== undefined && { entry: String(entry.id), log: entry.logId }),
    ...(search !== undefined &&
      search.pattern !== '' && {
        find: search.pattern,
        findAs: search.kind === everything.as ? '' : search.kind,
        case: search.matchesCase ? 'match' : '',
        from: timeOf(search.fromMs),
        to: timeOf(search.toMs),
      }),
  };
}

function addressOf(query: Readonly<Record<string, string>>): Address {
  const { dir, text = '', as, at, until, find: pattern = '', findAs, from, to } = query;
  const entryId = numberOf(query['entry']);
  return {
    dir: dir === 'rx' || dir === 'tx' ? dir : everything.dir,
    text,
    as: as === 'hex' ? as : everything.as,
    jumpMs: entryId === 0 ? numberOf(at) : 0,
    entry: entryId === 0 ? undefined : { id: entryId, logId: query['log'] ?? '' },
    // Without a begin the log is followed.
    untilMs: numberOf(at) === 0 || entryId > 0 ? 0 : numberOf(until),
    search:
      pattern === ''
        ? undefined
        : {
            pattern,
            kind: findAs === 'hex' || findAs === 'regex' ? findAs : everything.as,
            matchesCase: query['case'] === 'match',
            fromMs: numberOf(from),
            toMs: numberOf(to),
          },
  };
}

function timeOf(ms: number): string {
  return ms === 0 ? '' : String(ms);
}

/** A time or an id; 0: the text is none. */
function numberOf(text: string | undefined): number {
  const number = Math.trunc(Number(text));
  return Number.isSafeInteger(number) && number > 0 ? number : 0;
}
