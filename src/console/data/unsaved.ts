/**
 * What was typed into a form and not saved: kept over a change of view and a reload, as long as the token (in the tab, until
 * sign-out). Never a token or a secret: only the forms of reference data use it. Pure but for the storage that it is given.
 */

/** The fields of a form, by name. */
export type Typed = Readonly<Record<string, string>>;

/** As sessionStorage; it may throw: a browser can forbid it, or it is full. */
export interface TextStorage {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

const KEY = 'lineside.unsaved';
/** Forms; the one that was typed into longest ago is dropped. */
const MAX_FORMS = 20;
/** Of all together: four records of the largest size that the box accepts. A browser grants 5 M characters. */
const MAX_CHARS = 1_000_000;

interface Kept {
  readonly who: string;
  /** The newest last. */
  readonly forms: readonly (readonly [id: string, typed: Typed])[];
}

export class Unsaved {
  readonly #storage: TextStorage;
  readonly #who: string;

  /** `who`: whose text. That of another person is never shown, and dropped with the first text of this one. */
  constructor(storage: TextStorage, who: string) {
    this.#storage = storage;
    this.#who = who;
  }

  /** False: it is not kept, because it is too large or the browser has no storage. */
  keep(id: string, typed: Typed): boolean {
    const others = this.#forms().filter(([one]) => one !== id);
    const forms = [...others, [id, typed] as const].slice(-MAX_FORMS);
    while (forms.length > 1 && charsOf(forms) > MAX_CHARS) forms.shift();
    if (charsOf(forms) <= MAX_CHARS && this.#store(forms)) return true;
    // An older state of the same text would be offered as the newest.
    this.#store(others);
    return false;
  }

  kept(id: string): Typed | undefined {
    return this.#forms().find(([one]) => one === id)?.[1];
  }

  forget(id: string): void {
    this.#store(this.#forms().filter(([one]) => one !== id));
  }

  /** Of all forms whose id begins so. */
  ids(prefix: string): readonly string[] {
    return this.#forms().flatMap(([id]) => (id.startsWith(prefix) ? [id] : []));
  }

  #forms(): Kept['forms'] {
    try {
      const kept = JSON.parse(this.#storage.getItem(KEY) ?? 'null') as Kept | null;
      return kept?.who === this.#who && Array.isArray(kept.forms) ? kept.forms.filter(isForm) : [];
    } catch {
      return [];
    }
  }

  #store(forms: Kept['forms']): boolean {
    try {
      if (forms.length === 0) this.#storage.removeItem(KEY);
      else this.#storage.setItem(KEY, JSON.stringify({ who: this.#who, forms } satisfies Kept));
      return true;
    } catch {
      return false;
    }
  }
}

const charsOf = (forms: Kept['forms']): number => JSON.stringify(forms).length;

/** What is kept may be of another version of the page. */
function isForm(one: unknown): one is readonly [string, Typed] {
  if (!Array.isArray(one) || typeof one[0] !== 'string') return false;
  const typed: unknown = one[1];
  return (
    typeof typed === 'object' && typed !== null && Object.values(typed).every((value) => typeof value === 'string')
  );
}

/** At sign-out. */
export function clearUnsaved(storage: TextStorage): void {
  try {
    storage.removeItem(KEY);
  } catch {
    // Nothing was kept.
  }
}
