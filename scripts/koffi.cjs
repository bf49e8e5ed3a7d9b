// koffi for the package for laptops: its native part, which has the whole interface that src/ uses. Its package for the processor
// is an optional one without scripts; the single executable has the library inside, and the loader wants a file.
const { mkdtempSync, rmSync, writeFileSync } = require('node:fs');
const { createRequire } = require('node:module');
const { tmpdir } = require('node:os');
const { join } = require('node:path');
const sea = require('node:sea');

function loadAsset() {
  const directory = mkdtempSync(join(tmpdir(), 'lineside-'));
  try {
    const file = join(directory, 'koffi.node');
    writeFileSync(file, Buffer.from(sea.getRawAsset('koffi.node')));
    const loaded = { exports: {} };
    process.dlopen(loaded, file);
    return loaded.exports;
  } finally {
    rmSync(directory, { recursive: true });
  }
}

module.exports = sea.isSea() ? loadAsset() : createRequire(__filename)(`@koromix/koffi-${process.platform}-${process.arch}`);
