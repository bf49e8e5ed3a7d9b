/** JSON that may be shown on a terminal as it is. Pure. */

/** What could drive a terminal is an escape. It stands inside strings only, so the JSON stays the same. */
export function shownJson(value: unknown, indent = 0): string {
  return JSON.stringify(value, null, indent).replace(/[^\p{L}\p{M}\p{N}\p{P}\p{S} \n]/gu, (char) =>
    Array.from({ length: char.length }, (_, at) => `\\u${char.charCodeAt(at).toString(16).padStart(4, '0')}`).join(''),
  );
}
