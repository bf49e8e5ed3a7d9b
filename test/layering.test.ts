/**
 * The house and its arrows: which room may import which, no cycles, and the files that must stay pure. Reads the
 * sources as text, type-only and dynamic imports included; a forbidden arrow fails with the reason it is forbidden.
 */
import assert from 'node:assert/strict';
import { globSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative, resolve } from 'node:path';
import { describe, it } from 'node:test';

const src = resolve(import.meta.dirname, '../src');

/** What each of the two processes is made of; the other one's process has none of it. */
const lineRooms = ['line/line-process.ts', 'line/port', 'line/log', 'line/grpc'];
const hubRooms = [
  'hub/hub-process.ts',
  'hub/brokers.ts',
  'hub/consumers.ts',
  'hub/migrations.ts',
  'hub/log-shipping.ts',
  'hub/refdata',
  'hub/webhooks',
  'hub/outbox',
  'hub/kafka',
  'hub/http',
  'hub/device-facts',
  'shared/line-client',
  'hub/upstream',
  'hub/health',
  'hub/history',
];

const arrows: Readonly<Record<string, { may: readonly string[]; because: string }>> = {
  'main.ts': {
    may: ['serve/serve.ts', 'appliance', 'local-commands.ts', 'cli'],
    because: 'main only turns argv into a subcommand and an exit status',
  },
  'serve/serve.ts': {
    may: [
      'line/line-process.ts',
      'hub/hub-process.ts',
      'serve/hub-child.ts',
      'serve/reload.ts',
      'shared/config',
      'shared/host',
    ],
    because: 'serve runs processes and loads their configuration',
  },
  'serve/reload.ts': {
    may: ['shared/config'],
    because: 'it compares configurations, and its caller gives it the way to apply one',
  },
  'local-commands.ts': {
    may: [
      'admin',
      'appliance',
      'collector',
      'shared/auth',
      'shared/config',
      'cli',
      'hub/migrations.ts',
      'line/log',
      'hub/outbox',
      'doctor',
    ],
    because:
      'commands that need no daemon work on the configuration, and on the box; a restore gets the databases from its caller',
  },
  admin: {
    may: ['shared/auth', 'shared/config', 'shared/host'],
    because:
      "the administration helper runs lineside's own commands: it checks who asks, and knows nothing of what they do",
  },
  appliance: {
    may: ['shared/auth', 'shared/config', 'shared/storage', 'cli'],
    because:
      "what root does to the box works on files while the service may be down: it knows no room of the service's",
  },
  doctor: {
    may: [
      'appliance',
      'cli',
      'shared/auth',
      'shared/config',
      'shared/gen',
      'shared/host',
      'hub/kafka',
      'line/port',
      'shared/line-client',
      'shared/storage',
      'hub/upstream',
    ],
    because:
      'the doctor checks the dependencies of the service with its own rooms, and the service from outside as any client does',
  },
  'line/line-process.ts': {
    may: ['line/port', 'line/log', 'line/grpc', 'shared/config', 'shared/host'],
    because: 'the composition root of the line knows the rooms of the line, and no room of the hub or the CLI',
  },
  'hub/hub-process.ts': {
    may: [
      ...hubRooms.filter((room) => room !== 'hub/kafka'),
      'hub/bring-up.ts',
      'shared/storage',
      'shared/auth',
      'shared/config',
      'shared/host',
    ],
    because: 'the composition root of the hub knows the rooms of the hub, and no room of the line or the CLI',
  },
  'hub/brokers.ts': {
    may: ['shared/config', 'hub/kafka', 'hub/outbox'],
    because: 'it turns the configuration into a broker, and the outbox gets it by its interface',
  },
  'hub/log-shipping.ts': {
    may: ['shared/config', 'hub/brokers.ts', 'hub/kafka', 'shared/line-client', 'hub/outbox', 'hub/upstream'],
    because:
      'it puts the way of the serial log together: the line it reads, the way it takes, and the events that go first',
  },
  'serve/hub-child.ts': {
    may: [],
    because: 'who starts the hub knows it as a process, and nothing of its inside: it runs in the line process',
  },
  'hub/migrations.ts': {
    may: ['shared/storage', 'hub/contents-migration.ts', 'hub/records-migration.ts'],
    because: 'it is the tables, and no code',
  },
  'hub/contents-migration.ts': {
    may: ['shared/storage', 'hub/webhooks'],
    because: 'it moves rows from the tables of one version to those of the next, as webhooks store them',
  },
  'hub/records-migration.ts': {
    may: ['shared/storage'],
    because: 'it moves rows of the tables, and knows nothing of who uses them',
  },
  'hub/bring-up.ts': {
    may: ['shared/storage', 'shared/host', 'hub/outbox', 'hub/http'],
    because: 'it decides whether refdata.db is migrated now, and what the hub answers until then',
  },
  'line/grpc': {
    may: ['line/port', 'line/log', 'shared/proto', 'shared/gen', 'shared/auth', 'shared/config'],
    because: 'the API serves the line and the log; it opens no database and no device itself',
  },
  'line/port': {
    may: ['line/log', 'shared/proto'],
    because:
      'the line knows of the log only how to append to it, and never waits for it; its counters are those of the proto',
  },
  'line/log': {
    may: ['shared/storage', 'shared/proto'],
    because: 'the log is above storage and knows neither the line nor its readers; its status is that of the proto',
  },
  'hub/http': {
    may: [
      'admin',
      'hub/refdata',
      'hub/outbox',
      'hub/upstream',
      'hub/health',
      'hub/history',
      'hub/webhooks',
      'shared/host',
      'shared/line-client',
      'shared/proto',
      'shared/gen',
      'shared/auth',
      'shared/config',
    ],
    because:
      'the HTTP interface serves the reference data, the outbox and webhooks by their faces, and the line as any gRPC client has it; it runs no SQL',
  },
  'hub/refdata': {
    may: ['hub/outbox', 'shared/storage', 'shared/gen'],
    because: 'a change and its outbox rows are one transaction; who sends them, and who asks, is not its affair',
  },
  'hub/outbox': {
    may: ['shared/storage', 'hub/kafka', 'shared/gen'],
    because: 'the outbox knows rows, not records: it would publish those of any other room alike',
  },
  'hub/webhooks': {
    may: ['hub/outbox', 'shared/storage', 'shared/gen'],
    because: 'webhooks are a second reader of the outbox: they know rows, not records, and not who asks',
  },
  'hub/consumers.ts': {
    may: ['shared/auth', 'shared/config', 'hub/outbox'],
    because: 'it turns the tokens into the scopes that are open to each consumer',
  },
  'hub/kafka': { may: [], because: 'the broker takes messages and knows nothing of what they mean' },
  'shared/line-client': {
    may: ['shared/proto', 'shared/gen'],
    because: 'the hub is a client of the line like any other: it knows the protocol, and nothing behind it',
  },
  'hub/device-facts': {
    may: ['hub/refdata', 'hub/outbox', 'shared/line-client', 'shared/proto', 'shared/gen'],
    because: "the device's facts come from the line as any gRPC client has them, and go where any change goes",
  },
  'hub/upstream': {
    may: ['hub/kafka', 'shared/config', 'shared/line-client', 'shared/proto', 'shared/gen'],
    because: 'it reads the log as any gRPC client does and sends it on: a way there is a broker or a collector',
  },
  'hub/health': {
    may: ['shared/line-client', 'shared/proto', 'shared/gen'],
    because: 'it asks the line as any gRPC client does, and gets the alerts of the rooms that it checks',
  },
  'hub/history': {
    may: ['shared/storage', 'shared/host', 'shared/proto'],
    because:
      'it keeps what the line and the machine report, in a file of its own, and knows neither who asks nor the changes',
  },
  'shared/storage': { may: [], because: 'storage opens SQLite files and knows nothing about their contents' },
  'shared/host': {
    may: ['shared/config', 'shared/gen'],
    because:
      'the ties to the machine (systemd, its clock, its sensors) are the same for both processes, and know neither',
  },
  'shared/config': {
    may: ['shared/auth'],
    because: 'configuration is read by everyone, and asks for nothing but the tokens that open it to the network',
  },
  'shared/auth': {
    may: [],
    because: 'tokens, roles and certificates are the same for both processes, the collector and the commands',
  },
  collector: {
    may: ['shared/auth', 'shared/config', 'shared/log-formats', 'shared/proto', 'shared/gen', 'cli'],
    because: 'the collector runs on another machine: it knows what boxes send, and nothing of the box',
  },
  cli: {
    may: ['shared/log-formats', 'shared/proto', 'shared/gen'],
    because: 'the CLI is a client of gRPC and HTTP, with nothing of the daemon inside',
  },
  'console/page': {
    may: ['console', 'shared/gen', 'shared/log-formats'],
    because: 'the page runs in a browser: it knows the HTTP interface, and nothing of the service behind it',
  },
  console: {
    may: ['shared/gen', 'shared/log-formats'],
    because:
      "what the page decides without a browser's help is pure, and knows the interface's answers by their generated types",
  },
  'shared/log-formats': {
    may: [],
    because:
      'the files that the log is exported to are the same for the command line and the console, and need neither',
  },
  'shared/proto': { may: ['shared/gen'], because: 'it types what is generated, and shows its messages as JSON' },
  'shared/gen': { may: [], because: 'generated code stands alone' },
  'shared/base': { may: [], because: 'base imports nothing' },
};

