/** Address ranges as webhooks.allow_cidrs writes them: only in the one form in which a range means what it seems to. Pure. */

/** The fault of a range; undefined: it is in canonical form, its host bits zero. */
export function cidrFault(text: string): string | undefined {
  const [, address = '', digits = ''] = /^([0-9A-Fa-f.:]+)\/(\d{1,3})$/.exec(text) ?? [];
  const bytes = address.includes(':') ? bytesOfV6(address) : bytesOfV4(address);
  if (bytes === undefined) {
    return `"${text}" is no range: write an address and a length, "192.168.7.0/24" or "fd00::/8"`;
  }
  const bits = bytes.length * 8;
  const length = Number(digits);
  if (length > bits) return `"${text}": the length of such a range is 0 to ${bits}`;
  if (isMapped(bytes)) return `"${text}" is an IPv4 range in the guise of IPv6: write the IPv4 range`;
  const canonical = `${written(masked(bytes, length))}/${length}`;
  if (canonical === text) return undefined;
  const isInside = masked(bytes, length).some((byte, i) => byte !== bytes[i]);
  return isInside
    ? `"${text}" names an address inside the range: write "${canonical}"`
    : `"${text}" is not how the range is written: write "${canonical}"`;
}

/** Four decimal numbers; none with a zero in front, which some read as octal. */
function bytesOfV4(text: string): readonly number[] | undefined {
  const parts = text.split('.');
  const isPart = (part: string): boolean => /^(0|[1-9]\d{0,2})$/.test(part) && Number(part) <= 255;
  return parts.length === 4 && parts.every(isPart) ? parts.map(Number) : undefined;
}

/** The URL standard's parser reads IPv6, and writes it in the one short form (RFC 5952). */
function bytesOfV6(text: string): readonly number[] | undefined {
  if (!URL.canParse(`http://[${text}]/`)) return undefined;
  const [head = '', tail] = new URL(`http://[${text}]/`).hostname.slice(1, -1).split('::');
  const front = groups(head);
  const back = groups(tail ?? '');
  const zeros = tail === undefined ? 0 : 8 - front.length - back.length;
  return [...front, ...Array.from({ length: zeros }, () => 0), ...back].flatMap((group) => [group >> 8, group & 0xff]);
}

function groups(text: string): readonly number[] {
  return text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16));
}

/** Such an address is never called as IPv6, so that a range of them would open nothing. */
function isMapped(bytes: readonly number[]): boolean {
  return (
    bytes.length === 16 && bytes.slice(0, 10).every((byte) => byte === 0) && bytes[10] === 255 && bytes[11] === 255
  );
}

function masked(bytes: readonly number[], length: number): readonly number[] {
  return bytes.map((byte, i) => byte & (0xff << Math.min(8, Math.max(0, 8 * (i + 1) - length))) & 0xff);
}

function written(bytes: readonly number[]): string {
  if (bytes.length === 4) return bytes.join('.');
  const pairs = Array.from({ length: 8 }, (_, i) => ((bytes[2 * i] ?? 0) * 256 + (bytes[2 * i + 1] ?? 0)).toString(16));
  return new URL(`http://[${pairs.join(':')}]/`).hostname.slice(1, -1);
}
