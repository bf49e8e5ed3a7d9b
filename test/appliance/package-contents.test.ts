/** What is in the Debian package, and that the same sources give the same bytes. Needs no machine to install it on. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { builtImage, imageMissing } from '../image/card.ts';
import { debianPackage } from './nspawn.ts';

const repository = resolve(import.meta.dirname, '../..');
const BUILD_LIMIT_MS = 900_000;
/** The image and all that goes into it. */
const IMAGE_LIMIT_MS = 1_800_000;
const work = mkdtempSync('/var/tmp/lineside-contents-');
after(() => rmSync(work, { recursive: true }));

const has = (command: string) => spawnSync('sh', ['-c', `command -v ${command}`]).status === 0;
const noDpkg = !has('dpkg-deb') && 'dpkg-deb is not installed';
const own = noDpkg ? '' : execFileSync('dpkg', ['--print-architecture'], { encoding: 'utf8' }).trim();
const noCross =
  noDpkg ||
  (own !== 'amd64' && 'cross-compiles from amd64 alone') ||
  (!has('aarch64-linux-gnu-g++') && 'no compiler for arm64') ||
  (!has('qemu-aarch64-static') && 'qemu-user-static is not installed') ||
  (!has('mmdebstrap') && 'mmdebstrap is not installed');

/** Builds into a directory of its own; the path of the package. */
function build(arch: string, into: string, env: Record<string, string> = {}): string {
  const output = execFileSync(join(repository, 'scripts/package'), [arch, into], {
    encoding: 'utf8',
    timeout: BUILD_LIMIT_MS,
    env: { ...process.env, ...env },
  });
  return output.trim().split('\n').at(-1) ?? '';
}

function files(root: string): string[] {
  return readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((name) => statSync(join(root, name)).isFile());
}

/** e_machine of an ELF file; undefined: it is none. */
function machine(file: string): number | undefined {
  const bytes = readFileSync(file);
  return bytes.subarray(0, 4).toString('latin1') === '\u007fELF' ? bytes.readUInt16LE(18) : undefined;
}

/** A bill of materials (CycloneDX), as far as it is checked here. */
interface Bill {
  readonly metadata: { readonly component: { readonly purl: string } };
  readonly components: readonly Component[];
}
interface Component {
  readonly name: string;
  readonly version: string;
  readonly licenses: readonly { readonly expression?: string }[];
  readonly pedigree?: {
    readonly patches: readonly { readonly resolves: readonly { readonly description: string }[] }[];
  };
}

const EM_X86_64 = 62;
const EM_AARCH64 = 183;

