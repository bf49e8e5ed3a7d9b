// Bill of materials of an image, CycloneDX 1.6: Debian's packages, lineside's package and what it carries.
//   node image/sbom.mjs SBOM_TSV PACKAGE_BILL >lineside.cdx.json
// SBOM_TSV: package, version, source, architecture (image/tree). PACKAGE_BILL: the bill in lineside's package.
import { readFileSync } from 'node:fs';
import { billOf } from '../scripts/cyclonedx.mjs';

const [tsv, packageBill] = process.argv.slice(2);
const lineside = JSON.parse(readFileSync(packageBill, 'utf8'));
const debian = readFileSync(tsv, 'utf8')
  .trim()
  .split('\n')
  .map((line) => {
    const [name, own, source, arch] = line.split('\t');
    const purl = `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(own)}?arch=${arch}&distro=trixie&upstream=${encodeURIComponent(source)}`;
    return { type: 'library', name, version: own, purl, 'bom-ref': purl };
  });
const { component } = lineside.metadata;
const { name, version } = component;
const image = { type: 'operating-system', name, version, 'bom-ref': `${name}-image@${version}` };
process.stdout.write(billOf(image, [...debian, component, ...lineside.components]));
