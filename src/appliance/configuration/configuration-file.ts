/**
 * The configuration file as administrators read and change it: as a whole, checked before it is written, and only if it is still the
 * one that they read. The file of before is kept beside it. Who reads the new one (the service, at a reload) is not known here.
 */
import {
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  openSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { LinesideError, messageOf, systemCode } from '../../shared/base/errors.ts';
import { withFileLock } from '../../shared/base/file-lock.ts';
import { replaceSynced } from '../../shared/base/files.ts';
import { decodeUtf8 } from '../../shared/base/json.ts';
import { keys } from '../../shared/config/config.ts';
import type { KeySchema, Value } from '../../shared/config/key.ts';
import { checkText, type LocatedFault } from '../../shared/config/load.ts';
import type { Environment } from '../../shared/config/parse.ts';
import { planReload } from '../../shared/config/reload-plan.ts';
import type { Settings } from '../../shared/config/values.ts';
import { sha256 } from '../hash.ts';
import { type HiddenText, hideSecrets, revealed } from './hidden-text.ts';

/** Four times the example with every key and its comment; the card's files have the same limit. */
export const MAX_CONFIG_BYTES = 64 * 1_024;
/** As the package installs it: the services read it. */
const NEW_FILE_MODE = 0o644;

/** What a text in place of the file would do, or did. */
export interface ConfigurationChange {
  readonly file: string;
  /** Of the new text, as of what readConfiguration() answers. */
  readonly hash: string;
  readonly isChanged: boolean;
  readonly faults: readonly LocatedFault[];
  /** Old names of keys. */
  readonly warnings: readonly string[];
  /** Changed keys that apply with the reload, by the process that restarts for them: none, the hub, all. */
  readonly live: readonly string[];
  readonly hub: readonly string[];
  readonly restart: readonly string[];
  /** Changed keys that count for nothing: systemd opens the sockets. */
  readonly unused: readonly string[];
}

export interface ChangeOptions {
  /** Only checked: nothing is written. */
  readonly isDry: boolean;
  /** Throws STALE_VERSION if the file has another hash. */
  readonly ifHash: string | undefined;
  /** Keys that name files, directories and sockets keep their values. */
  readonly keepsPaths: boolean;
  /** It is the file of systemd's units. */
  readonly isOfUnits: boolean;
  readonly env: Environment;
}

interface Present {
  /** Its name, links followed. */
  readonly file: string;
  /** '': there is no such file. */
  readonly text: string;
  readonly shown: HiddenText;
  readonly hash: string;
}

export function readConfiguration(named: string) {
  const { file, text, shown, hash } = present(named);
  const previous = textOf(previousOf(file));
  const hasPrevious = previous !== undefined && previous !== text;
  return { file, text: shown.text, hash, hidden: shown.parts.length, hasPrevious };
}

/** `edited`: with the marks of what is hidden, as readConfiguration() gave it. On the medium when it returns; not if the answer has faults. */
export function changeConfiguration(named: string, edited: string, options: ChangeOptions): ConfigurationChange {
  return replaced(named, options, ({ shown }) => revealed(edited, shown.parts));
}

/** The file of before the last change takes its place again; twice is no change. Throws NOT_FOUND if there is none. */
export function undoChange(named: string, options: ChangeOptions): ConfigurationChange {
  return replaced(named, options, ({ file }) => {
    const previous = textOf(previousOf(file));
    if (previous !== undefined) return previous;
    throw new LinesideError('NOT_FOUND', `there is no ${previousOf(file)}: no change was made by lineside`);
  });
}

/** Every fault of a text that came over the network, and every key by which it names another place than the file does. */
export function faultsOfForeign(named: string, text: string, env: Environment): LocatedFault[] {
  const after = checkText(text, env);
  const faults = [...after.faults, ...movedPaths(checkText(present(named).text, env).settings, after)];
  return faults.map((fault) => withoutValue(fault, after.settings));
}

function replaced(named: string, options: ChangeOptions, textFor: (before: Present) => string): ConfigurationChange {
  const work = (): ConfigurationChange => {
    const before = expected(named, options);
    const text = textFor(before);
    const change = plan(before, text, options);
    if (options.isDry || change.faults.length > 0 || !change.isChanged) return change;
    write(previousOf(before.file), before.text, before.file);
    write(before.file, text, before.file);
    return change;
  };
  return options.isDry ? work() : withFileLock(realFile(named), work);
}

function expected(named: string, { ifHash }: ChangeOptions): Present {
  const before = present(named);
  if (ifHash === undefined || ifHash === before.hash) return before;
  throw new LinesideError('STALE_VERSION', 'the configuration file was changed since it was read', {
    hint: 'read it again, and make the change there',
  });
}

const listenKeys = ['grpc.listen', 'http.listen'];

function plan({ file, text: old }: Present, text: string, options: ChangeOptions): ConfigurationChange {
  const { env, keepsPaths, isOfUnits } = options;
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_CONFIG_BYTES)
    throw new LinesideError('TOO_LARGE', `the text has ${bytes} bytes: at most ${MAX_CONFIG_BYTES} are allowed`);
  const [before, after] = [checkText(old, env), checkText(text, env)];
  const moved = keepsPaths ? movedPaths(before.settings, after) : [];
  const { live, hub, restart } = planReload({ ...before, unused: [] }, { ...after, unused: [] });
  const unused = isOfUnits ? [...hub, ...restart].filter((path) => listenKeys.includes(path)) : [];
  const used = (path: string): boolean => !unused.includes(path);
  return {
    file,
    hash: hashOf(hideSecrets(text)),
    isChanged: text !== old,
    faults: [...after.faults, ...moved].map((fault) => withoutValue(fault, after.settings)),
    warnings: after.warnings,
    live,
    hub: hub.filter((path) => used(path) && !live.includes(path)),
    restart: restart.filter(used),
    unused,
  };
}

