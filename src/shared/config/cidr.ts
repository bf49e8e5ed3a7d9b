/** Address ranges as webhooks.allow_cidrs writes them: only in the one form in which a range means what it seems to. Pure. */
import ipaddr from 'ipaddr.js';

/** The fault of a range; undefined: it is in canonical form, its host bits zero. */
export function cidrFault(text: string): string | undefined {
  const [, written = '', digits = ''] = /^([0-9A-Fa-f.:]+)\/(\d{1,3})$/.exec(text) ?? [];
  // Four decimal numbers; none with a zero in front, which some read as octal.
  const isV4 = ipaddr.IPv4.isValidFourPartDecimal(written);
  if (!isV4 && !ipaddr.IPv6.isValid(written)) {
    return `"${text}" is no range: write an address and a length, "192.168.7.0/24" or "fd00::/8"`;
  }
  const [family, bits] = isV4 ? ([ipaddr.IPv4, 32] as const) : ([ipaddr.IPv6, 128] as const);
  const length = Number(digits);
  if (length > bits) return `"${text}": the length of such a range is 0 to ${bits}`;
  const address = ipaddr.parse(written);
  // Such an address is never called as IPv6, so that a range of them would open nothing.
  if (address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress()) {
    return `"${text}" is an IPv4 range in the guise of IPv6: write the IPv4 range`;
  }
  const network = family.networkAddressFromCIDR(`${written}/${length}`).toString();
  const canonical = `${network}/${length}`;
  if (canonical === text) return undefined;
  return network === address.toString()
    ? `"${text}" is not how the range is written: write "${canonical}"`
    : `"${text}" names an address inside the range: write "${canonical}"`;
}
