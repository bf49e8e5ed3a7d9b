/**
 * The house and its arrows: which room may import which, no cycles, and the files that must stay pure. Reads the
 * sources as text, type-only and dynamic imports included; a forbidden arrow fails with the reason it is forbidden.
 */
import assert from 'node:assert/strict';
import { globSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative, resolve } from 'node:path';
import { describe, it } from 'node:test';

const src = resolve(import.meta.dirname, '../src');

/** Longest first: a file belongs to the first room whose path begins its own. */
const rooms = [
  'api/grpc',
  'api/http',
  'appliance',
  'base',
  'cli',
  'collector',
  'console/page',
  'console',
  'config',
  'device-facts',
  'doctor',
  'gen',
  'host',
  'kafka',
  'line',
  'line-client',
  'log',
  'outbox',
  'proto',
  'refdata',
  'storage',
  'upstream',
  'watch',
  'webhooks',
];
/** Files that stand in src itself. */
const roots = [
  'main.ts',
  'serve.ts',
  'line-process.ts',
  'reload.ts',
  'signals.ts',
  'local-commands.ts',
  'hub-process.ts',
  'hub-broker.ts',
  'hub-child.ts',
  'hub-consumers.ts',
  'hub-migrations.ts',
  'hub-orphan.ts',
  'hub-states.ts',
  'hub-upstream.ts',
];
/** What each of the two processes is made of; the other one's process has none of it. */
const lineRooms = ['line-process.ts', 'line', 'log', 'api/grpc'];
const hubRooms = [
  'hub-process.ts',
  'hub-broker.ts',
  'hub-consumers.ts',
  'hub-migrations.ts',
  'hub-upstream.ts',
  'refdata',
  'webhooks',
  'outbox',
  'kafka',
  'api/http',
  'device-facts',
  'line-client',
  'upstream',
  'watch',
];

