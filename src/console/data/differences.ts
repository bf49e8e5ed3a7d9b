/** Two changes of one record at the same time: its fields as they were, as they are on the box, and as they were typed. Pure. */

export interface Difference {
  /** "place › floor" */
  readonly field: string;
  /** Each as JSON; '' if the field is missing. */
  readonly before: string;
  readonly theirs: string;
  readonly mine: string;
  /** Both changed it, and not to the same. */
  readonly isConflict: boolean;
}

/** Of one record: the page stays usable. */
const MAX_DIFFERENCES = 200;
/** Deeper objects are compared as a whole. */
const MAX_DEPTH = 8;

/** The fields that the box or the user changed. `before` undefined: that version is not known, each field counts as changed by both. */
export function differences(before: unknown, theirs: unknown, mine: unknown): readonly Difference[] {
  const [first, second, third] = [leavesOf(before), leavesOf(theirs), leavesOf(mine)];
  const found: Difference[] = [];
  for (const field of new Set([...second.keys(), ...third.keys(), ...first.keys()])) {
    const [was, is, typed] = [first.get(field) ?? '', second.get(field) ?? '', third.get(field) ?? ''];
    const isConflict = is !== typed && (before === undefined || (is !== was && typed !== was));
    if (is !== typed || is !== was) found.push({ field, before: was, theirs: is, mine: typed, isConflict });
    if (found.length === MAX_DIFFERENCES) break;
  }
  return found;
}

/** Lists are compared as a whole: an inserted element would make all after it differ. */
function leavesOf(value: unknown): ReadonlyMap<string, string> {
  const leaves = new Map<string, string>();
  const walk = (at: unknown, path: readonly string[]): void => {
    const isObject = typeof at === 'object' && at !== null && !Array.isArray(at);
    const inner = isObject && path.length < MAX_DEPTH ? Object.entries(at) : [];
    if (inner.length > 0) for (const [name, one] of inner) walk(one, [...path, name]);
    else if (path.length > 0) leaves.set(path.join(' › '), JSON.stringify(at));
  };
  walk(value, []);
  return leaves;
}
