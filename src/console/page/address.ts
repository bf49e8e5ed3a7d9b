/** The filters of a view in the address, so that a link to it can be sent and the browser's "back" finds them. */
import { useEffect, useState } from 'preact/hooks';
import { placeOf, withQuery } from '../views.ts';

/** No request, and no new address, for each letter. */
const TYPED_MS = 300;

export interface Filter<Name extends string> {
  /** As its fields show it. */
  readonly typed: Readonly<Record<Name, string>>;
  /** As it was when nothing had been typed for a while: what is asked for. */
  readonly settled: Readonly<Record<Name, string>>;
  readonly change: (changed: Partial<Record<Name, string>>) => void;
}

/** `hash`: the address of the view; `names`: of its filters, '' if one is not set. */
export function useFilter<Name extends string>(hash: string, names: readonly Name[]): Filter<Name> {
  const read = (): Record<Name, string> => {
    const query = placeOf(location.hash)?.query ?? {};
    return Object.fromEntries(names.map((name) => [name, query[name] ?? ''])) as Record<Name, string>;
  };
  const [typed, setTyped] = useState(read);
  const [settled, setSettled] = useState(typed);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a view does not change its address or its names
  useEffect(() => {
    // A link leads to the same view with other filters.
    const look = (): void => {
      if (!location.hash.startsWith(hash)) return;
      setTyped(read());
      setSettled(read());
    };
    addEventListener('hashchange', look);
    return () => removeEventListener('hashchange', look);
  }, [hash]);
  useEffect(() => {
    if (typed === settled) return undefined;
    const timer = setTimeout(() => {
      setSettled(typed);
      try {
        history.replaceState(null, '', withQuery(hash, typed));
      } catch {
        // A browser may refuse many changes within seconds: the address is right again after the next one.
      }
    }, TYPED_MS);
    return () => clearTimeout(timer);
  }, [hash, typed, settled]);
  const change = (changed: Partial<Record<Name, string>>): void => setTyped((before) => ({ ...before, ...changed }));
  return { typed, settled, change };
}