describe('the contents of the Debian package', { skip: noDpkg, timeout: BUILD_LIMIT_MS }, () => {
  const root = join(work, 'own');
  let deb: string;
  let listing: string[];
  before(() => {
    deb = debianPackage();
    execFileSync('dpkg-deb', ['--extract', deb, root]);
    listing = execFileSync('dpkg-deb', ['--contents', deb], { encoding: 'utf8' }).trim().split('\n');
  });
  const field = (name: string) => execFileSync('dpkg-deb', ['--field', deb, name], { encoding: 'utf8' }).trim();
  const text = (path: string) => readFileSync(join(root, path), 'utf8');

  test('it says what it is, and names a package for each library that its binaries want', () => {
    const { version } = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8'));
    assert.deepEqual([field('Package'), field('Version'), field('Architecture')], ['lineside', version, own]);
    assert.match(field('Maintainer'), /^[^<>]+ <[^@<> ]+@[a-z0-9-]+(\.[a-z0-9-]+)+>$/);
    const control = join(work, 'control');
    execFileSync('dpkg-deb', ['--control', deb, control]);
    for (const file of files(control)) assert.doesNotMatch(readFileSync(join(control, file), 'utf8'), /@[A-Z]+@/, file);
    const packages: Record<string, string> = {
      'libc.so': 'libc6',
      'libm.so': 'libc6',
      'libdl.so': 'libc6',
      'libpthread.so': 'libc6',
      'ld-linux': 'libc6',
      'libstdc++': 'libstdc++6',
      libgcc_s: 'libgcc-s1',
      libssl: 'libssl3 (>= 3.0.0) | libssl3t64',
      libcrypto: 'libssl3 (>= 3.0.0) | libssl3t64',
      libzstd: 'libzstd1',
      'libz.so': 'zlib1g',
    };
    for (const file of files(root).filter((name) => machine(join(root, name)) !== undefined)) {
      const needed = execFileSync('readelf', ['--dynamic', '--wide', join(root, file)], { encoding: 'utf8' });
      for (const [, library] of needed.matchAll(/\(NEEDED\).*\[(.*)\]/g)) {
        if (library?.startsWith('librdkafka')) continue;
        const known = Object.keys(packages).find((name) => library?.startsWith(name));
        assert.ok(known, `${file} wants ${library}`);
        assert.ok(field('Depends').includes(packages[known] ?? '?'), `${file} wants ${library}`);
      }
    }
  });

  test('its changelog begins with this version', () => {
    const changelog = gunzipSync(readFileSync(join(root, 'usr/share/doc/lineside/changelog.gz'))).toString();
    assert.equal(changelog.split('\n', 1)[0], `lineside (${field('Version')}) unstable; urgency=medium`);
    assert.match(changelog, /^ -- [^<>]+ <[^@<> ]+@[^@<> ]+> {2}\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}$/m);
  });

  test('its programs and libraries carry no symbols for debugging', () => {
    for (const file of files(root).filter((name) => machine(join(root, name)) !== undefined)) {
      const sections = execFileSync('readelf', ['--sections', '--wide', join(root, file)], { encoding: 'utf8' });
      assert.doesNotMatch(sections, /\.(symtab|debug_info|zdebug_info)\b/, file);
    }
  });

  test('its bill of materials names everything that it carries, with version and licence, and what was changed', () => {
    const { metadata, components }: Bill = JSON.parse(text('usr/share/doc/lineside/lineside.cdx.json'));
    assert.equal(metadata.component.purl, `pkg:deb/lineside@${field('Version')}?arch=${own}`);
    const named = new Map(components.map((one) => [one.name, one]));
    for (const { name, version, licenses } of components)
      assert.ok(version && licenses[0]?.expression, `${name} has no version or no licence`);
    const carried = files(join(root, 'usr/lib/lineside/node_modules')).filter((name) => name.endsWith('package.json'));
    for (const file of carried) {
      const { name, version } = JSON.parse(text(join('usr/lib/lineside/node_modules', file)));
      if (version === undefined) continue;
      const same = (one: Component) => one.name === name && one.version === version.replace(/^v/, '');
      assert.ok(components.some(same), `${name} ${version}`);
    }
    const other = own === 'amd64' ? 'arm64' : 'x64';
    assert.deepEqual(
      [...named.keys()].filter((name) => new RegExp(`-(${other}|darwin|win32|android|freebsd)`).test(name)),
      [],
    );
    const script = `
      const sqlite = new (require('better-sqlite3'))(':memory:').prepare('select sqlite_version() version').get().version;
      console.log(JSON.stringify([process.versions.node, sqlite, require('node-rdkafka').librdkafkaVersion]));`;
    const cwd = join(root, 'usr/lib/lineside');
    const versions = JSON.parse(execFileSync(join(cwd, 'node'), ['-e', script], { cwd, encoding: 'utf8' }));
    assert.deepEqual(
      ['node', 'sqlite', 'librdkafka'].map((name) => named.get(name)?.version),
      versions,
    );
    assert.equal(named.get('librdkafka')?.licenses[0]?.expression, 'BSD-2-Clause');
    for (const name of ['librdkafka', 'node-rdkafka'])
      assert.ok(
        named.get(name)?.pedigree?.patches[0]?.resolves[0]?.description,
        `${name} was changed before it was compiled`,
      );
  });

  test('only root can write the files; only root can read those that hold secrets', () => {
    const modes = new Map<string, string>();
    for (const line of listing) {
      const [mode = '', owner, , , , path = ''] = line.split(/\s+/);
      assert.equal(owner, 'root/root', line);
      assert.match(mode, /^[d-]rw[x-]r?-?[x-]?/, line);
      assert.doesNotMatch(mode, /^.{5}w|^.{8}w|[sStTl]/, line);
      modes.set(path.replace(/^\.\//, ''), mode);
    }
    for (const directory of ['ca', 'secrets', 'secrets/line', 'secrets/hub'])
      assert.equal(modes.get(`etc/lineside/${directory}/`), 'drwx------', directory);
    assert.equal(modes.get('etc/lineside/tls/'), 'drwxr-xr-x');
    const executable = [...modes].filter(([, mode]) => mode.startsWith('-') && mode.includes('x'));
    assert.deepEqual(
      executable.map(([path]) => path).filter((path) => !path.startsWith('usr/lib/lineside/appliance/')),
      ['usr/bin/lineside', 'usr/lib/lineside/node', 'usr/lib/systemd/system-generators/lineside'],
    );
  });

  test('no sources, no other processor, no tests, no key, token or path of the machine it was built on', () => {
    for (const file of files(root)) {
      assert.doesNotMatch(
        file,
        /\.(map|ts|cc|cpp|c|h|gyp|pem|key)$|musl.*\.node$|win32.*\.node$|darwin.*\.node$|tokens\.json/,
        file,
      );
      const bytes = readFileSync(join(root, file));
      assert.equal(bytes.includes(repository), false, `${file} names ${repository}`);
      assert.doesNotMatch(bytes.toString('latin1'), /PRIVATE KEY-----\s+[A-Za-z0-9+/=\s]{60}/, file);
      const elf = machine(join(root, file));
      if (elf !== undefined) assert.equal(elf, own === 'amd64' ? EM_X86_64 : EM_AARCH64, file);
    }
  });

  test('the rules for Prometheus and the dashboard for Grafana are in it, to be copied from there', () => {
    for (const name of ['prometheus-rules.yml', 'grafana-dashboard.json'])
      assert.equal(
        text(`usr/share/lineside/${name}`),
        readFileSync(join(repository, 'systemd/monitoring', name), 'utf8'),
        name,
      );
  });

  test('a manual page for each command and for the configuration, and completion for three shells', () => {
    const pages = files(join(root, 'usr/share/man'));
    for (const name of ['man1/lineside.1', 'man1/lineside-log-export.1', 'man5/lineside.toml.5'])
      assert.ok(pages.includes(`${name}.gz`), name);
    const page = gunzipSync(readFileSync(join(root, 'usr/share/man/man1/lineside.1.gz'))).toString();
    assert.match(page, /^\.TH "LINESIDE" "1" /m);
    for (const path of [
      'bash-completion/completions/lineside',
      'zsh/vendor-completions/_lineside',
      'fish/vendor_completions.d/lineside.fish',
    ])
      assert.match(text(`usr/share/${path}`), /__complete/, path);
  });

  test('its configuration is the commented example with what a package knows filled in', () => {
    const example = readFileSync(join(repository, 'systemd/lineside.toml'), 'utf8').split('\n');
    const packaged = text('etc/lineside/lineside.toml').split('\n');
    assert.equal(packaged.length, example.length);
    assert.deepEqual(
      packaged.filter((line, at) => line !== example[at]),
      [
        'runtime_dir = "/run/lineside"',
        'cert_file = "/etc/lineside/tls/server.crt"',
        'key_file = "credential:tls.key"',
      ],
    );
    const conffiles = execFileSync('dpkg-deb', ['--info', deb, 'conffiles'], { encoding: 'utf8' });
    assert.equal(conffiles, '/etc/lineside/lineside.toml\n');
  });

  test('every program and file that its units name is in it, and the licence of everything it carries', () => {
    const units = readdirSync(join(root, 'usr/lib/systemd/system')).filter((name) => name.endsWith('.service'));
    assert.deepEqual(units, [
      'lineside-admin-restore.service',
      'lineside-admin.service',
      'lineside-hub.service',
      'lineside-restore.service',
      'lineside.service',
    ]);
    for (const unit of units)
      for (const [, path = ''] of text(`usr/lib/systemd/system/${unit}`).matchAll(
        /^(?:ExecStart|EnvironmentFile)=-?(\S+)/gm,
      ))
        assert.ok(statSync(join(root, path)).isFile(), `${unit}: ${path}`);
    const copyright = text('usr/share/doc/lineside/copyright');
    const carried = files(join(root, 'usr/lib/lineside/node_modules')).filter((name) => name.endsWith('package.json'));
    for (const file of carried) {
      const { name, version } = JSON.parse(text(join('usr/lib/lineside/node_modules', file)));
      const stated = `  ${name} ${version?.replace(/^v/, '')}: `;
      if (version !== undefined) assert.ok(copyright.includes(stated), stated);
    }
    for (const name of ['fastify', 'got', 'node', 'librdkafka', 'sqlite'])
      assert.match(copyright, new RegExp(`^  ${name} `, 'm'));
  });

  test('the same sources give the same bytes, wherever and whenever it is built', () => {
    const epoch = { SOURCE_DATE_EPOCH: '1700000000' };
    const inputs = (place: string) => readFileSync(join(work, place, `inputs-${own}`), 'utf8');
    let once = build(own, join(work, 'once'), epoch);
    const again = build(own, join(work, 'another place'), { ...epoch, TZ: 'Pacific/Auckland', LC_ALL: 'C.UTF-8' });
    // The sources changed between the two.
    if (inputs('once') !== inputs('another place')) once = build(own, join(work, 'once'), epoch);
    assert.equal(inputs('once'), inputs('another place'));
    assert.ok(readFileSync(once).equals(readFileSync(again)));
  });
});

describe('the package for arm64', { skip: noCross || imageMissing(), timeout: IMAGE_LIMIT_MS }, () => {
  // Before anything else makes this package: on a fresh checkout image/build has to do it, as the README says, from nothing.
  before(() => builtImage());

  test('its Node loads every native module and says the version', () => {
    const root = join(work, 'arm64');
    execFileSync('dpkg-deb', ['--extract', build('arm64', '.cache/package'), root]);
    for (const file of files(root)) {
      const elf = machine(join(root, file));
      if (elf !== undefined) assert.equal(elf, EM_AARCH64, file);
    }
    const modules = execFileSync(join(repository, 'scripts/cross-modules'), ['arm64'], { encoding: 'utf8' }).trim();
    const run = (...args: string[]) =>
      execFileSync('qemu-aarch64-static', ['-L', resolve(repository, modules, 'sysroot'), './node', ...args], {
        encoding: 'utf8',
        cwd: join(root, 'usr/lib/lineside'),
      }).trim();
    assert.equal(
      run('main.js', '--version'),
      JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8')).version,
    );
    const script = `
      const Database = require('better-sqlite3');
      const getpid = require('koffi').load('libc.so.6').func('int getpid()');
      const row = new Database(':memory:').prepare('select 6 * 7 answer').get();
      require('@serialport/bindings-cpp').autoDetect();
      console.log(process.arch, row.answer, getpid() === process.pid, require('node-rdkafka').features.join());`;
    assert.match(run('-e', script), /^arm64 42 true (?=.*gzip)(?=.*ssl)(?=.*zstd)(?=.*sasl_scram)/);
  });
});
