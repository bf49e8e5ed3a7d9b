/** Where two texts begin to differ. Pure. */

export function lineOf(before: string, after: string): string {
  const [was, is] = [before.split('\n'), after.split('\n')];
  const at = is.findIndex((line, i) => line !== was[i]);
  const i = at === -1 ? is.length : at;
  return `line ${i + 1}\n  is:        ${was[i] ?? '(the end)'}\n  should be: ${is[i] ?? '(the end)'}`;
}
