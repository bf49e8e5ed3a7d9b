/**
 * Reloading the configuration while the process runs. A faulty one is refused and the old one stays in use. Of a good one the
 * line applies what it can with its port open and names the other changed keys; the hub restarts when something of its own
 * has changed. Only keys are named, never their values.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { asLinesideError } from '../shared/base/errors.ts';
import type { Logger } from '../shared/base/logger.ts';
import type { Config } from '../shared/config/config.ts';
import { isExposed } from '../shared/config/exposure.ts';
import type { Loaded } from '../shared/config/load.ts';
import { type InForce, planReload } from '../shared/config/reload-plan.ts';

const FAULTY = 'CONFIGURATION FAULTY (see the journal), the old one is in use';

interface ReloadOptions {
  readonly loaded: Loaded;
  /** Throws CONFIG_INVALID with every fault. */
  readonly read: () => Loaded;
  readonly logger: Logger;
}

export interface Reloaded {
  readonly isGood: boolean;
  /** To stand beside the status. */
  readonly remark: string;
  /** Changed keys that apply only after a restart; '': none. */
  readonly restart: string;
  /** Why the process is to end, so that it is started again; '': it continues. */
  readonly endsFor: string;
}

const asBefore: Reloaded = { isGood: true, remark: '', restart: '', endsFor: '' };

/** `who`: of the process in the log, "hub " or ''. */
function reloader(
  { read, logger }: ReloadOptions,
  who: string,
  apply: (after: Loaded) => Promise<Reloaded> | Reloaded,
) {
  let refused = '';
  let restart = '';
  return {
    /** The keys or lines with a fault that the last reload found; '': the file was accepted. */
    refused: () => refused,
    restartNeeded: () => restart,
    reload: async (): Promise<Reloaded> => {
      try {
        const reloaded = await apply(read());
        refused = '';
        ({ restart } = reloaded);
        return reloaded;
      } catch (error) {
        refused = placesOf(error);
        const { message, reasons, hint } = asLinesideError(error);
        for (const fault of reasons.length > 0 ? reasons : [message])
          logger.error(`${who}configuration fault`, { fault });
        logger.error(`${who}the configuration is faulty: the old one stays in use`, hint === '' ? {} : { hint });
        return { isGood: false, remark: FAULTY, restart, endsFor: '' };
      }
    },
  };
}

/** `take` applies a configuration, and answers the keys that it could not take; a key of a file counts when the content alone has changed. */
export function lineReloader(options: ReloadOptions, take: (config: Config) => Promise<readonly string[]>) {
  const { logger } = options;
  let now: InForce = options.loaded;
  return reloader(options, '', async (after) => {
    for (const warning of after.warnings) logger.warn('configuration', { warning });
    const plan = planReload(now, after);
    const notTaken = await take(plan.config);
    const taken = plan.live.filter((path) => !notTaken.includes(path));
    const settings = new Map(plan.settings);
    for (const path of notTaken) {
      const before = now.settings.get(path);
      if (before !== undefined) settings.set(path, before);
    }
    const tls = notTaken.length === 0 ? plan.config.tls : now.config.tls;
    now = { config: { ...plan.config, tls }, settings, unused: after.unused };
    for (const { path, message } of plan.conflicts) logger.warn('not taken before a restart', { key: path, message });
    logger.info('configuration reloaded', taken.length === 0 ? {} : { taken: taken.join(' ') });
    const restart = [...new Set([...notTaken, ...plan.restart])].join(' ');
    if (restart === '') return asBefore;
    logger.warn('changed keys need a restart of the service', { keys: restart });
    return { ...asBefore, restart, remark: `RESTART NEEDED for ${restart}` };
  });
}

export function hubReloader(options: ReloadOptions) {
  const { loaded } = options;
  const files = digestOfFiles(loaded.config);
  return reloader(options, 'hub ', (after) => {
    const sameFiles = digestOfFiles(after.config) === files;
    const changed = planReload(loaded, after).hub.join(' ') || (sameFiles ? '' : 'a file that it names');
    return changed === '' ? asBefore : { ...asBefore, endsFor: `the configuration has changed: ${changed}` };
  });
}

/** Never a value: this is shown to everyone who may see the status. */
function placesOf(error: unknown): string {
  const { reasons, message } = asLinesideError(error);
  const places = [...new Set(reasons.map((reason) => reason.slice(0, reason.indexOf(':'))))];
  const shown = places.slice(0, shownPlaces).join(', ');
  if (places.length > shownPlaces) return `${shown} and ${places.length - shownPlaces} more`;
  return shown === ''
    ? (/:\d+:\d+(?=: )/.exec(message)?.[0].replace(/^:(\d+).*/, 'line $1') ?? 'the file cannot be read')
    : shown;
}

/** More do not fit a line of `lineside status`; the journal has all. */
const shownPlaces = 5;

/** The contents of the files that the hub has read at its start. */
function digestOfFiles({ kafka, webhooks, http, tls }: Config): string {
  const files = [kafka.passwordFile, kafka.caFile, webhooks.caFile];
  if (isExposed(http.listen)) files.push(tls.certFile, tls.keyFile);
  const digest = createHash('sha256');
  for (const file of files) digest.update(contents(file)).update('\0');
  return digest.digest('hex');
}

function contents(file: string): Buffer {
  try {
    return file === '' ? Buffer.alloc(0) : readFileSync(file);
  } catch {
    // load() has judged whether it may be missing.
    return Buffer.alloc(0);
  }
}
