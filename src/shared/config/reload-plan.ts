/** The plan of a reload: the changed keys, and the effect of each on the running process. Pure. */
import { type Config, keys } from './config.ts';
import { crossCheck } from './cross-checks.ts';
import { camel, type Reload } from './key.ts';
import type { Loaded } from './load.ts';
import type { Settings } from './values.ts';

export type InForce = Pick<Loaded, 'config' | 'settings' | 'unused'>;

/**
 * `config`: what the line applies now, as before, with the live keys changed; `settings`: its settings, to compare the next reload
 * with; `conflicts`: why live keys are among those that need a restart, since they conflict with others that do.
 */
export function planReload(before: InForce, after: InForce) {
  const changed = keys.filter(
    ({ path }) => !same(before.settings, after.settings, path) && !after.unused.includes(path),
  );
  const of = (...some: readonly Reload[]): string[] =>
    changed.filter(({ schema }) => some.includes(schema['x-reload'])).map(({ path }) => path);
  const [live, hub, restart] = [of('live', 'live, hub'), of('hub', 'live, hub'), of('restart')];
  const config = withLive(before.config, after.config);
  const conflicts = crossCheck(config, []);
  if (conflicts.length > 0) {
    const { config: unchanged, settings } = before;
    const none: string[] = [];
    return { config: unchanged, settings, live: none, hub, restart: [...live, ...restart], conflicts };
  }
  const settings = new Map(before.settings);
  for (const path of live) {
    const setting = after.settings.get(path);
    if (setting !== undefined) settings.set(path, setting);
  }
  return { config, settings, live, hub, restart, conflicts };
}

function same(before: Settings, after: Settings, path: string): boolean {
  // Lists of strings and numbers, which JSON distinguishes.
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
