import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { addLocalCommands } from '../local-commands.ts';
import { commandTree } from './cli.ts';
import { pathOf, withSubcommands } from './command-tree.ts';
import { type Outcome, run } from './drive.fixture.ts';
import { processIo } from './io.ts';

const version = '1.2.3';
const lineside = (...argv: string[]): Promise<Outcome> => run(argv, { version, local: addLocalCommands });
const parts = { version, localSocket: () => '' };
const paths = withSubcommands(commandTree(processIo(), { ...parts, local: addLocalCommands })).map(pathOf);

describe('help', () => {
  it('prints the help of each command and subcommand, by `help`, -h and --help alike', async () => {
    assert.ok(paths.includes('log export') && paths.includes('outbox dead-letters list'));
    for (const path of paths) {
      const words = path === '' ? [] : path.split(' ');
      const [help, short, long] = await Promise.all([
        lineside('help', ...words),
        lineside(...words, '-h'),
        lineside(...words, '--help'),
      ]);
      assert.deepEqual([help.status, help.stderr], [0, ''], path);
      assert.ok(help.stdout.startsWith(`Usage: lineside ${path}`), help.stdout);
      assert.deepEqual([short, long], [help, help], path);
    }
  });

  it('is printed when no command is given: the commands under their headings', async () => {
    const all = await lineside('--help');
    assert.deepEqual(await lineside(), all);
    const headings = /\nThe line:\n {2}devices (.*\n)*\nReference data:\n {2}dict .*(\n.*)*\nDelivery:\n {2}outbox /;
    assert.match(all.stdout, headings);
    assert.match((await lineside('help', 'exit-status')).stdout, /^ {2}6 {2}No port is open/m);
  });

  it('of a command of the service has examples and the connection of its process', async () => {
    const hubs = new Set(['dict', 'record', 'import', 'outbox', 'webhook', 'alerts', 'audit', 'box']);
    const others = new Set(['discover', 'profile', 'fleet', 'help', 'version', 'completion', 'exit-status']);
    const tree = withSubcommands(commandTree(processIo(), parts)).slice(1);
    for (const command of tree) {
      const path = pathOf(command);
      const [first = ''] = path.split(' ');
      if (others.has(first)) continue;
      const { stdout } = await lineside(...path.split(' '), '--help');
      const variable = hubs.has(first) ? 'LINESIDE_HTTP_SOCKET' : 'LINESIDE_SOCKET';
      if (command.options.length > 0) assert.ok(stdout.includes(`Unix socket of the service (${variable})`), path);
      if (path === first) assert.match(stdout, /\nExample/, path);
    }
  });

  const refusals: readonly (readonly [words: string, error: string])[] = [
    ['nosuch', "unknown command 'nosuch'. See: lineside --help."],
    ['lgo', "unknown command 'lgo' (Did you mean log?). See: lineside --help."],
    ['log exprot', "unknown command 'exprot' (Did you mean export?). See: lineside log --help."],
    [
      'outbox dead-letters lst',
      "unknown command 'lst' (Did you mean list?). See: lineside outbox dead-letters --help.",
    ],
    ['open /dev/ttyUSB0', 'open has no subcommands. See: lineside open --help.'],
  ];
  for (const [words, error] of refusals) {
    it(`refuses ${words} and names the nearest command`, async () => {
      const { status, stdout, stderr } = await lineside('help', ...words.split(' '));
      assert.deepEqual([status, stdout, stderr], [2, '', `lineside: bad command line: ${error}\n`]);
    });
  }
});

describe('the error of a command line', () => {
  const rows: readonly (readonly [line: string, help: string, says?: string])[] = [
    ['log export --format csv', 'lineside log export --help'],
    ['log --dir rx export --bogus', 'lineside log export --help'],
    ['log --dir rx --bogus', 'lineside log --help'],
    ['outbox dead-letters show', 'lineside outbox dead-letters show --help'],
    ['token revoke', 'lineside token revoke --help'],
    ['opne log', 'lineside --help', "unknown command 'opne' (Did you mean open?)"],
    ['open a b c', 'lineside open --help'],
  ];
  for (const [line, help, says = ''] of rows) {
    it(`of ${line} refers to ${help}`, async () => {
      const { status, stderr } = await lineside(...line.split(' '));
      assert.equal(status, 2);
      assert.ok(stderr.endsWith(`${says}. See: ${help}.\n`), stderr);
    });
  }
});

describe('version', () => {
  it('is printed by the command and by both options', async () => {
    for (const word of ['version', '-V', '--version']) {
      const { status, stdout } = await lineside(word);
      assert.deepEqual([status, stdout], [0, '1.2.3\n'], word);
    }
    assert.equal((await lineside('version', '--json')).stdout, '{"version":"1.2.3"}\n');
  });
});
