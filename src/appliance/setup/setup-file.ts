/** Checks the whole of setup.toml: the settings, and every fault at once. No fault shows a secret. Pure. */

import ipaddr from 'ipaddr.js';
import { cidrFault } from '../../shared/config/cidr.ts';
import { isTable, valuesIn } from '../../shared/config/parse.ts';
import { checkValue, type Fault } from '../../shared/config/values.ts';
import { type SetupKey, setupKeys, TAKEN, tokenKeys } from './setup-keys.ts';
import { type TokenSpec, tokenFaults } from './token-specs.ts';

export interface Setup {
  readonly hostname: string;
  readonly timeServers: readonly string[];
  readonly network: Network;
  readonly sshKeys: readonly string[];
  readonly tokens: readonly TokenSpec[];
  /** Files for the hub, by name; '' removes one, "*" keeps what is there. */
  readonly secrets: ReadonlyMap<string, string>;
}

export interface Network {
  readonly method: 'dhcp' | 'static';
  readonly address: string;
  readonly gateway: string;
  readonly dns: readonly string[];
  readonly wifi: Wifi | undefined;
}

export interface Wifi {
  readonly ssid: string;
  /** '' where it is open; "*": the one that is on the box. */
  readonly psk: string;
  readonly country: string;
}

type Table = Readonly<Record<string, unknown>>;
type Values = ReadonlyMap<string, unknown>;

const SECRET_NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/;
/** Of the certificate, which the setup file does not bring along. */
const OWN_SECRET = 'tls.key';
const SERVER = /^[A-Za-z0-9]([A-Za-z0-9.:-]{0,252})$/;
const SECTIONS = ['box', 'network', 'network.wifi', 'ssh'];

/** The set-up is complete also where there are faults: what is faulty has its default. */
export function judgeSetup(document: Table) {
  const faults: Fault[] = [];
  const { token, secrets, ...rest } = document;
  const values = checkedValues(setupKeys, rest, [...SECTIONS, 'token', 'secrets'], faults);
  const network = networkOf(values, 'network' in rest && isTable(rest.network) && 'wifi' in rest.network, faults);
  const sshKeys = values.get('ssh.keys') as readonly string[];
  sshKeys.forEach((key, i) => {
    const fault = sshKeyFault(key);
    if (fault !== undefined) faults.push({ path: `ssh.keys[${i}]`, message: fault });
  });
  const timeServers = values.get('box.time_servers') as readonly string[];
  const odd = timeServers.find((server) => !SERVER.test(server));
  if (odd !== undefined)
    faults.push({ path: 'box.time_servers', message: `${JSON.stringify(odd)} is no name or address` });
  const hostname = values.get('box.hostname') as string;
  if (hostname === 'localhost')
    faults.push({ path: 'box.hostname', message: '"localhost" is every machine to itself' });
  const tokens = readTokens(token, faults);
  faults.push(...tokenFaults(tokens));
  const setup: Setup = { hostname, timeServers, network, sshKeys, tokens, secrets: readSecrets(secrets, faults) };
  return { setup, faults };
}

function checkedValues(keys: readonly SetupKey[], table: Table, sections: readonly string[], faults: Fault[]): Values {
  const paths = keys.map(({ key }) => key.path);
  const written = new Map(valuesIn(table, { paths, sections }, faults));
  const valueOf = ({ key: { path, schema }, secret }: SetupKey): unknown => {
    if (!written.has(path)) return schema.default;
    const judged = checkValue(schema, written.get(path));
    if ('value' in judged) return judged.value;
    // The fault shows the value.
    faults.push({ path, message: secret === true ? 'must be a string in quotes' : judged.fault });
    return schema.default;
  };
  return new Map(keys.map((one) => [one.key.path, valueOf(one)]));
}

function networkOf(values: Values, hasWifi: boolean, faults: Fault[]): Network {
  const text = (key: string): string => values.get(`network.${key}`) as string;
  const [method, address, gateway] = [text('method') as Network['method'], text('address'), text('gateway')];
  const dns = values.get('network.dns') as readonly string[];
  const fault = (key: string, message: string | undefined): void => {
    if (message !== undefined) faults.push({ path: `network.${key}`, message });
  };
  if (method === 'static') {
    fault('address', address === '' ? 'is missing: method "static" needs it' : addressFault(address));
    if (gateway !== '') fault('gateway', gatewayFault(gateway, address));
  } else {
    for (const key of ['address', 'gateway']) if (text(key) !== '') fault(key, 'is for method = "static" only');
  }
  const odd = dns.find((server) => familyOf(server) === undefined);
  if (odd !== undefined) fault('dns', `must hold addresses, not ${JSON.stringify(odd)}`);
  return { method, address, gateway, dns, wifi: hasWifi ? wifiOf(values, faults) : undefined };
}

/** IEEE 802.11: a network's name has 1 to 32 bytes. WPA: a password is 8 to 63 characters of ASCII, or 64 digits. */
const SSID_BYTES = 32;
const PSK = /^([ -~]{8,63}|[0-9A-Fa-f]{64})$/;

function wifiOf(values: Values, faults: Fault[]): Wifi {
  const text = (key: string): string => values.get(`network.wifi.${key}`) as string;
  const [ssid, psk, country] = [text('ssid'), text('psk'), text('country')];
  const open = values.get('network.wifi.open') === true;
  const fault = (key: string, message: string): void => void faults.push({ path: `network.wifi.${key}`, message });
  const bytes = Buffer.byteLength(ssid);
  if (bytes === 0) fault('ssid', 'is missing');
  if (bytes > SSID_BYTES) fault('ssid', `has ${bytes} bytes: the name of a network has ${SSID_BYTES} at most`);
  if (country === '') fault('country', 'is missing: Wi-Fi needs to know whose rules hold here, such as "DE"');
  if (open && psk !== '') fault('psk', 'a network with a password is not open: remove one of the two');
  if (!open && psk === '') fault('psk', 'is missing (a network without one: open = true)');
  if (!open && psk !== '' && psk !== TAKEN && !PSK.test(psk)) {
    fault('psk', 'must be 8 to 63 characters without umlauts and the like, or 64 hexadecimal digits');
  }
  return { ssid, psk: open ? '' : psk, country };
}

