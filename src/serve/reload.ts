/**
 * Reloading the configuration while the process runs. A faulty one is refused and the old one stays; of a good one the
 * line takes what it can with its port open and names the rest, the hub starts itself again when something of its own has
 * changed. Only keys are named, never their values.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { asLinesideError } from '../shared/base/errors.ts';
import type { Logger } from '../shared/base/logger.ts';
import type { Config } from '../shared/config/config.ts';
import { isExposed } from '../shared/config/exposure.ts';
import type { Loaded } from '../shared/config/load.ts';
import { planReload } from '../shared/config/reload.ts';

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
  /** Why the process is to end, so that it is started again; '': it goes on. */
  readonly endsFor: string;
}

interface LineReloadOptions extends ReloadOptions {
  /** Answers the keys that it could not take, those of files whose contents alone were changed among them. */
  readonly take: (config: Config) => Promise<readonly string[]>;
}

export class LineReload {
  readonly #o: LineReloadOptions;
  /** The keys or lines with a fault that the last reload found; '': the file was taken. */
  #refused = '';
  /** The configuration in force. */
  #now: Pick<Loaded, 'config' | 'settings' | 'unused'>;

  constructor(options: LineReloadOptions) {
    this.#o = options;
    this.#now = options.loaded;
  }

  get refused(): string {
    return this.#refused;
  }

  async reload(): Promise<Reloaded> {
    const { read, take, logger } = this.#o;
    try {
      const after = read();
      for (const warning of after.warnings) logger.warn('configuration', { warning });
      const plan = planReload(this.#now, after);
      const notTaken = await take(plan.config);
      const taken = plan.live.filter((path) => !notTaken.includes(path));
      const settings = new Map(plan.settings);
      for (const path of notTaken) {
        const before = this.#now.settings.get(path);
        if (before !== undefined) settings.set(path, before);
      }
      const tls = notTaken.length === 0 ? plan.config.tls : this.#now.config.tls;
      this.#now = { config: { ...plan.config, tls }, settings, unused: after.unused };
      this.#refused = '';
      for (const { path, message } of plan.conflicts) logger.warn('not taken before a restart', { key: path, message });
      logger.info('configuration reloaded', taken.length === 0 ? {} : { taken: taken.join(' ') });
      const restart = [...new Set([...notTaken, ...plan.restart])];
      if (restart.length === 0) return { isGood: true, remark: '', endsFor: '' };
      logger.warn('changed keys need a restart of the service', { keys: restart.join(' ') });
      return { isGood: true, remark: `RESTART NEEDED for ${restart.join(' ')}`, endsFor: '' };
    } catch (error) {
      this.#refused = placesOf(error);
      return refused(error, logger, '');
    }
  }
}

export class HubReload {
  readonly #o: ReloadOptions;
  readonly #files: string;
  /** As LineReload has it. */
  #refused = '';

  constructor(options: ReloadOptions) {
    this.#o = options;
    this.#files = filesOf(options.loaded.config);
  }

  get refused(): string {
    return this.#refused;
  }

  reload(): Reloaded {
    const { loaded, read, logger } = this.#o;
    try {
      const after = read();
      this.#refused = '';
      const changed = planReload(loaded, after).hub;
      if (changed.length > 0) return ends(changed.join(' '));
      return filesOf(after.config) === this.#files
        ? { isGood: true, remark: '', endsFor: '' }
        : ends('a file that it names');
    } catch (error) {
      this.#refused = placesOf(error);
      return refused(error, logger, 'hub ');
    }
  }
}

function ends(changed: string): Reloaded {
  return { isGood: true, remark: '', endsFor: `the configuration has changed: ${changed}` };
}

function refused(thrown: unknown, logger: Logger, who: string): Reloaded {
  const { message, reasons, hint } = asLinesideError(thrown);
  for (const fault of reasons.length > 0 ? reasons : [message]) logger.error(`${who}configuration fault`, { fault });
  logger.error(`${who}the configuration is faulty: the old one stays in use`, hint === '' ? {} : { hint });
  return { isGood: false, remark: FAULTY, endsFor: '' };
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

/** The contents of the files that the hub has read at its start, as one digest. */
function filesOf({ kafka, webhooks, http, tls }: Config): string {
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
