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
const rooms = ['api/grpc', 'base', 'cli', 'config', 'gen', 'line', 'log', 'proto', 'storage'];
/** Files that stand in src itself. */
const roots = ['main.ts', 'serve.ts', 'line-process.ts', 'local-commands.ts'];

const arrows: Readonly<Record<string, { may: readonly string[]; because: string }>> = {
  'main.ts': {
    may: ['serve.ts', 'local-commands.ts', 'cli'],
    because: 'main only turns argv into a subcommand and an exit status',
  },
  'serve.ts': { may: ['line-process.ts', 'config'], because: 'serve runs processes and loads their configuration' },
  'local-commands.ts': {
    may: ['config', 'cli'],
    because: 'commands that need no daemon work on the configuration alone',
  },
  'line-process.ts': {
    may: ['line', 'log', 'api/grpc', 'config'],
    because: 'the composition root of the line knows the rooms of the line, and no room of the hub or the CLI',
  },
  'api/grpc': {
    may: ['line', 'log', 'proto', 'gen', 'config'],
    because: 'the API serves the line and the log; it opens no database and no device itself',
  },
  line: { may: ['log'], because: 'the line knows of the log only how to append to it, and never waits for it' },
  log: { may: ['storage'], because: 'the log is above storage and knows neither the line nor who reads it' },
  storage: { may: [], because: 'storage opens SQLite files and knows nothing about their contents' },
  config: { may: [], because: 'configuration is read by everyone and reads no one' },
  cli: { may: ['proto', 'gen'], because: 'the CLI is a client of gRPC, with nothing of the daemon inside' },
  proto: { may: ['gen'], because: 'the protocol room only types what is generated' },
  gen: { may: [], because: 'generated code stands alone' },
  base: { may: [], because: 'base imports nothing' },
};

/** The faces of rooms that are open to one room only in part. */
const faces: Readonly<Record<string, readonly string[]>> = {
  'line -> log': ['log/face.ts', 'log/entry.ts'],
};

/** No I/O, clock, timer, randomness or process in these: they take time and chance as values. */
const pure = [
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
  'log/store-failure.ts',
  'config/parse.ts',
  'config/keys.ts',
  'cli/pcapng.ts',
  'base/backoff.ts',
  'base/errors.ts',
];
const impure =
  /from 'node:(?!util')|\bDate\b|\bset(Timeout|Interval|Immediate)\b|Math\.random|\bprocess\b|\bperformance\b/;

const files = sources();
const imports = new Map(files.map((file) => [file, importsOf(file)]));

describe('the house', () => {
  it('is seen whole', () => {
    const found = globSync('**/*.ts', { cwd: src }).filter((f) => !f.startsWith('gen/') && isProduct(f));
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

  it('keeps its pure files pure', () => {
    for (const file of pure) {
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
  return name.endsWith('.ts') && !name.endsWith('.test.ts') && !name.endsWith('.fixture.ts');
}
