/** Set on the schema of a body that holds a secret: no answer quotes anything of it, also where it cannot be read. */
export const redacted: unique symbol = Symbol('neverQuoted');

export function isNeverQuoted(body: unknown): boolean {
  return typeof body === 'object' && body !== null && Object.hasOwn(body, redacted);
}
