/**
 * What setup.toml may say: each key once, with the schema of its value, as the configuration's keys are. The example
 * (`lineside setup example`) and the checks are made from this table. Pure.
 */
import { choice, type Key, list, text, toggle } from '../../shared/config/key.ts';

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

const SHA256 = '^([0-9a-f]{64})?$';

const box: readonly SetupKey[] = [
  {
    key: {
      path: 'box.hostname',
      schema: text('', 'Name on the network, NAME.local; empty: the one made at the first start, lineside-...', {
        pattern: '^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)?$',
        errorMessage: 'must be 1 to 63 of a-z, 0-9 and "-", beginning and ending with a letter or digit',
      }),
    },
    example: '"pump-house-3"',
  },
  {
    key: {
      path: 'box.time_servers',
      schema: list([], "Time servers (NTP), names or addresses; empty: those that the network names, and Debian's."),
    },
    example: '["192.168.10.1"]',
  },
];

const network: readonly SetupKey[] = [
  {
    key: { path: 'network.method', schema: choice('dhcp', ['dhcp', 'static'], 'How the box gets its address.') },
    example: '"dhcp"',
  },
  {
    key: { path: 'network.address', schema: text('', 'With method "static": address and length of the network.') },
    example: '"192.168.10.20/24"',
  },
  {
    key: { path: 'network.gateway', schema: text('', 'With "static": the router; empty: none.') },
    example: '"192.168.10.1"',
  },
  {
    key: { path: 'network.dns', schema: list([], 'Name servers; with "dhcp" beside those that the network names.') },
    example: '["192.168.10.1"]',
  },
];

/** [network] is about the wire, unless there is a network.wifi: then about that, and the wire has DHCP. */
const wifi: readonly SetupKey[] = [
  {
    key: {
      path: 'network.wifi.ssid',
      schema: text('', 'Name of the wireless network, as its sticker says; up to 32 bytes.'),
    },
    example: '"site 7"',
  },
  {
    key: { path: 'network.wifi.psk', schema: text('', 'Its password (WPA2), 8 to 63 characters. Moves onto the box.') },
    example: '"..."',
    secret: true,
  },
  {
    key: {
      path: 'network.wifi.country',
      schema: text('', 'Two letters: whose rules for radio hold here. Needed for Wi-Fi.', {
        pattern: '^([A-Z]{2})?$',
        errorMessage: 'must be two capital letters',
      }),
    },
    example: '"DE"',
  },
  { key: { path: 'network.wifi.open', schema: toggle(false, 'true: a network without a password.') }, example: 'true' },
];

const ssh: readonly SetupKey[] = [
  {
    key: {
      path: 'ssh.keys',
      schema: list([], 'Public keys of those who may log in as "technician"; empty: there is no SSH.'),
    },
    example: '["ssh-ed25519 AAAA... me@laptop"]',
  },
];

/** Of every [[token]]. */
export const tokenKeys: readonly SetupKey[] = [
  {
    key: {
      path: 'name',
      schema: text('', 'Whose it is; its changes bear this name.', {
        pattern: '^[a-z0-9._-]{1,64}$',
        errorMessage: 'must be 1 to 64 of a-z, 0-9, ".", "_", "-"',
      }),
    },
    example: '"ops"',
  },
  {
    key: {
      path: 'roles',
      schema: list([], 'viewer, operator (the line); reader, writer, admin, refdata-internal, refdata-restricted.'),
    },
    example: '["viewer", "reader"]',
  },
  {
    key: {
      path: 'token',
      schema: text(
        '',
        'The token: "lsd_" and 43 of A-Z, a-z, 0-9, "-", "_", at random. Only its hash is kept, and it leaves this file.',
      ),
    },
    example: '"lsd_..."',
    secret: true,
  },
  {
    key: {
      path: 'hash',
      schema: text('', 'Or the SHA-256 of the whole token, in hex: then the token was never here.', {
        pattern: SHA256,
        errorMessage: 'must be 64 of 0-9, a-f',
      }),
    },
    example: '"..."',
  },
  {
    key: {
      path: 'revoke',
      schema: toggle(false, `true: ends the token of this name, such as "${CLAIM}", which the first start makes.`),
    },
    example: 'true',
  },
];

export const setupKeys: readonly SetupKey[] = [...box, ...network, ...wifi, ...ssh];
