/** profile: adds, lists, chooses and removes the boxes that the user knows by name. */
import { closeSync, openSync } from 'node:fs';
import { resolve } from 'node:path';
import { type Entry, type Given, option, trustOptions } from '../command.ts';
import { usageFailure } from '../failure.ts';
import { fileFailure } from '../input.ts';
import { safeText } from '../output/hex.ts';
import { wholeNumber } from '../output/numbers.ts';
import { labelled } from '../output/table.ts';
import type { Args, Call } from '../shell.ts';
import type { Profile } from './endpoint.ts';
import {
  assertPrivate,
  changeProfiles,
  contradictions,
  namePattern,
  nameRule,
  profileKeys,
  profilesFile,
  readProfiles,
  snake,
  unknownProfile,
} from './profiles.ts';

function tagList(text: string): readonly string[] {
  const tags = text.split(',');
  const fault = profileKeys.tags(tags);
  if (fault !== undefined) throw usageFailure(fault);
  return tags;
}

const addOptions = [
  option('--host <host[:port]>', 'name or address of the box; the port is that of the line', { required: true }),
  option('--http-port <n>', 'port of the reference data, if it is not the usual one', {
    parse: wholeNumber(1, 65_535),
  }),
  ...trustOptions,
  option('--settings <settings>', 'settings of the line for `open`, when it is given none: 9600,7E1'),
  option('--tags <list>', 'for lineside fleet: line=3,hall=north', {
    parse: tagList,
  }),
  option('--force', 'replace the profile of this name'),
] as const;

const profileName = { name: '<name>', help: 'name of the profile', completes: 'profiles' } as const;

export const profileCommands: readonly Entry[] = [
  {
    command: 'profile',
    help: 'boxes by name: address, fingerprint and token file for --profile NAME',
    notes: `Which box a command is for, the first of these that is given:
  1. options: --socket, --config, --host, --profile (with other options, which override those of the profile)
  2. environment: LINESIDE_SOCKET and LINESIDE_HTTP_SOCKET, LINESIDE_HOST, LINESIDE_PROFILE
  3. the default profile (lineside profile use NAME)
  4. the service on this machine
A profile is used whole: LINESIDE_CA, LINESIDE_FINGERPRINT and LINESIDE_TOKEN_FILE go with --host and LINESIDE_HOST only,
and the token of a profile is sent to the host of that profile, or to the one that --profile and --host name together.`,
  },
  {
    command: 'profile add',
    help: 'add a profile; files that it names must be readable by you alone (chmod 600)',
    arguments: [{ name: '<name>', help: 'name of the profile' }],
    options: addOptions,
    examples: [
      'lineside profile add press-04 --host 192.168.7.20 --fingerprint AB:CD:... --token-file ~/press-04.token',
      'lineside status --profile press-04',
    ],
    on: 'here',
    what: 'add the profile <name>',
    run: add,
  },
  {
    command: 'profile list',
    help: 'show the profiles; * marks the default',
    examples: ['lineside profile list', 'lineside profile list --json | jq -r ".profiles[].host"'],
    on: 'here',
    what: 'list the profiles',
    run: list,
  },
  {
    command: 'profile use',
    help: 'make a profile the default; without a name: the service on this machine',
    arguments: [{ ...profileName, name: '[name]' }],
    examples: ['lineside profile use press-04', 'lineside profile use'],
    on: 'here',
    what: 'change the default profile',
    run: use,
  },
  {
    command: 'profile remove',
    help: 'remove a profile; its token file stays',
    arguments: [profileName],
    examples: ['lineside profile remove press-04'],
    on: 'here',
    what: 'remove the profile <name>',
    run: remove,
  },
];

const paths = ['ca', 'tokenFile', 'cert', 'key'] as const;

async function add(call: Call<Given<typeof addOptions>>, { name = '' }: Args): Promise<number> {
  if (!namePattern.test(name)) throw usageFailure(`"${safeText(name)}" is no name of a profile: ${nameRule}`);
  const { force } = call.options;
  const given = Object.entries(call.options).filter(([key]) => key in profileKeys);
  const profile = Object.fromEntries(given) as Writable<Profile>;
  for (const key of paths) if (profile[key] !== undefined) profile[key] = readableFile(profile[key]);
  for (const secret of [profile.tokenFile, profile.key]) if (secret !== undefined) assertPrivate(secret);
  const [fault] = contradictions(profile);
  if (fault !== undefined) throw usageFailure(fault);
  changeProfiles(call.io.env, ({ profiles, ...rest }) => {
    if (profiles.has(name) && force !== true)
      throw usageFailure(`there is a profile "${name}" already`, 'Replace it: --force.');
    return { ...rest, profiles: new Map([...profiles, [name, profile]]) };
  });
  return call.print(
    { name, ...profile },
    `added ${name}. Use it: --profile ${name}, or always: lineside profile use ${name}`,
  );
}

type Writable<T> = { -readonly [Key in keyof T]: T[Key] };

/** Commands may run in any directory. */
function readableFile(given: string): string {
  const file = resolve(given);
  try {
    closeSync(openSync(file, 'r'));
  } catch (error) {
    throw fileFailure('read', file, error);
  }
  return file;
}

async function list(call: Call<object>): Promise<number> {
  const { default: usual, profiles } = readProfiles(profilesFile(call.io.env));
  const all = [...profiles].map(([name, profile]) => ({ name, default: name === usual, ...profile }));
  const shown = all.map(({ name, default: isDefault, ...profile }) => {
    const rows = Object.entries(profile).map(([key, value]) => [`    ${snake(key)}`, safeText(String(value))] as const);
    return `${isDefault ? '*' : ' '} ${name}\n${labelled(rows, 0)}`;
  });
  return call.print({ profiles: all }, shown.length === 0 ? 'no profiles' : shown.join(''));
}

async function use(call: Call<object>, { name }: Args): Promise<number> {
  changeProfiles(call.io.env, ({ profiles }) => {
    if (name === undefined) return { profiles };
    if (!profiles.has(name)) throw unknownProfile(name, profiles);
    return { default: name, profiles };
  });
  return call.print(
    { default: name ?? null },
    name === undefined ? 'no default profile: commands use this machine' : `commands use ${name}`,
  );
}

async function remove(call: Call<object>, { name = '' }: Args): Promise<number> {
  changeProfiles(call.io.env, ({ default: usual, profiles }) => {
    const left = new Map(profiles);
    if (!left.delete(name)) throw unknownProfile(name, profiles);
    return { ...(usual === undefined || usual === name ? {} : { default: usual }), profiles: left };
  });
  return call.print({ removed: name }, `removed ${name}`);
}