const arrows: Readonly<Record<string, { may: readonly string[]; because: string }>> = {
  'main.ts': {
    may: ['serve.ts', 'local-commands.ts', 'cli'],
    because: 'main only turns argv into a subcommand and an exit status',
  },
  'serve.ts': {
    may: [
      'line-process.ts',
      'hub-process.ts',
      'hub-child.ts',
      'hub-orphan.ts',
      'reload.ts',
      'signals.ts',
      'config',
      'host',
    ],
    because: 'serve runs processes and loads their configuration',
  },
  'reload.ts': { may: ['config'], because: 'it compares configurations, and is told how one is taken' },
  'signals.ts': { may: [], because: 'signals are the same for both processes' },
  'local-commands.ts': {
    may: ['appliance', 'collector', 'config', 'cli', 'hub-migrations.ts', 'log', 'outbox', 'doctor'],
    because:
      'commands that need no daemon work on the configuration, and on the box; a restore is told of the databases',
  },
  appliance: {
    may: ['config', 'storage', 'cli'],
    because:
      "what root does to the box works on files while the service may be down: it knows no room of the service's",
  },
  doctor: {
    may: ['appliance', 'cli', 'config', 'gen', 'host', 'kafka', 'line', 'line-client', 'storage', 'upstream'],
    because:
      'the doctor looks at what the service uses by the eyes of its own rooms, and at the service from outside as any client does',
  },
  'line-process.ts': {
    may: ['line', 'log', 'api/grpc', 'config', 'host'],
    because: 'the composition root of the line knows the rooms of the line, and no room of the hub or the CLI',
  },
  'hub-process.ts': {
    may: [...hubRooms.filter((room) => room !== 'kafka'), 'storage', 'config', 'host'],
    because: 'the composition root of the hub knows the rooms of the hub, and no room of the line or the CLI',
  },
  'hub-broker.ts': {
    may: ['config', 'kafka', 'outbox'],
    because: 'it turns the configuration into a broker, and the outbox gets it by its interface',
  },
  'hub-upstream.ts': {
    may: ['config', 'hub-broker.ts', 'kafka', 'line-client', 'outbox', 'upstream'],
    because:
      'it puts the way of the serial log together: the line it reads, the way it takes, and the events that go first',
  },
  'hub-child.ts': {
    may: ['hub-orphan.ts', 'hub-states.ts'],
    because: 'who starts the hub knows it as a process, and nothing of its inside: it runs in the line process',
  },
  'hub-migrations.ts': {
    may: ['outbox', 'refdata', 'storage', 'webhooks'],
    because: 'it only puts the tables of the rooms together',
  },
  'hub-orphan.ts': { may: [], because: 'it is told by serve what a hub is started with, and finds one by its lock' },
  'hub-states.ts': { may: [], because: 'a table of states needs nothing' },
  'api/grpc': {
    may: ['line', 'log', 'proto', 'gen', 'config'],
    because: 'the API serves the line and the log; it opens no database and no device itself',
  },
  line: { may: ['log'], because: 'the line knows of the log only how to append to it, and never waits for it' },
  log: { may: ['storage'], because: 'the log is above storage and knows neither the line nor who reads it' },
  'api/http': {
    may: ['refdata', 'outbox', 'upstream', 'watch', 'webhooks', 'host', 'line-client', 'proto', 'gen', 'config'],
    because:
      'the HTTP interface serves the reference data, the outbox and webhooks by their faces, and the line as any gRPC client has it; it runs no SQL',
  },
  refdata: {
    may: ['outbox', 'storage'],
    because: 'a change and its outbox rows are one transaction; who sends them, and who asks, is not its affair',
  },
  outbox: {
    may: ['storage', 'kafka'],
    because: 'the outbox knows rows, not records: it would publish those of any other room alike',
  },
  webhooks: {
    may: ['outbox', 'storage'],
    because: 'webhooks are a second reader of the outbox: they know rows, not records, and not who asks',
  },
  'hub-consumers.ts': {
    may: ['config', 'outbox', 'api/http'],
    because: 'it turns the tokens into the scopes that are open to each consumer',
  },
  kafka: { may: [], because: 'the broker takes messages and knows nothing of what they mean' },
  'line-client': {
    may: ['proto', 'gen'],
    because: 'the hub is a client of the line like any other: it knows the protocol, and nothing behind it',
  },
  'device-facts': {
    may: ['refdata', 'outbox', 'line-client', 'proto', 'gen'],
    because: "the device's facts come from the line as any gRPC client has them, and go where any change goes",
  },
  upstream: {
    may: ['kafka', 'config', 'line-client', 'proto', 'gen'],
    because: 'it reads the log as any gRPC client does and sends it on: a way there is a broker or a collector',
  },
  watch: {
    may: ['line-client', 'proto', 'gen'],
    because: 'it asks the line as any gRPC client does, and is handed the alerts of the rooms it looks at',
  },
  storage: { may: [], because: 'storage opens SQLite files and knows nothing about their contents' },
  host: {
    may: ['config'],
    because:
      'the ties to the machine (systemd, its clock, its sensors) are the same for both processes, and know neither',
  },
  config: { may: [], because: 'configuration is read by everyone and reads no one' },
  collector: {
    may: ['config', 'proto', 'gen', 'cli'],
    because: 'the collector runs on another machine: it knows what boxes send, and nothing of the box',
  },
  cli: { may: ['proto', 'gen'], because: 'the CLI is a client of gRPC and HTTP, with nothing of the daemon inside' },
  'console/page': {
    may: ['console'],
    because: 'the page runs in a browser: it knows the HTTP interface, and nothing of the service behind it',
  },
  console: {
    may: [],
    because: "what the page decides without a browser's help is pure, and knows the interface's answers",
  },
  proto: { may: ['gen'], because: 'the protocol room only types what is generated' },
  gen: { may: [], because: 'generated code stands alone' },
  base: { may: [], because: 'base imports nothing' },
};

