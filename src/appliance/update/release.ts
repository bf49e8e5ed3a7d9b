/** Versions of lineside, "1.2.3" or "1.2.3-rc.1", in their order. Pure. */

/** `before`: before the release itself, "rc.1". */
export function parseVersion(text: string): { readonly core: string; readonly before: string } | undefined {
  const [, core, before = ''] = /^(\d{1,9}\.\d{1,9}\.\d{1,9})(?:-([0-9A-Za-z.-]{1,64}))?$/.exec(text) ?? [];
  return core === undefined ? undefined : { core, before };
}

/** Numbers by value, and before words. */
const order = new Intl.Collator('en', { numeric: true });

/** Below 0: `a` is older than `b`. A text that is no version is older than any, and they are equal among themselves. */
export function compareVersions(a: string, b: string): number {
  const [one, other] = [parseVersion(a), parseVersion(b)];
  if (one === undefined || other === undefined) return Number(one !== undefined) - Number(other !== undefined);
  const isRelease = Number(one.before === '') - Number(other.before === '');
  return order.compare(one.core, other.core) || isRelease || order.compare(one.before, other.before);
}
