/** How Avahi announces the box on the LAN (DNS-SD, avahi.service(5)): what `lineside discover` finds. Pure. */

/** What is known of the box; the record that the package brings knows neither. */
export interface Announced {
  readonly deviceId?: string;
  readonly version?: string;
  /** Of the device's authority: SHA-256, hexadecimal, colons or not. */
  readonly caFingerprint?: string;
}

const GRPC_PORT = 50_051;
const HTTP_PORT = 8_443;
/** A string of a TXT record carries its length in one byte (RFC 6763, 6.1). */
const MAX_TXT_BYTES = 255;

/** /etc/avahi/services/lineside.service, in which %h is the host's name. */
export function avahiService({ deviceId, version, caFingerprint }: Announced): string {
  const known: readonly (readonly [string, string | undefined])[] = [
    ['http', String(HTTP_PORT)],
    ['id', deviceId],
    ['version', version],
    ['fp', caFingerprint?.replaceAll(':', '').toLowerCase()],
  ];
  const records = known.flatMap(([key, value]) => {
    const text = `${key}=${value}`;
    return value === undefined || new TextEncoder().encode(text).length > MAX_TXT_BYTES
      ? []
      : [`    <txt-record>${escaped(text)}</txt-record>\n`];
  });
  return `<?xml version="1.0" standalone='no'?>
<!DOCTYPE service-group SYSTEM "avahi-service.dtd">
<!-- Announces this box on the LAN (DNS-SD); the fingerprint is a hint for who compares it with the box itself. -->
<service-group>
  <name replace-wildcards="yes">%h</name>
  <service>
    <type>_lineside._tcp</type>
    <port>${GRPC_PORT}</port>
${records.join('')}  </service>
</service-group>
`;
}

const entities: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

/** XML 1.0 has no way to write a control character at all. */
function escaped(text: string): string {
  return text.replace(/\p{Cc}/gu, '').replace(/[&<>"]/g, (char) => entities[char] ?? '');
}
