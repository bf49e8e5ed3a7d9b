// Writes the package's copyright file and the licence texts of everything it carries: the packages that the lock file
// names for running, and Node. For scripts/package.
//   node scripts/licences.mjs NODE-PACKAGE TARGET-DIRECTORY
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

const [nodePackage, target] = process.argv.slice(2);
const LICENCE_FILE = /^(licen[cs]es?|copying|notice)([._-].*)?$/i;
const lock = JSON.parse(readFileSync('package-lock.json', 'utf8'));

/** Each distinct text once, however many packages share it. */
const texts = new Map();
const rows = [];

function add(directory, name, version, licence) {
  rows.push([name, version, licence]);
  for (const file of readdirSync(directory).filter((entry) => LICENCE_FILE.test(entry))) {
    const text = readFileSync(join(directory, file), 'utf8').trim();
    texts.set(text, [...(texts.get(text) ?? []), `${name} ${version}`]);
  }
}

for (const [path, entry] of Object.entries(lock.packages)) {
  if (path === '' || entry.dev || path.startsWith('node_modules/node-linux-') || !existsSync(path)) continue;
  const described = JSON.parse(readFileSync(join(path, 'package.json'), 'utf8'));
  add(path, described.name, described.version, described.license ?? 'see its text');
}
const node = JSON.parse(readFileSync(join(nodePackage, 'package.json'), 'utf8'));
// The same words for every processor.
add(nodePackage, 'node', node.version, 'MIT, and of its parts: see its text');
const librdkafka = 'node_modules/node-rdkafka/deps/librdkafka';
add(
  librdkafka,
  basename(librdkafka),
  `of ${basename(dirname(dirname(librdkafka)))}`,
  'BSD-2-Clause, and of its parts: see its text',
);

rows.sort((a, b) => (a[0] < b[0] ? -1 : 1));
const apache = readFileSync('LICENSE', 'utf8').trim();
writeFileSync(
  join(target, 'copyright'),
  [
    'lineside is licensed under the Apache License, Version 2.0: /usr/share/common-licenses/Apache-2.0 on Debian.',
    '',
    'The package carries these works of others, compiled or bundled. Their copyright notices and licence texts are in',
    'licences.txt beside this file.',
    '',
    ...rows.map(([name, version, licence]) => `  ${name} ${version}: ${licence}`),
    '',
  ].join('\n'),
);
const parts = [...texts].map(([text, names]) => `${[...new Set(names)].join(', ')}\n\n${text}`);
const rule = `\n\n${'='.repeat(80)}\n\n`;
writeFileSync(join(target, 'licences.txt'), `${[`lineside\n\n${apache}`, ...parts].join(rule)}\n`);