/** A room is a folder, or a file at the root of one. The longest name that begins a file's path is its room. */
const rooms = Object.keys(arrows).sort((one, other) => other.length - one.length);

/** The faces of rooms that are open to one room only in part. */
const faces: Readonly<Record<string, readonly string[]>> = {
  'appliance -> cli': [
    'cli/cli.ts',
    'cli/failure.ts',
    'cli/input.ts',
    'cli/output/box-reports.ts',
    'cli/output/json.ts',
  ],
  'collector -> cli': [
    'cli/cli.ts',
    'cli/output/entries.ts',
    'cli/failure.ts',
    'cli/output/hex.ts',
    'cli/io.ts',
    'cli/output/json.ts',
    'cli/output/numbers.ts',
    'cli/output/output.ts',
  ],
  'main.ts -> appliance': ['appliance/setup/setup-apply.ts'],
  'local-commands.ts -> collector': ['collector/commands.ts'],
  'local-commands.ts -> line/log': ['line/log/store/tables.ts', 'line/log/store/schema.ts'],
  'local-commands.ts -> hub/outbox': ['hub/outbox/transaction.ts'],
  'doctor -> appliance': ['appliance/update/slots.ts', 'appliance/tar.ts', 'appliance/disk.ts'],
  'doctor -> cli': ['cli/cli.ts', 'cli/failure.ts', 'cli/io.ts', 'cli/output/box-reports.ts', 'cli/output/colour.ts'],
  'doctor -> hub/kafka': ['hub/kafka/broker.ts', 'hub/kafka/face.ts'],
  'doctor -> line/port': ['line/port/inventory.ts'],
  'doctor -> hub/upstream': ['hub/upstream/collector-channel.ts'],
  'line/port -> line/log': ['line/log/log-api.ts', 'line/log/entry.ts'],
  'hub/outbox -> hub/kafka': ['hub/kafka/face.ts'],
  'hub/device-facts -> hub/refdata': ['hub/refdata/face.ts', 'hub/refdata/refdata.ts'],
  'hub/device-facts -> hub/outbox': ['hub/outbox/event.ts'],
  // What the helper can do: the list, and not the helper.
  'hub/http -> admin': ['admin/verbs.ts'],
  'hub/http -> hub/refdata': ['hub/refdata/face.ts', 'hub/refdata/refdata.ts'],
  'hub/http -> hub/outbox': ['hub/outbox/admin.ts', 'hub/outbox/event.ts', 'hub/outbox/paging.ts'],
  'hub/http -> hub/webhooks': ['hub/webhooks/face.ts', 'hub/webhooks/webhooks.ts'],
  'hub/http -> shared/host': ['shared/host/host-facts.ts'],
  'hub/http -> hub/upstream': ['hub/upstream/status.ts'],
  'hub/http -> hub/history': ['hub/history/history.ts', 'hub/history/series.ts'],
  'hub/http -> hub/health': ['hub/health/alerts.ts', 'hub/health/watch.ts'],
  'hub/hub-process.ts -> hub/webhooks': ['hub/webhooks/webhooks.ts'],
  'hub/hub-process.ts -> hub/device-facts': ['hub/device-facts/device-facts.ts'],
  'hub/hub-process.ts -> hub/http': ['hub/http/server.ts'],
  'hub/hub-process.ts -> hub/health': ['hub/health/certificates.ts', 'hub/health/watch.ts'],
  'hub/brokers.ts -> hub/kafka': ['hub/kafka/broker.ts', 'hub/kafka/face.ts'],
  'hub/contents-migration.ts -> hub/webhooks': ['hub/webhooks/delivery/contents.ts'],
  'hub/bring-up.ts -> hub/outbox': ['hub/outbox/refdata-file.ts'],
  'hub/bring-up.ts -> hub/http': ['hub/http/server.ts'],
  'hub/brokers.ts -> hub/outbox': ['hub/outbox/event.ts'],
  'hub/log-shipping.ts -> hub/kafka': ['hub/kafka/face.ts'],
  'hub/log-shipping.ts -> hub/outbox': ['hub/outbox/publisher/publisher.ts'],
  'hub/upstream -> shared/config': ['shared/config/config.ts', 'shared/config/listen.ts'],
  'hub/upstream -> hub/kafka': ['hub/kafka/face.ts'],
  // The types of what HTTP answers, made of its schemas.
  'hub/refdata -> shared/gen': ['shared/gen/http.ts'],
  'hub/outbox -> shared/gen': ['shared/gen/http.ts'],
  'hub/webhooks -> shared/gen': ['shared/gen/http.ts'],
  'shared/host -> shared/gen': ['shared/gen/http.ts'],
};

