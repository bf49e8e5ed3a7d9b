/** What a reload of the configuration comes to: which keys were changed, and what the running process makes of them. Pure. */
import type { Config } from './config.ts';
import { crossCheck } from './cross-checks.ts';
import type { Reload } from './key.ts';
import { keys } from './keys.ts';
import type { Fault, Settings } from './settings.ts';

/** Of load.ts's Loaded. */
interface Read {
  readonly config: Config;
  readonly settings: Settings;
  /** Keys that count for nothing. */
  readonly unused: readonly string[];
}

/** Keys by their paths. */
export interface ReloadPlan {
  /** What the line is to take now: as it was, but for the live keys. */
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
    changed.filter(({ reload }) => some.includes(reload)).map(({ path }) => path);
  const [live, hub, restart] = [of('live', 'live, hub'), of('hub', 'live, hub'), of('restart')];
  const config = withLive(before.config, after.config);
  const settings = new Map(before.settings);
  for (const path of live) {
    const setting = after.settings.get(path);
    if (setting !== undefined) settings.set(path, setting);
  }
  const conflicts = crossCheck(config, settings, []);
  if (conflicts.length === 0) return { config, settings, live, hub, restart, conflicts };
  const { config: unchanged, settings: old } = before;
  return { config: unchanged, settings: old, live: [], hub, restart: [...live, ...restart], conflicts };
}

function same(before: Settings, after: Settings, path: string): boolean {
  // Lists of texts and numbers, which JSON tells apart.
  return JSON.stringify(before.get(path)?.value) === JSON.stringify(after.get(path)?.value);
}

/** Held to the table of keys by a test. */
function withLive(before: Config, { serial, log, grpc, auth, tls }: Config): Config {
  const { maxPayloadBytes, writeTimeoutMs, rxGapMs } = serial;
  const { commitMs, maxBytes, maxAgeDays } = log;
  const { operatorCerts, viewerCerts } = auth;
  return {
    ...before,
    serial: { ...before.serial, maxPayloadBytes, writeTimeoutMs, rxGapMs },
    log: { ...before.log, commitMs, maxBytes, maxAgeDays },
    grpc: { ...before.grpc, maxSubscribers: grpc.maxSubscribers },
    auth: { ...before.auth, operatorCerts, viewerCerts },
    tls,
  };
}
