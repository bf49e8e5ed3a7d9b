/** The plan of a reload: the changed keys, and the effect of each on the running process. Pure. */
import { type Config, keys } from './config.ts';
import { crossCheck } from './cross-checks.ts';
import { camel, type Reload } from './key.ts';
import type { Fault, Settings } from './values.ts';

/** A part of load.ts's Loaded. */
interface Read {
  readonly config: Config;
  readonly settings: Settings;
  /** Keys that count for nothing. */
  readonly unused: readonly string[];
}

/** Keys by their paths. */
export interface ReloadPlan {
  /** The configuration that the line applies now: as before, with the live keys changed. */
  readonly config: Config;
  /** Its settings, to compare the next reload with. */
  readonly settings: Settings;
  readonly live: readonly string[];
  readonly hub: readonly string[];
  readonly restart: readonly string[];
  /** Why live keys are among those to be restarted for: they do not go with others that are. */
  readonly conflicts: readonly Fault[];
}

export function planReload(before: Read, after: Read): ReloadPlan {
  const changed = keys.filter(
    ({ path }) => !same(before.settings, after.settings, path) && !after.unused.includes(path),
  );
  const of = (...some: readonly Reload[]): string[] =>
    changed.filter(({ schema }) => some.includes(schema['x-reload'])).map(({ path }) => path);
  const [live, hub, restart] = [of('live', 'live, hub'), of('hub', 'live, hub'), of('restart')];
  const config = withLive(before.config, after.config);
  const settings = new Map(before.settings);
  for (const path of live) {
    const setting = after.settings.get(path);
    if (setting !== undefined) settings.set(path, setting);
  }
  const conflicts = crossCheck(config, []);
  if (conflicts.length === 0) return { config, settings, live, hub, restart, conflicts };
  const { config: unchanged, settings: old } = before;
  return { config: unchanged, settings: old, live: [], hub, restart: [...live, ...restart], conflicts };
}

function same(before: Settings, after: Settings, path: string): boolean {
  // Lists of texts and numbers, which JSON tells apart.
  return JSON.stringify(before.get(path)?.value) === JSON.stringify(after.get(path)?.value);
}

const livePaths = keys
  .filter(({ schema }) => schema['x-reload'].startsWith('live'))
  .map(({ path }) => path.split('.').map(camel));

type Branch = Record<string, unknown>;

/** `before` with the live keys of `after`. */
function withLive(before: Config, after: Config): Config {
  const taken = structuredClone(before);
  for (const path of livePaths) {
    const [name = '', ...sections] = path.toReversed();
    const at = (from: Config): Branch =>
      sections.toReversed().reduce((table, section) => table[section] as Branch, from as unknown as Branch);
    at(taken)[name] = at(after)[name];
  }
  return taken;
}