/** Date as a calendar (new Date(ms), Date.parse) is a function of its argument; as a clock it is not. */
const impure =
  /from 'node:(?!util)|\bDate\.now\b|\bnew Date\(\)|\bset(Timeout|Interval|Immediate)\b|Math\.random|\bprocess\.|\bperformance\./;

const files = sources();
const imports = new Map(files.map((file) => [file, importsOf(file)]));

describe('the house', () => {
  it('is seen whole', () => {
    const found = globSync('**/*.{ts,tsx}', { cwd: src }).filter((f) => !f.startsWith('shared/gen/') && isProduct(f));
    assert.equal(files.length, found.length);
    for (const room of rooms.filter((r) => r !== 'shared/gen')) {
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
    assert.ok(
      reachedFrom('hub/hub-process.ts').includes('hub/outbox/transaction.ts'),
      'nothing is reached: is the walk right?',
    );
  });

  it('keeps the files pure that say so', () => {
    const claim = /^\/\*\*(?:(?!\*\/)[\s\S])*\bPure[.:](?:(?!\*\/)[\s\S])*\*\//;
    const claimed = files.filter((file) => claim.test(readFileSync(join(src, file), 'utf8')));
    assert.ok(claimed.length > 80, 'hardly any file calls itself pure: is the pattern right?');
    for (const file of claimed) {
      const code = readFileSync(join(src, file), 'utf8').replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '');
      const found = impure.exec(code);
      assert.equal(found?.[0], undefined, `${file} is to be pure, and has ${found?.[0]}`);
    }
  });
});

function judged(from: string, to: string): string[] {
  const [a, b] = [roomOf(from), roomOf(to)];
  if (a === b || (b === 'shared/base' && a !== 'shared/gen')) return [];
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
  return rooms.find((room) => file === room || file.startsWith(`${room}/`)) ?? '';
}

function sources(): string[] {
  return readdirSync(src, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && isProduct(entry.name))
    .map((entry) => relative(src, join(entry.parentPath, entry.name)))
    .filter((file) => !file.startsWith('shared/gen/'))
    .sort();
}

function importsOf(file: string): string[] {
  const code = readFileSync(join(src, file), 'utf8');
  const specifiers = [...code.matchAll(/(?:from|import)\s*\(?\s*'(\.{1,2}\/[^']+\.tsx?)'/g)].map((m) => m[1] ?? '');
  return specifiers.map((specifier) => normalize(join(dirname(file), specifier)));
}

/** Tests and what only they use (*.fixture.ts) stand beside the sources and are not part of the house. */
function isProduct(name: string): boolean {
  return /\.tsx?$/.test(name) && !name.endsWith('.test.ts') && !name.endsWith('.fixture.ts');
}
