/** Where in the page one is, as the part of the address after "#". Pure. */
import { type Section, sections } from './access.ts';

export interface Place {
  readonly section: Section;
  /** What comes after it: a dictionary, and a business key. */
  readonly parts: readonly string[];
}

/** undefined: there is no such place. */
export function placeOf(hash: string): Place | undefined {
  const [first = '', ...rest] = hash.replace(/^#?\/?/, '').split('/');
  const section = sections.find((one) => one === first);
  if (section === undefined) return undefined;
  try {
    return { section, parts: rest.filter((part) => part !== '').map(decodeURIComponent) };
  } catch {
    return undefined;
  }
}

export function hashOf(section: Section, ...parts: readonly string[]): string {
  return `#/${[section, ...parts.map(encodeURIComponent)].join('/')}`;
}