/** The faces of rooms that are open to one room only in part. */
const faces: Readonly<Record<string, readonly string[]>> = {
  'appliance -> cli': ['cli/cli.ts'],
  'collector -> cli': [
    'cli/cli.ts',
    'cli/entries.ts',
    'cli/failure.ts',
    'cli/hex.ts',
    'cli/io.ts',
    'cli/json.ts',
    'cli/numbers.ts',
    'cli/output.ts',
  ],
  'local-commands.ts -> collector': ['collector/commands.ts'],
  'local-commands.ts -> log': ['log/new-identity.ts', 'log/schema.ts'],
  'local-commands.ts -> outbox': ['outbox/new-identity.ts'],
  'doctor -> appliance': ['appliance/slots.ts', 'appliance/tar.ts', 'appliance/tar-file.ts'],
  'doctor -> cli': ['cli/cli.ts', 'cli/failure.ts'],
  'doctor -> kafka': ['kafka/broker.ts', 'kafka/face.ts'],
  'doctor -> line': ['line/inventory.ts', 'line/ports.ts'],
  'doctor -> storage': ['storage/open.ts'],
  'doctor -> upstream': ['upstream/collector-channel.ts'],
  'line -> log': ['log/face.ts', 'log/entry.ts'],
  'outbox -> kafka': ['kafka/face.ts'],
  'device-facts -> refdata': ['refdata/face.ts'],
  'device-facts -> outbox': ['outbox/event.ts'],
  'api/http -> refdata': ['refdata/face.ts'],
  'api/http -> outbox': ['outbox/face.ts', 'outbox/event.ts'],
  'api/http -> webhooks': ['webhooks/face.ts'],
  'api/http -> host': ['host/host-facts.ts'],
  'api/http -> upstream': ['upstream/face.ts'],
  'api/http -> watch': ['watch/face.ts'],
  'hub-process.ts -> webhooks': ['webhooks/webhooks.ts'],
  'hub-process.ts -> device-facts': ['device-facts/device-facts.ts'],
  'hub-process.ts -> api/http': ['api/http/server.ts'],
  'hub-process.ts -> watch': ['watch/certificates.ts', 'watch/watch.ts'],
  'hub-broker.ts -> kafka': ['kafka/broker.ts', 'kafka/face.ts'],
  'hub-broker.ts -> outbox': ['outbox/event.ts'],
  'hub-upstream.ts -> kafka': ['kafka/face.ts'],
  'hub-upstream.ts -> outbox': ['outbox/publisher.ts'],
  'upstream -> config': ['config/listen.ts'],
  'upstream -> kafka': ['kafka/face.ts'],
};

