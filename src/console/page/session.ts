/** The user of the page: the token lives as long as the tab, and is in no cookie. */
import { createContext } from 'preact';
import { useContext, useState } from 'preact/hooks';
import type { Health } from '../../shared/gen/http.ts';
import { clearUnsaved, type TextStorage } from '../data/unsaved.ts';
import type { Rights } from '../views.ts';
import type { Api } from './api.ts';

const KEY = 'lineside.token';

export interface Session {
  readonly api: Api;
  readonly name: string;
  readonly roles: readonly string[];
  readonly rights: Rights;
}

export const SessionContext = createContext<Session | undefined>(undefined);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === undefined) throw new Error('a part of the page that needs a session stands outside of one');
  return session;
}

/** The box of this page. Undefined until it has answered once. */
export const BoxContext = createContext<Pick<Health, 'name' | 'deviceId'> | undefined>(undefined);

/** What the browser keeps for this tab. Each call may throw: a browser may forbid the storage. */
export const tabStorage: TextStorage = {
  getItem: (key) => sessionStorage.getItem(key),
  setItem: (key, value) => sessionStorage.setItem(key, value),
  removeItem: (key) => sessionStorage.removeItem(key),
};

/** '' where there is none. A browser may forbid the storage: then the token is kept until the page is reloaded. */
export function keptToken(): string {
  try {
    return sessionStorage.getItem(KEY) ?? '';
  } catch {
    return '';
  }
}

export function keepToken(token: string): void {
  try {
    if (token === '') sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, token);
  } catch {
    // Kept in memory only.
  }
}

/** Nothing of this user stays in the tab. */
export function clearTab(): void {
  keepToken('');
  clearUnsaved(tabStorage);
}

/** A choice of this browser; `values`: the usual one first. It may forbid the storage: then the choice lasts until the page is reloaded. */
export function useKept<T extends string>(key: string, values: readonly [T, ...T[]]): readonly [T, (value: T) => void] {
  const [value, setValue] = useState<T>(() => {
    try {
      return values.find((one) => one === localStorage.getItem(key)) ?? values[0];
    } catch {
      return values[0];
    }
  });
  const choose = (next: T): void => {
    setValue(next);
    try {
      localStorage.setItem(key, next);
    } catch {
      // Kept in memory only.
    }
  };
  return [value, choose];
}
