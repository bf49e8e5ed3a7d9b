/** The built image: its size, and that two builds from the same inputs, at different times and places, are equal to the byte. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { it } from 'node:test';
import { temporaryDirectory } from '../../src/shared/base/temporary.fixture.ts';
import { builtImage, imageMissing } from './card.ts';

const BUILD_LIMIT_MS = 600_000;

/** Mebibytes: an upload of a bundle has to fit twice beside the data of a 2 GB card. */
const ROOT_LIMIT_MIB = 145;

it('has a root that fits, since image/keep lets in what a box uses', { skip: imageMissing() }, () => {
  const mib = statSync(join(builtImage().parts, 'root.erofs')).size / 1024 / 1024;
  assert.ok(mib <= ROOT_LIMIT_MIB, `${mib.toFixed(1)} MiB`);
});

it('builds the same image again from the same inputs', { skip: imageMissing() }, (t) => {
  const { image, updateKey } = builtImage();
  const dir = temporaryDirectory(t);
  const build = resolve(import.meta.dirname, '../../image/build');
  const args = ['--update-key', `${updateKey}.pub`, '--out', join(dir, 'out')];
  execFileSync(build, args, {
    cwd: dir,
    env: { ...process.env, TZ: 'Asia/Kathmandu', LC_ALL: 'C.UTF-8', TMPDIR: dir },
    timeout: BUILD_LIMIT_MS,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const sums = readFileSync(join(dirname(image), 'SHA256SUMS'), 'utf8');
  assert.match(sums, /\.img\n/);
  assert.match(sums, /\.cdx\.json\n/);
  assert.equal(readFileSync(join(dir, 'out/SHA256SUMS'), 'utf8'), sums);
  const { components } = JSON.parse(readFileSync(image.replace(/img$/, 'cdx.json'), 'utf8'));
  const named = new Set(components.map(({ name }: { readonly name: string }) => name));
  for (const name of ['systemd', 'raspi-firmware', 'lineside', 'fastify', 'node', 'sqlite', 'librdkafka'])
    assert.ok(named.has(name), `the bill of materials does not name ${name}`);
});
