/**
 * What setup.toml may say: each key once, with the schema of its value, as the configuration's keys are. The example
 * (`lineside setup example`), the checks and the removal of secrets are made from this table. Pure.
 */
import { choice, type Key, list, text, toggle } from '../../shared/config/key.ts';
import { parseToml, pathsIn, type TomlPath, valueAt, withString } from '../toml-text.ts';

export interface SetupKey {
  readonly key: Key;
  /** As the example shows it, behind a comment sign. */
  readonly example: string;
  /** Leaves the card, and is never shown. */
  readonly secret?: true;
}

/** What stands in a secret's place once the box has it: "keep what you have". */
export const TAKEN = '*';
/** Given at the first start, with every role. */
export const CLAIM = 'claim';

function key(path: string, example: string, schema: Key['schema'], secret?: 'secret'): SetupKey {
  return { key: { path, schema }, example, ...(secret && { secret: true }) };
}

/** [network] is about the wire, unless there is a network.wifi: then about that, and the wire has DHCP. */
export const setupKeys: readonly SetupKey[] = [
  key(
    'box.hostname',
    '"pump-house-3"',
    text('', 'Name on the network, NAME.local; empty: the one made at the first start, lineside-...', {
      pattern: '^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)?$',
      errorMessage: 'must be 1 to 63 of a-z, 0-9 and "-", beginning and ending with a letter or digit',
    }),
  ),
  key(
    'box.time_servers',
    '["192.168.10.1"]',
    list([], "Time servers (NTP), names or addresses; empty: those that the network names, and Debian's."),
  ),
  key('network.method', '"dhcp"', choice('dhcp', ['dhcp', 'static'], 'How the box gets its address.')),
  key('network.address', '"192.168.10.20/24"', text('', 'With method "static": address and length of the network.')),
  key('network.gateway', '"192.168.10.1"', text('', 'With "static": the router; empty: none.')),
  key('network.dns', '["192.168.10.1"]', list([], 'Name servers; with "dhcp" beside those that the network names.')),
  key('network.wifi.ssid', '"site 7"', text('', 'Name of the wireless network, as its sticker says; up to 32 bytes.')),
  key('network.wifi.psk', '"..."', text('', 'Its password (WPA2), 8 to 63 characters. Moves onto the box.'), 'secret'),
  key(
    'network.wifi.country',
    '"DE"',
    text('', 'Two letters: whose rules for radio hold here. Needed for Wi-Fi.', {
      pattern: '^([A-Z]{2})?$',
      errorMessage: 'must be two capital letters',
    }),
  ),
  key('network.wifi.open', 'true', toggle(false, 'true: a network without a password.')),
  key(
    'ssh.keys',
    '["ssh-ed25519 AAAA... me@laptop"]',
    list([], 'Public keys of those who may log in as "technician"; empty: there is no SSH.'),
  ),
];

/** Of every [[token]]. */
export const tokenKeys: readonly SetupKey[] = [
  key(
    'name',
    '"ops"',
    text('', 'Whose it is; its changes bear this name.', {
      pattern: '^[a-z0-9._-]{1,64}$',
      errorMessage: 'must be 1 to 64 of a-z, 0-9, ".", "_", "-"',
    }),
  ),
  key(
    'roles',
    '["viewer", "reader"]',
    list([], 'viewer, operator (the line); reader, writer, admin, refdata-internal, refdata-restricted.'),
  ),
  key(
    'token',
    '"lsd_..."',
    text(
      '',
      'The token: "lsd_" and 43 of A-Z, a-z, 0-9, "-", "_", at random. The box keeps its hash and removes it here.',
    ),
    'secret',
  ),
  key(
    'hash',
    '"..."',
    text('', 'Or the SHA-256 of the whole token, in hex: then the token was never here.', {
      pattern: '^([0-9a-f]{64})?$',
      errorMessage: 'must be 64 of 0-9, a-f',
    }),
  ),
  key(
    'revoke',
    'true',
    toggle(false, `true: revokes the token of this name, such as "${CLAIM}", which the first start makes.`),
  ),
];

