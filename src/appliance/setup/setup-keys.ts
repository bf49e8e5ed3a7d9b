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
    key: text(
      'box.hostname',
      '',
      'Name on the network, NAME.local; empty: the one made at the first start, lineside-...',
      {
        pattern: '^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)?$',
        errorMessage: 'must be 1 to 63 of a-z, 0-9 and "-", beginning and ending with a letter or digit',
      },
    ),
    example: '"pump-house-3"',
  },
  {
    key: list(
      'box.time_servers',
      [],
      "Time servers (NTP), names or addresses; empty: those that the network names, and Debian's.",
    ),
    example: '["192.168.10.1"]',
  },
];

const network: readonly SetupKey[] = [
  {
    key: choice('network.method', 'dhcp', ['dhcp', 'static'], 'How the box gets its address.'),
    example: '"dhcp"',
  },
  {
    key: text('network.address', '', 'With method "static": address and length of the network.'),
    example: '"192.168.10.20/24"',
  },
  { key: text('network.gateway', '', 'With "static": the router; empty: none.'), example: '"192.168.10.1"' },
  {
    key: list('network.dns', [], 'Name servers; with "dhcp" beside those that the network names.'),
    example: '["192.168.10.1"]',
  },
];

/** [network] is about the wire, unless there is a network.wifi: then about that, and the wire has DHCP. */
const wifi: readonly SetupKey[] = [
  {
    key: text('network.wifi.ssid', '', 'Name of the wireless network, as its sticker says; up to 32 bytes.'),
    example: '"site 7"',
  },
  {
    key: text('network.wifi.psk', '', 'Its password (WPA2), 8 to 63 characters. Moves onto the box.'),
    example: '"..."',
    secret: true,
  },
  {
    key: text('network.wifi.country', '', 'Two letters: whose rules for radio hold here. Needed for Wi-Fi.', {
      pattern: '^([A-Z]{2})?$',
      errorMessage: 'must be two capital letters',
    }),
    example: '"DE"',
  },
  { key: toggle('network.wifi.open', false, 'true: a network without a password.'), example: 'true' },
];

const ssh: readonly SetupKey[] = [
  {
    key: list('ssh.keys', [], 'Public keys of those who may log in as "technician"; empty: there is no SSH.'),
    example: '["ssh-ed25519 AAAA... me@laptop"]',
  },
];

/** Of every [[token]]. */
export const tokenKeys: readonly SetupKey[] = [
  {
    key: text('name', '', 'Whose it is; its changes bear this name.', {
      pattern: '^[a-z0-9._-]{1,64}$',
      errorMessage: 'must be 1 to 64 of a-z, 0-9, ".", "_", "-"',
    }),
    example: '"ops"',
  },
  {
    key: list('roles', [], 'viewer, operator (the line); reader, writer, admin, refdata-internal, refdata-restricted.'),
    example: '["viewer", "reader"]',
  },
  {
    key: text(
      'token',
      '',
      'The token: "lsd_" and 43 of A-Z, a-z, 0-9, "-", "_", at random. Only its hash is kept, and it leaves this file.',
    ),
    example: '"lsd_..."',
    secret: true,
  },
  {
    key: text('hash', '', 'Or the SHA-256 of the whole token, in hex: then the token was never here.', {
      pattern: SHA256,
      errorMessage: 'must be 64 of 0-9, a-f',
    }),
    example: '"..."',
  },
  {
    key: toggle('revoke', false, `true: ends the token of this name, such as "${CLAIM}", which the first start makes.`),
    example: 'true',
  },
];

export const setupKeys: readonly SetupKey[] = [...box, ...network, ...wifi, ...ssh];
