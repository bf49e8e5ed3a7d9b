/** Addresses as [network] writes them, judged before they can make a box unreachable. Pure. */
import { cidrFault } from '../../shared/config/cidr.ts';

interface Split {
  readonly address: string;
  readonly length: number;
  readonly family: 4 | 6;
}

export function familyOf(address: string): 4 | 6 | undefined {
  const bare = cidrFault(`${address}/${address.includes(':') ? 128 : 32}`);
  return bare === undefined ? (address.includes(':') ? 6 : 4) : undefined;
}

export function splitAddress(text: string): Split | undefined {
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
  if (split.family === 4 && split.length < 31) {
    const number = numberOf(split.address);
    const host = number % 2 ** (32 - split.length);
    if (host === 0) return `"${text}" is the network itself, not an address in it`;
    if (host === 2 ** (32 - split.length) - 1) return `"${text}" is the address of everyone in the network`;
  }
  return undefined;
}

/** A router that is not in the box's own network cannot be reached. */
export function gatewayFault(gateway: string, address: string): string | undefined {
  const family = familyOf(gateway);
  if (family === undefined) return `must be an address, not "${gateway}"`;
  const own = splitAddress(address);
  if (own === undefined) return undefined;
  if (own.family !== family) return `"${gateway}" and ${address} are not of one kind (IPv4, IPv6)`;
  if (gateway === own.address) return `"${gateway}" is the box itself`;
  if (family === 6) return undefined;
  const size = 2 ** (32 - own.length);
  return Math.floor(numberOf(gateway) / size) === Math.floor(numberOf(own.address) / size)
    ? undefined
    : `"${gateway}" is not in the network of ${address}`;
}

function numberOf(v4: string): number {
  return v4.split('.').reduce((sum, part) => sum * 256 + Number(part), 0);
}