/** No I/O, clock, timer, randomness or process in these: they take time and chance as values. They say so: "Pure." */
const pure = [
  'appliance/device-pin.ts',
  'appliance/progress.ts',
  'appliance/release.ts',
  'appliance/slots.ts',
  'appliance/tar.ts',
  'line/state.ts',
  'line/chunks.ts',
  'line/send-queue.ts',
  'line/validate.ts',
  'line/settings.ts',
  'line/device/termios.ts',
  'log/uint64.ts',
  'log/filter.ts',
  'log/ranges.ts',
  'log/fifo.ts',
  'log/damage.ts',
  'host/host-facts.ts',
  'host/host-rules.ts',
  'host/sensor-values.ts',
  'log/segments.ts',
  'api/grpc/clock-note.ts',
  'log/store-failure.ts',
  'config/parse.ts',
  'config/keys.ts',
  'config/key.ts',
  'config/values.ts',
  'config/assemble.ts',
  'config/cross-checks.ts',
  'config/exposure.ts',
  'config/reload.ts',
  'console/access.ts',
  'console/bytes.ts',
  'console/escapes.ts',
  'console/format.ts',
  'console/log-feed.ts',
  'console/older.ts',
  'console/places.ts',
  'console/plot-data.ts',
  'console/problem.ts',
  'console/record-body.ts',
  'console/rows.ts',
  'console/search.ts',
  'console/shapes.ts',
  'console/stream.ts',
  'console/window.ts',
  'cli/pcapng.ts',
  'collector/judge.ts',
  'collector/limits.ts',
  'collector/parts.ts',
  'cli/boxes.ts',
  'cli/fingerprint.ts',
  'appliance/avahi.ts',
  'base/backoff.ts',
  'host/status-text.ts',
  'base/errors.ts',
  'base/instant.ts',
  'base/exact-json.ts',
  'base/same-json.ts',
  'hub-states.ts',
  'refdata/access.ts',
  'refdata/bundle-split.ts',
  'refdata/draft-state.ts',
  'refdata/record-data.ts',
  'refdata/schema-rules.ts',
  'refdata/validity.ts',
  'outbox/alerts.ts',
  'outbox/backlog.ts',
  'outbox/envelope.ts',
  'outbox/event.ts',
  'outbox/held-rows.ts',
  'outbox/in-hand.ts',
  'outbox/lane.ts',
  'outbox/lanes.ts',
  'outbox/read-ahead.ts',
  'outbox/reading.ts',
  'outbox/storage-errors.ts',
  'outbox/topics.ts',
  'kafka/settings.ts',
  'kafka/topic-wish.ts',
  'kafka/verdict.ts',
  'api/http/access.ts',
  'webhooks/alerts.ts',
  'webhooks/body.ts',
  'webhooks/dispatch-hand.ts',
  'webhooks/dispatch-looks.ts',
  'webhooks/egress-address.ts',
  'webhooks/egress-place.ts',
  'webhooks/egress-url.ts',
  'webhooks/ending.ts',
  'webhooks/failure.ts',
  'webhooks/filter.ts',
  'webhooks/planning.ts',
  'webhooks/policy.ts',
  'webhooks/review-shown.ts',
  'webhooks/subscription-refusals.ts',
  'webhooks/subscription.ts',
  'webhooks/turns.ts',
  'config/cidr.ts',
  'config/credential.ts',
  'config/listen.ts',
  'host/socket-address.ts',
  'base/alerts.ts',
  'base/rise.ts',
  'upstream/alerts.ts',
  'upstream/budget.ts',
  'upstream/corrections.ts',
  'upstream/lag.ts',
  'upstream/next-step.ts',
  'upstream/pace.ts',
  'upstream/packer.ts',
  'upstream/places.ts',
  'upstream/unset-ranges.ts',
  'watch/certificate-rules.ts',
  'watch/face.ts',
  'watch/line-figures.ts',
  'watch/line-rules.ts',
  'api/http/headers.ts',
  'api/http/line-bytes.ts',
  'api/http/line-json.ts',
  'api/http/problem.ts',
  'api/http/query.ts',
  'api/http/shapes.ts',
  'device-facts/mapping.ts',
  'doctor/check.ts',
  'doctor/redactor.ts',
  'device-facts/changes.ts',
  'appliance/address.ts',
  'appliance/network-files.ts',
  'appliance/setup-example.ts',
  'appliance/setup-file.ts',
  'appliance/setup-keys.ts',
  'appliance/setup-texts.ts',
  'appliance/ssh-key.ts',
  'appliance/taking.ts',
  'appliance/token-wishes.ts',
  'appliance/toml-places.ts',
];
/** Date as a calendar (new Date(ms), Date.parse) is a function of its argument; as a clock it is not. */
const impure =
  /from 'node:(?!util)|\bDate\.now\b|\bnew Date\(\)|\bset(Timeout|Interval|Immediate)\b|Math\.random|\bprocess\.|\bperformance\./;

const files = sources();
const imports = new Map(files.map((file) => [file, importsOf(file)]));

