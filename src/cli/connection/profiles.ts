/** Boxes by name: what the connection options of a command would say, kept in one file of the user. Tokens stay files of their own. */
import {
  closeSync,
  fstatSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';
import { parse, stringify, TomlError } from 'smol-toml';
import { messageOf, systemCode } from '../../shared/base/errors.ts';
import { CliFailure, usageFailure } from '../failure.ts';
import { fileFailure } from '../input.ts';
import { parseSettings } from '../line/settings.ts';
import { safeText } from '../output/hex.ts';
import { type Env, hostFor, hubFace, lineFace, type Profile, tcpEndpoint } from './endpoint.ts';

interface Profiles {
  /** The name of the one that commands use when nothing else names a box. */
  readonly default?: string;
  readonly profiles: ReadonlyMap<string, Profile>;
}

/** Answers the profile of a name, of the default without one; undefined: there is no default. */
export function findProfile(env: Env, name: string | undefined): Profile | undefined {
  const file = profilesFile(env);
  const { default: usual, profiles } = readProfiles(file);
  const wanted = name ?? usual;
  const found = profiles.get(wanted ?? '');
  if (wanted !== undefined && found === undefined) throw unknownProfile(wanted, profiles);
  for (const secret of [found?.tokenFile, found?.key]) if (secret !== undefined) assertPrivate(secret);
  return found;
}

export function profileNames(env: Env): readonly string[] {
  return [...readProfiles(profilesFile(env)).profiles.keys()];
}

export function unknownProfile(name: string, profiles: Profiles['profiles']): CliFailure {
  const known = [...profiles.keys()].join(', ');
  const next = known === '' ? 'Add it: lineside profile add NAME --host HOST.' : `There are: ${known}.`;
  return new CliFailure('usage', 'NO_PROFILE', `no profile is called "${safeText(name)}"`, { next });
}

/** Where each system keeps the settings of a user; undefined: the user has no home, and no profiles. */
export function profilesFile(env: Env, platform: string = process.platform): string | undefined {
  const given = (name: string): string | undefined => (isAbsolute(env[name] ?? '') ? env[name] : undefined);
  const home = given('HOME');
  const inHome = platform === 'darwin' ? ['Library', 'Application Support'] : ['.config'];
  const settings = given(platform === 'win32' ? 'APPDATA' : 'XDG_CONFIG_HOME');
  const dir = settings ?? (home === undefined || platform === 'win32' ? undefined : join(home, ...inHome));
  return dir === undefined ? undefined : join(dir, 'lineside', 'profiles.toml');
}

// The file: default = "NAME", and [profiles.NAME] with the connection options in snake_case.

/** Thousands of boxes. */
const maxBytes = 1024 * 1024;
export const namePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

type Check = (value: unknown) => string | undefined;
const text: Check = (value) =>
  typeof value === 'string' && /^\P{Cc}{1,1024}$/u.test(value) ? undefined : 'must be a string of 1 to 1024 characters';
const path: Check = (value) => text(value) ?? (isAbsolute(String(value)) ? undefined : 'must be an absolute path');
const truth: Check = (value) => (typeof value === 'boolean' ? undefined : 'must be true or false');
const port: Check = (value) =>
  Number.isInteger(value) && Number(value) >= 1 && Number(value) <= 65_535
    ? undefined
    : 'must be a port from 1 to 65535';

const maxTags = 16;
const tagPattern = /^[\w.-]{1,64}=[\w.-]{1,64}$/;
const tags: Check = (value) =>
  Array.isArray(value) &&
  value.length <= maxTags &&
  value.every((tag) => typeof tag === 'string' && tagPattern.test(tag))
    ? undefined
    : `must be at most ${maxTags} strings of the form key=value, each part with 1 to 64 letters, digits, ".", "_" and "-"`;

export const profileKeys: Readonly<Record<keyof Profile, Check>> = {
  host: text,
  httpPort: port,
  tls: truth,
  plaintext: truth,
  ca: path,
  fingerprint: text,
  tokenFile: path,
  cert: path,
  key: path,
  serverName: text,
  settings: text,
  tags,
};
export const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
const camelOf = new Map(Object.keys(profileKeys).map((name) => [snake(name), name as keyof Profile]));

export function readProfiles(file: string | undefined): Profiles {
  const content = file === undefined ? undefined : readPrivate(file);
  if (file === undefined || content === undefined) return { profiles: new Map() };
  const faults: string[] = [];
  const found = checkedProfiles(parsed(file, content), faults);
  if (faults.length > 0) throw unusable(file, 'it has faults', 'Correct the file.', faults);
  return found;
}

function parsed(file: string, content: string): Readonly<Record<string, unknown>> {
  try {
    return parse(content);
  } catch (error) {
    const where = error instanceof TomlError ? `line ${error.line}: ` : '';
    throw unusable(file, `${where}${messageOf(error).split('\n')[0]}`, 'Correct the file.');
  }
}

function checkedProfiles(table: Readonly<Record<string, unknown>>, faults: string[]): Profiles {
  const { default: usual, profiles: sections = {}, ...unknown } = table;
  for (const name of Object.keys(unknown)) faults.push(`${name}: no such key; there are default and profiles`);
  if (!isTable(sections)) faults.push('profiles: must be sections [profiles.NAME]');
  const named = isTable(sections) ? Object.entries(sections) : [];
  const profiles = new Map(named.map(([name, section]) => [name, checkedProfile(name, section, faults)]));
  if (usual === undefined) return { profiles };
  if (typeof usual === 'string' && profiles.has(usual)) return { default: usual, profiles };
  faults.push('default: must be the name of a profile');
  return { profiles };
}

function checkedProfile(name: string, section: unknown, faults: string[]): Profile {
  const at = `profiles.${name}`;
  const before = faults.length;
  if (!namePattern.test(name)) faults.push(`${at}: ${nameRule}`);
  const given = isTable(section) ? Object.entries(section) : [];
  const known = given.flatMap(([key, value]) => {
    const camel = camelOf.get(key);
    if (camel === undefined) faults.push(`${at}.${key}: no such key; there are ${[...camelOf.keys()].join(', ')}`);
    const fault = camel === undefined ? undefined : profileKeys[camel](value);
    if (fault !== undefined) faults.push(`${at}.${key}: ${fault}`);
    return camel === undefined ? [] : [[camel, value] as const];
  });
  const profile = { host: '', ...Object.fromEntries(known) } as Profile;
  if (faults.length === before) faults.push(...contradictions(profile).map((fault) => `${at}: ${fault}`));
  return profile;
}

export const nameRule = 'a name has 1 to 64 letters, digits, dots, dashes and underscores';

/** What the options of a command line would be refused for. */
export function contradictions(profile: Profile): readonly string[] {
  try {
    for (const face of [lineFace, hubFace]) tcpEndpoint(hostFor(face, profile), face, profile, { base: {} });
    if (profile.settings !== undefined) parseSettings(profile.settings);
    return [];
  } catch (error) {
    return [messageOf(error)];
  }
}

function isTable(value: unknown): value is Readonly<Record<string, unknown>> {
  // Dates of TOML and lists are objects too, but not plain ones.
  return typeof value === 'object' && value !== null && [Object.prototype, null].includes(Object.getPrototypeOf(value));
}

/** undefined: there is no such file. */
function readPrivate(file: string): string | undefined {
  let fd: number;
  try {
    fd = openSync(file, 'r');
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined;
    throw fileFailure('read', file, error);
  }
  try {
    const status = fstatSync(fd);
    assertModePrivate(file, status.mode);
    if (!status.isFile() || status.size > maxBytes) throw unusable(file, 'it is no file of at most 1 MiB', '');
    return readFileSync(fd, 'utf8');
  } finally {
    closeSync(fd);
  }
}

/** Whether a file is there is for its reader to say. */
export function assertPrivate(file: string): void {
  const status = statSync(file, { throwIfNoEntry: false });
  if (status !== undefined) assertModePrivate(file, status.mode);
}

/** Windows keeps the profile of a user from others by the rights of its directory. */
function assertModePrivate(file: string, mode: number): void {
  if (process.platform === 'win32' || (mode & 0o077) === 0) return;
  throw unusable(file, 'other users may read or change it', `Try: chmod 600 ${safeText(file)}`);
}

function unusable(file: string, why: string, next: string, reasons: readonly string[] = []): CliFailure {
  const details = { what: `cannot use ${safeText(file)}`, next, reasons: reasons.map(safeText) };
  return new CliFailure('usage', 'BAD_PROFILES', safeText(why), details);
}

/** In one step. The new file is created exclusively: of two commands at the same time one is refused, and nothing is lost. */
export function changeProfiles(env: Env, change: (before: Profiles) => Profiles): void {
  const file = profilesFile(env);
  if (file === undefined) throw usageFailure('this user has no home directory', 'Set HOME.');
  const temporary = `${file}.new`;
  let fd: number;
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    fd = openSync(temporary, 'wx', 0o600);
  } catch (error) {
    if (systemCode(error) !== 'EEXIST') throw fileFailure('write', temporary, error);
    throw unusable(
      file,
      'another command is changing it',
      `If none runs, one was killed: remove ${safeText(temporary)}.`,
    );
  }
  try {
    writeFileSync(fd, profilesText(change(readProfiles(file))));
    fsyncSync(fd);
    renameSync(temporary, file);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error instanceof CliFailure ? error : fileFailure('write', file, error);
  } finally {
    closeSync(fd);
  }
}

function profilesText({ profiles, ...usual }: Profiles): string {
  const sections = [...profiles].map(([name, profile]) => {
    return [name, Object.fromEntries(Object.entries(profile).map(([key, value]) => [snake(key), value]))];
  });
  return stringify({ ...usual, profiles: Object.fromEntries(sections) });
}
