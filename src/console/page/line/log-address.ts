/** What is searched for, and where in the log one is: in the address, so that a link can be sent. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { everything, type Wanted } from '../../rows.ts';
import { hashOf, placeOf, withQuery } from '../../views.ts';

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
  /** Entries from this time on are hidden; 0: there is no end. */
  readonly untilMs: number;
  /** Undefined: its dialog is closed. */
  readonly search: StoredSearch | undefined;
}

/** A search of what the log shows now. */
export function newSearch({ text, as, jumpMs, untilMs }: Address): StoredSearch {
  return { pattern: text, kind: as, matchesCase: false, fromMs: jumpMs, toMs: untilMs };
}

/** `links` counts the links that were opened in this page. */
export function useAddress(
  jump: (sinceMs: number, untilMs: number) => void,
): readonly [address: Address, want: (changed: Partial<Address>) => void, links: number] {
  const [address, setAddress] = useState(() => addressOf(placeOf(location.hash)?.query ?? {}));
  const [links, setLinks] = useState(0);
  const now = useRef({ address, jump });
  now.current.jump = jump;
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
      if (next.jumpMs > 0) now.current.jump(next.jumpMs, next.untilMs);
    };
    enter();
    addEventListener('hashchange', enter);
    return () => removeEventListener('hashchange', enter);
  }, []);
  return [address, want, links];
}

function queryOf({ dir, text, as, jumpMs, untilMs, search }: Address): Record<string, string> {
  return {
    dir: dir === everything.dir ? '' : dir,
    text,
    as: as === everything.as || text === '' ? '' : as,
    at: timeOf(jumpMs),
    until: timeOf(untilMs),
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
  return {
    dir: dir === 'rx' || dir === 'tx' ? dir : everything.dir,
    text,
    as: as === 'hex' ? as : everything.as,
    jumpMs: msOf(at),
    // Without a begin the log is followed.
    untilMs: msOf(at) === 0 ? 0 : msOf(until),
    search:
      pattern === ''
        ? undefined
        : {
            pattern,
            kind: findAs === 'hex' || findAs === 'regex' ? findAs : everything.as,
            matchesCase: query['case'] === 'match',
            fromMs: msOf(from),
            toMs: msOf(to),
          },
  };
}

function timeOf(ms: number): string {
  return ms === 0 ? '' : String(ms);
}

function msOf(text: string | undefined): number {
  const ms = Math.trunc(Number(text));
  return Number.isSafeInteger(ms) && ms > 0 ? ms : 0;
}