describe('the house', () => {
  it('is seen whole', () => {
    const found = globSync('**/*.{ts,tsx}', { cwd: src }).filter((f) => !f.startsWith('gen/') && isProduct(f));
    assert.equal(files.length, found.length);
    for (const room of rooms.filter((r) => r !== 'gen')) {
      assert.ok(
        files.some((file) => roomOf(file) === room),
        `no file was seen in ${room}: is the test looking in the right place?`,
      );
    }
    assert.ok([...imports.values()].flat().length > files.length, 'hardly any import was seen: is the pattern right?');
  });

  it('has only the arrows of the plan', () => {
    const forbidden: string[] = [];
    for (const [from, targets] of imports) for (const to of targets) forbidden.push(...judged(from, to));
    assert.deepEqual(forbidden, []);
  });

  it('has no cycles', () => {
    assert.deepEqual(cycles(), []);
  });

  it('keeps the two processes apart', () => {
    const crossing = files.flatMap((file) => {
      const others = lineRooms.includes(roomOf(file)) ? hubRooms : hubRooms.includes(roomOf(file)) ? lineRooms : [];
      return reachedFrom(file).flatMap((to) => (others.includes(roomOf(to)) ? [`${file} reaches ${to}`] : []));
    });
    assert.deepEqual(crossing, []);
    assert.ok(reachedFrom('hub-process.ts').includes('outbox/schema.ts'), 'nothing is reached: is the walk right?');
  });

  it('keeps its pure files pure', () => {
    const claim = /^\/\*\*(?:(?!\*\/)[\s\S])*\bPure\.(?:(?!\*\/)[\s\S])*\*\//;
    const claimed = files.filter((file) => claim.test(readFileSync(join(src, file), 'utf8')));
    assert.ok(claimed.length > 30, 'hardly any file calls itself pure: is the pattern right?');
    for (const file of new Set([...pure, ...claimed])) {
      const code = readFileSync(join(src, file), 'utf8').replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '');
      const found = impure.exec(code);
      assert.equal(found?.[0], undefined, `${file} is to be pure, and has ${found?.[0]}`);
    }
  });
});

function judged(from: string, to: string): string[] {
  const [a, b] = [roomOf(from), roomOf(to)];
  if (a === b || (b === 'base' && a !== 'gen')) return [];
  const rule = arrows[a];
  if (rule === undefined) return [`${from} is in no room of the plan`];
  if (!rule.may.includes(b)) return [`${from} -> ${to}: ${rule.because}`];
  const face = faces[`${a} -> ${b}`];
  return face === undefined || face.includes(to)
    ? []
    : [`${from} -> ${to}: only ${face.join(' and ')} are ${b}'s face to ${a}`];
}

/** Every file that comes along with one, over any number of imports. */
function reachedFrom(file: string): string[] {
  const found = new Set<string>();
  const visit = (from: string): void => {
    for (const to of imports.get(from) ?? []) {
      if (found.has(to)) continue;
      found.add(to);
      visit(to);
    }
  };
  visit(file);
  return [...found];
}

function cycles(): string[] {
  const done = new Set<string>();
  const found: string[] = [];
  const visit = (file: string, path: readonly string[]): void => {
    if (path.includes(file)) {
      found.push([...path.slice(path.indexOf(file)), file].join(' -> '));
      return;
    }
    if (done.has(file)) return;
    for (const next of imports.get(file) ?? []) visit(next, [...path, file]);
    done.add(file);
  };
  for (const file of files) visit(file, []);
  return found;
}

function roomOf(file: string): string {
  if (roots.includes(file)) return file;
  return rooms.find((room) => file.startsWith(`${room}/`)) ?? '';
}

function sources(): string[] {
  return readdirSync(src, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && isProduct(entry.name))
    .map((entry) => relative(src, join(entry.parentPath, entry.name)))
    .filter((file) => !file.startsWith('gen/'))
    .sort();
}

function importsOf(file: string): string[] {
  const code = readFileSync(join(src, file), 'utf8');
  const specifiers = [...code.matchAll(/(?:from|import)\s*\(?\s*'(\.{1,2}\/[^']+)'/g)].map((m) => m[1] ?? '');
  return specifiers.map((specifier) => normalize(join(dirname(file), specifier)));
}

/** Tests and what only they use (*.fixture.ts) stand beside the sources and are not part of the house. */
function isProduct(name: string): boolean {
  return /\.tsx?$/.test(name) && !name.endsWith('.test.ts') && !name.endsWith('.fixture.ts');
}
