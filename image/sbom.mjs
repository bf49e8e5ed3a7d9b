// Bill of materials of an image, CycloneDX 1.6: Debian's packages and the npm packages that lineside is made of.
//   node image/sbom.mjs SBOM_TSV VERSION >lineside.cdx.json    SBOM_TSV: package, version, source, architecture (image/tree)
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

const [tsv, version] = process.argv.slice(2);
const lock = JSON.parse(readFileSync(new URL('../package-lock.json', import.meta.url), 'utf8'));

const debian = readFileSync(tsv, 'utf8')
  .trim()
  .split('\n')
  .map((line) => {
    const [name, own, source, arch] = line.split('\t');
    const purl = `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(own)}?arch=${arch}&distro=trixie&upstream=${encodeURIComponent(source)}`;
    return { type: 'library', name, version: own, purl, 'bom-ref': purl };
  });

// What is only for building and testing is not in the image; nor is another processor's Node.
const npm = Object.entries(lock.packages)
  .filter(([path, { dev, devOptional, cpu }]) => path !== '' && !dev && !devOptional && (cpu ?? ['arm64']).includes('arm64'))
  .map(([path, entry]) => {
    const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
    const purl = `pkg:npm/${name.replace('@', '%40')}@${entry.version}`;
    const hash = /^sha512-(.*)$/.exec(entry.integrity ?? '')?.[1];
    return {
      type: 'library',
      name,
      version: entry.version,
      purl,
      'bom-ref': purl,
      ...(entry.license === undefined ? {} : { licenses: [{ expression: entry.license }] }),
      ...(hash === undefined ? {} : { hashes: [{ alg: 'SHA-512', content: Buffer.from(hash, 'base64').toString('hex') }] }),
    };
  });

const { librdkafka } = JSON.parse(readFileSync(new URL('../node_modules/node-rdkafka/package.json', import.meta.url), 'utf8'));
const compiled = { type: 'library', name: 'librdkafka', version: librdkafka, 'bom-ref': `pkg:generic/librdkafka@${librdkafka}` };

const components = [...new Map([...debian, ...npm, compiled].map((one) => [one['bom-ref'], one])).values()];
const digest = createHash('sha256').update(JSON.stringify(components)).digest('hex');
const serial = `${digest.slice(0, 8)}-${digest.slice(8, 12)}-4${digest.slice(13, 16)}-8${digest.slice(17, 20)}-${digest.slice(20, 32)}`;
const timestamp = new Date(Number(process.env.SOURCE_DATE_EPOCH) * 1000).toISOString();
const bom = {
  bomFormat: 'CycloneDX',
  specVersion: '1.6',
  serialNumber: `urn:uuid:${serial}`,
  version: 1,
  metadata: { timestamp, component: { type: 'operating-system', name: 'lineside', version, 'bom-ref': `lineside@${version}` } },
  components,
};
process.stdout.write(`${JSON.stringify(bom, null, 1)}\n`);
