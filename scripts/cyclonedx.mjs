/**
 * A bill of materials, CycloneDX 1.6: the same components give the same bytes; its time is SOURCE_DATE_EPOCH. For
 * scripts/licences.mjs (the package) and image/sbom.mjs (the image).
 */
import { createHash } from 'node:crypto';

export function billOf(subject, listed) {
  const components = [...new Map(listed.map((one) => [one['bom-ref'], one])).values()].toSorted((a, b) =>
    a['bom-ref'] < b['bom-ref'] ? -1 : 1,
  );
  const digest = createHash('sha256')
    .update(JSON.stringify([subject, components]))
    .digest('hex');
  const serial = `${digest.slice(0, 8)}-${digest.slice(8, 12)}-4${digest.slice(13, 16)}-8${digest.slice(17, 20)}-${digest.slice(20, 32)}`;
  const timestamp = new Date(Number(process.env.SOURCE_DATE_EPOCH) * 1000).toISOString();
  const bill = {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    serialNumber: `urn:uuid:${serial}`,
    version: 1,
    metadata: { timestamp, component: subject },
    components,
  };
  return `${JSON.stringify(bill, null, 1)}\n`;
}