const HEAD = [
  '# lineside: what this box is to be. Edit it with any text editor (UTF-8), put the card into the box and start it.',
  '# Remove the # before a key that you change. All of it is optional: without a change the box has DHCP and no SSH.',
  '# Faults are listed in setup-errors.txt on this card. A change on the card counts from the next start; a file that did',
  '# not change is not applied again. Secrets move onto the box, and "*" stands in their place: keep what the box has.',
];

const intros: Readonly<Record<string, readonly string[]>> = {
  box: [],
  network: ['# The wired network; with [network.wifi] the wireless one, and the wire keeps DHCP.'],
  'network.wifi': ['# Remove the # before this line, too, for Wi-Fi (wlan0, 2.4 GHz or as the board has it).'],
  ssh: [],
};

export function setupExample(): string {
  const lines = [...HEAD];
  for (const [section, intro] of Object.entries(intros)) {
    lines.push('', ...intro, section === 'network.wifi' ? `#[${section}]` : `[${section}]`);
    for (const entry of setupKeys.filter(({ key: { path } }) => path.slice(0, path.lastIndexOf('.')) === section)) {
      lines.push(...describe(entry, entry.key.path.slice(section.length + 1)));
    }
  }
  lines.push('', '# Tokens for access from the network, as many of these sections as you like.', '#[[token]]');
  for (const entry of tokenKeys) lines.push(...describe(entry, entry.key.path));
  lines.push(
    '',
    '# Passwords that lineside.toml names as "credential:NAME"; empty ("") removes one. They move onto the box.',
    '#[secrets]',
    '#kafka.password = "..."',
  );
  return `${lines.join('\n')}\n`;
}

function describe({ key, example }: SetupKey, name: string): string[] {
  return [`# ${key.schema.description}`, `#${name} = ${example}`];
}

const MARK = `"${TAKEN}"`;
const NOTE = ' # moved onto the box';

/**
 * The text of setup.toml without its secrets; undefined: there is none in it. Each is replaced where it stands by "*" and
 * blanks of the same length: the file is overwritten without moving a byte, so that a plug pulled meanwhile leaves a file of
 * which every byte is the old or the new one, and the FAT file system notices nothing. Throws if one cannot be taken out.
 */
export function withoutSecrets(text: string): string | undefined {
  const document = parseToml(text);
  const secrets = [...pathsIn(document, [])].filter((path) => isSecret(path) && holdsMore(valueAt(document, path)));
  if (secrets.length === 0) return undefined;
  const wanted = parseToml(text);
  let taken = text;
  for (const path of secrets) {
    const above = valueAt(wanted, path.slice(0, -1)) as Record<string | number, unknown>;
    above[path.at(-1) ?? ''] = TAKEN;
    const before = taken;
    taken = withString(before, path, TAKEN, (start, end) => mark(before, start, end)) ?? before;
  }
  // The parser has the last word on whether the secrets, and nothing else, were taken out.
  if (JSON.stringify(parseToml(taken), plain) !== JSON.stringify(wanted, plain)) {
    throw new RangeError('a secret cannot be taken out of the file: write each as name = "..." in a line of its own');
  }
  return taken;
}

/** Below [secrets] every key is one. */
function isSecret(path: TomlPath): boolean {
  if (path[0] === 'secrets') return path.length > 1;
  const [keys, name] = path[0] === 'token' ? [tokenKeys, path.slice(2)] : [setupKeys, path];
  return keys.some(({ key: { path: own }, secret }) => secret === true && own === name.join('.'));
}

function holdsMore(value: unknown): boolean {
  return typeof value === 'string' && value !== '' && value !== TAKEN;
}

/** As many bytes as before. Within a list or a table in one line no comment can be. */
function mark(text: string, start: number, end: number): string {
  const room = Buffer.byteLength(text.slice(start, end)) - MARK.length;
  const isLast = /^[ \t]*\r?(\n|$)/.test(text.slice(end));
  return MARK + (isLast && room >= NOTE.length ? NOTE.padEnd(room) : ' '.repeat(room));
}

function plain(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? `${value}` : value;
}
