/**
 * Runs test files as `node --test` does, but starts the long ones first: the runner goes by name, and a long file that starts last
 * leaves the other processors without work.
 *   node --import tsx/esm test/run.ts [FILE ...]   default: all but the appliance and the image, which scripts/test-image runs
 */
import { globSync } from 'node:fs';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { runsAlone } from './unit/shared-process.ts';

/** On two cores: most tests wait for a while. */
const CONCURRENCY = 6;
const TIMEOUT_MS = 300_000;

/** More than 40 s on two busy cores, the longest first. */
const long = [
  'test/console/line.test.ts',
  'test/unit/http.test.ts',
  'test/unit/webhooks.test.ts',
  'test/e2e/faults-readers.test.ts',
  'test/e2e/upstream.test.ts',
  'test/unit/hub.test.ts',
  'test/e2e/serial-faults.test.ts',
  'test/kafka/network.test.ts',
  'test/console/data.test.ts',
  'test/e2e/hub-broker.test.ts',
  'test/e2e/webhooks-offline.test.ts',
  'test/unit/cli.test.ts',
  'test/unit/appliance.test.ts',
  'test/e2e/upstream-slow.test.ts',
  'test/e2e/faults-stop.test.ts',
  'test/unit/line.test.ts',
  'test/fleet/fleet.test.ts',
  'test/kafka/broker.test.ts',
  'test/e2e/doctor.test.ts',
  'test/e2e/documented-sessions.test.ts',
];

function everything(): string[] {
  const alone = globSync('src/**/*.test.ts').filter(runsAlone);
  const found = globSync('test/**/*.test.ts').filter((file) => !/^test\/(?:appliance|image)\//.test(file));
  const missing = long.filter((file) => !found.includes(file));
  if (missing.length > 0) throw new Error(`test/run.ts names files that do not exist: ${missing.join(', ')}`);
  return [...new Set([...long, ...alone.sort(), ...found.sort()])];
}

const given = process.argv.slice(2);
const files = given.length === 0 ? everything() : given.flatMap((one) => (/[*?]/.test(one) ? globSync(one) : one));
run({ files, concurrency: CONCURRENCY, timeout: TIMEOUT_MS })
  .on('test:fail', ({ todo }) => {
    if (todo === undefined || todo === false) process.exitCode = 1;
  })
  .compose(spec)
  .pipe(process.stdout);