function readTokens(raw: unknown, faults: Fault[]): TokenSpec[] {
  if (raw === undefined) return [];
  if (!Array.isArray(raw) || !raw.every(isTable)) {
    faults.push({ path: 'token', message: 'is a list of sections: write [[token]]' });
    return [];
  }
  return raw.map((table: Table, i) => {
    const own: Fault[] = [];
    const values = checkedValues(tokenKeys, table, [], own);
    faults.push(...own.map(({ path, message }) => ({ path: `token[${i}].${path}`, message })));
    return Object.fromEntries(values) as unknown as TokenSpec;
  });
}

/** `kafka.password = "..."` without quotes around the name is a table in TOML: the same is meant. */
function readSecrets(raw: unknown, faults: Fault[]): Map<string, string> {
  const found = new Map<string, string>();
  const visit = (table: Table, prefix: string): void => {
    for (const [key, value] of Object.entries(table)) {
      const name = prefix + key;
      const path = `secrets.${name}`;
      if (isTable(value)) visit(value, `${name}.`);
      else if (typeof value !== 'string') faults.push({ path, message: 'must be a string in quotes' });
      else if (found.has(name)) faults.push({ path, message: 'is there twice' });
      else if (!SECRET_NAME.test(name))
        faults.push({ path, message: 'its name must be 1 to 64 of a-z, 0-9, ".", "_", "-"' });
      else if (name === OWN_SECRET)
        faults.push({ path, message: 'is the key of the certificate, which the box makes' });
      else found.set(name, value);
    }
  };
  if (isTable(raw)) visit(raw, '');
  else if (raw !== undefined) faults.push({ path: 'secrets', message: 'is a section: write [secrets]' });
  return found;
}

const KINDS = [
  'ssh-ed25519',
  'ecdsa-sha2-nistp256',
  'ecdsa-sha2-nistp384',
  'ecdsa-sha2-nistp521',
  'sk-ssh-ed25519@openssh.com',
  'sk-ecdsa-sha2-nistp256@openssh.com',
  'ssh-rsa',
];

/** undefined: it is one. The fault never shows the text, which may be a private key. */
export function sshKeyFault(text: string): string | undefined {
  if (text.includes('PRIVATE KEY')) return 'is a PRIVATE key: it must not be here. Write the line of the .pub file';
  // A line end would begin another key, or an option.
  if (/[\n\r\t]/.test(text.trim())) return 'must be one line';
  const [kind = '', data = ''] = text.trim().split(/ +/);
  if (!KINDS.includes(kind)) return `must begin with the kind of the key: ${KINDS.slice(0, 2).join(', ')}, ...`;
  return innerKind(data) === kind ? undefined : 'is damaged: copy the whole line of the .pub file';
}

/** The key's data begins with its kind again: four bytes of length, then the name. */
function innerKind(data: string): string | undefined {
  if (!/^[A-Za-z0-9+/]{40,}={0,2}$/.test(data) || data.length % 4 !== 0) return undefined;
  const bytes = Buffer.from(data, 'base64');
  return bytes.toString('latin1', 4, 4 + bytes.readUInt32BE());
}

// Addresses of [network], checked before they can make a box unreachable.

function familyOf(address: string): 4 | 6 | undefined {
  const bare = cidrFault(`${address}/${address.includes(':') ? 128 : 32}`);
  return bare === undefined ? (address.includes(':') ? 6 : 4) : undefined;
}

export function splitAddress(text: string) {
  const [, address = '', digits = ''] = /^([^/]+)\/(\d{1,3})$/.exec(text) ?? [];
  const family = familyOf(address);
  const length = Number(digits);
  return family === undefined || length > (family === 4 ? 32 : 128) || length === 0
    ? undefined
    : { address, length, family };
}

/** What is wrong with an address of the box; undefined: nothing. */
export function addressFault(text: string): string | undefined {
  const split = splitAddress(text);
  if (split === undefined)
    return `must be an address and the length of its network, such as "192.168.10.20/24", not "${text}"`;
  if (split.family === 6 || split.length >= 31) return undefined;
  const is = (address: ipaddr.IPv4): boolean => address.toString() === split.address;
  if (is(ipaddr.IPv4.networkAddressFromCIDR(text))) return `"${text}" is the network itself, not an address in it`;
  return is(ipaddr.IPv4.broadcastAddressFromCIDR(text))
    ? `"${text}" is the address of everyone in the network`
    : undefined;
}

/** A router that is not in the box's own network cannot be reached. */
export function gatewayFault(gateway: string, address: string): string | undefined {
  const family = familyOf(gateway);
  if (family === undefined) return `must be an address, not "${gateway}"`;
  const own = splitAddress(address);
  if (own === undefined) return undefined;
  if (own.family !== family) return `"${gateway}" and ${address} are not of one kind (IPv4, IPv6)`;
  if (gateway === own.address) return `"${gateway}" is the box itself`;
  if (family === 6 || ipaddr.IPv4.parse(gateway).match(ipaddr.IPv4.parseCIDR(address))) return undefined;
  return `"${gateway}" is not in the network of ${address}`;
}