/** Keeps owner and mode. */
function write(file: string, text: string, like: string): void {
  const temporary = join(dirname(file), `.${basename(file)}.new`);
  try {
    const old = statSync(like, { throwIfNoEntry: false });
    const prepare = (fd: number): void => {
      if (old !== undefined && process.getuid?.() === 0) fchownSync(fd, old.uid, old.gid);
      fchmodSync(fd, (old?.mode ?? NEW_FILE_MODE) & 0o777);
    };
    replaceSynced(file, text, { temporary, prepare });
  } catch (error) {
    rmSync(temporary, { force: true });
    const code = ['ENOSPC', 'EDQUOT'].includes(systemCode(error)) ? 'STORAGE_FULL' : 'STORAGE_FAILED';
    throw new LinesideError(code, `cannot write ${file}: ${messageOf(error)}`, {
      cause: error,
      hint: 'run it as root',
    });
  }
}

function previousOf(file: string): string {
  return `${file}.previous`;
}

function present(named: string): Present {
  const file = realFile(named);
  const text = textOf(file) ?? '';
  const shown = hideSecrets(text);
  return { file, text, shown, hash: hashOf(shown) };
}

/** Of what is shown alone: that of the whole would let a hidden word be guessed. A hidden part is always taken from the present file, so a change of it by another program is kept. */
function hashOf({ text }: HiddenText): string {
  return sha256(text);
}

function realFile(named: string): string {
  try {
    return realpathSync(named);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return named;
    throw unreadable(named, messageOf(error));
  }
}

/** undefined: there is no such file. */
function textOf(file: string): string | undefined {
  let fd: number;
  try {
    fd = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined;
    throw unreadable(file, messageOf(error));
  }
  try {
    const status = fstatSync(fd);
    if (!status.isFile()) throw unreadable(file, 'it is no file');
    if (status.size > MAX_CONFIG_BYTES)
      throw unreadable(file, `it has ${status.size} bytes, and at most ${MAX_CONFIG_BYTES} are read`);
    const text = decodeUtf8(readFileSync(fd));
    if (text === undefined) throw unreadable(file, 'it is not UTF-8');
    return text;
  } finally {
    closeSync(fd);
  }
}

function unreadable(file: string, why: string): LinesideError {
  return new LinesideError('CONFIG_INVALID', `cannot read the configuration ${file}: ${why}`);
}

// Keys that name a place on the box: who changes them has to have put something there.

const isPathKey = (schema: KeySchema): boolean => ['file', 'path'].includes(String(schema['x-kind']));

function movedPaths(before: Settings, { settings, faults, lineOf }: ReturnType<typeof checkText>): LocatedFault[] {
  // A line that cannot be read may hold any key.
  if (faults.some(({ path }) => path === '')) return [];
  return keys.flatMap(({ path, schema }) => {
    const [old, now] = [before.get(path)?.value, settings.get(path)?.value];
    const isMoved = isPathKey(schema) ? old !== now : newPlaces(path, old, now).length > 0;
    if (!isMoved || faults.some((fault) => fault.path === path)) return [];
    const message = 'names a place on the box: change it there, with "sudo lineside config change FILE"';
    return [{ path, line: lineOf(path), message }];
  });
}

/** Sockets, and ports beside those that the box lists. Opening a port by its path needs no rule: it has to be a listed one. */
function newPlaces(path: string, old: Value | undefined, now: Value | undefined): Value[] {
  if (path === 'serial.line.port') return [];
  const placesIn = (value: Value | undefined): Value[] =>
    [value ?? ''].flat().filter((one) => /^(unix:|\/)/.test(String(one)));
  return placesIn(now).filter((one) => !placesIn(old).includes(one));
}

/** The value of a key that names a file may be a secret that was typed there. */
function withoutValue({ path, line, message }: LocatedFault, settings: Settings): LocatedFault {
  const schema = keys.find((key) => key.path === path)?.schema;
  if (schema?.['x-kind'] !== 'file') return { path, line, message };
  const value = String(settings.get(path)?.value ?? '');
  const { parts } = hideSecrets(`${path} = ${JSON.stringify(value)}`);
  const said = message.replace(/, not .*$/s, '');
  return { path, line, message: parts.length > 0 && value !== '' ? said.replaceAll(value, '<hidden>') : said };
}
