// Writes what the package says of the works of others in it: the copyright file, their licence texts, and the bill of
// materials (CycloneDX). These works are the packages that the lock file names for running, Node, and the libraries that are
// compiled into native modules. For scripts/package.
//   node scripts/licences.mjs ARCH CPU MODULES TARGET-DIRECTORY [WORK...]
// MODULES: scripts/cross-modules', or node_modules. WORK: the names of those that are in it (default: all).
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { billOf } from './cyclonedx.mjs';

const [arch, cpu, modules, target, ...only] = process.argv.slice(2);
const LICENCE_FILE = /^(licen[cs]es?|copying|notice)([._-].*)?$/i;
const MODULES = 'node_modules/';
const json = (path) => JSON.parse(readFileSync(path, 'utf8'));
/** A package for another processor is in `modules`; the others are the same for every processor. */
const directoryOf = (name) => [join(modules, name), join(MODULES, name)].find((path) => existsSync(path));

function npmPackages() {
  const forThis = ({ os, cpu: cpus }) => (os ?? ['linux']).includes('linux') && (cpus ?? [cpu]).includes(cpu);
  const carried = ([path, entry]) =>
    path !== '' && !entry.dev && !entry.devOptional && forThis(entry) && !path.startsWith(`${MODULES}node-linux-`);
  return Object.entries(json('package-lock.json').packages)
    .filter(carried)
    .map(([path, entry]) => {
      const directory = directoryOf(path.slice(MODULES.length));
      const { name, license } = json(join(directory, 'package.json'));
      const { version } = entry;
      const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`;
      const sha512 = /^sha512-(.*)$/.exec(entry.integrity ?? '')?.[1];
      return { name, version, licence: license, directory, purl, sha512, changes: CHANGES[name] };
    });
}

/** What scripts/kafka-client changes in the sources that it compiles. */
const CHANGES = {
  librdkafka: [
    'timed waits use the monotonic clock instead of the wall clock',
    'clients that lose a broker at the same moment reconnect at random times, and wait between attempts',
    'the thread of a broker sleeps while messages wait for the answers to those before',
  ],
  'node-rdkafka': [
    "the handle by which librdkafka's threads wake the event loop is guarded by the queue's lock, and freed",
    'its producer also sends and reports messages without objects for each',
  ],
};

/** What no package of npm's stands for by its own name. */
function compiled() {
  const node = json(join(modules, `node-linux-${cpu}`, 'package.json'));
  const sqlite = join(directoryOf('better-sqlite3'), 'deps/sqlite3');
  const sqliteVersion = /^#define SQLITE_VERSION +"(.*)"$/m.exec(readFileSync(join(sqlite, 'sqlite3.h'), 'utf8'))[1];
  const { librdkafka } = json(join(MODULES, 'node-rdkafka/package.json'));
  return [
    {
      name: 'node',
      version: node.version,
      licence: node.license,
      parts: true,
      directory: directoryOf(node.name),
      purl: `pkg:generic/node@${node.version}`,
      cpe: `cpe:2.3:a:nodejs:node.js:${node.version}:*:*:*:lts:*:*:*`,
    },
    {
      name: 'sqlite',
      version: sqliteVersion,
      licence: 'blessing',
      directory: sqlite,
      purl: `pkg:generic/sqlite@${sqliteVersion}`,
      cpe: `cpe:2.3:a:sqlite:sqlite:${sqliteVersion}:*:*:*:*:*:*:*`,
    },
    {
      name: 'librdkafka',
      version: librdkafka,
      licence: 'BSD-2-Clause',
      parts: true,
      directory: join(MODULES, 'node-rdkafka/deps/librdkafka'),
      purl: `pkg:github/confluentinc/librdkafka@v${librdkafka}`,
      changes: CHANGES.librdkafka,
    },
  ];
}

function component({ name, version, licence, purl, cpe, sha512, changes }) {
  return {
    type: 'library',
    'bom-ref': purl,
    name,
    version,
    ...(sha512 === undefined
      ? {}
      : { hashes: [{ alg: 'SHA-512', content: Buffer.from(sha512, 'base64').toString('hex') }] }),
    licenses: [{ expression: licence }],
    ...(cpe === undefined ? {} : { cpe }),
    purl,
    ...(changes === undefined
      ? {}
      : { pedigree: { patches: changes.map(patch), notes: 'changed before it is compiled' } }),
  };
}

const patch = (description) => ({ type: 'unofficial', resolves: [{ type: 'defect', description }] });

const { name, version, license, author } = json('package.json');
const works = [...npmPackages(), ...compiled()]
  .filter((work) => only.length === 0 || only.includes(work.name))
  .toSorted((a, b) => (a.name < b.name ? -1 : 1));

const purl = `pkg:deb/${name}@${version}?arch=${arch}`;
const subject = { type: 'application', 'bom-ref': purl, name, version, licenses: [{ expression: license }], purl };
writeFileSync(join(target, `${name}.cdx.json`), billOf(subject, works.map(component)));

const holder = author.replace(/ <.*/, '');
const rows = works.map(
  (work) => `  ${work.name} ${work.version}: ${work.licence}${work.parts ? ', and of its parts: see its text' : ''}`,
);
writeFileSync(
  join(target, 'copyright'),
  [
    `Copyright 2026 ${holder}`,
    '',
    'lineside is licensed under the Apache License, Version 2.0: /usr/share/common-licenses/Apache-2.0 on Debian.',
    '',
    'The package carries these works of others, compiled or bundled. Their copyright notices and licence texts are in',
    'licences.txt beside this file; lineside.cdx.json lists the works for programs (CycloneDX).',
    '',
    ...new Set(rows),
    '',
  ].join('\n'),
);

/** Each distinct text once, however many works share it. */
const texts = new Map([[readFileSync('LICENSE', 'utf8').trim(), [name]]]);
for (const work of works) {
  for (const file of readdirSync(work.directory).filter((entry) => LICENCE_FILE.test(entry))) {
    const text = readFileSync(join(work.directory, file), 'utf8').trim();
    texts.set(text, [...(texts.get(text) ?? []), `${work.name} ${work.version}`]);
  }
}
const parts = [...texts].map(([text, names]) => `${[...new Set(names)].join(', ')}\n\n${text}`);
writeFileSync(join(target, 'licences.txt'), `${parts.join(`\n\n${'='.repeat(80)}\n\n`)}\n`);
