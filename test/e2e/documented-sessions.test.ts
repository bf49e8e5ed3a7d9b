/**
 * The terminal sessions of the documentation, typed as they are printed. A block is run if it is a `console` block of one of the
 * pages below and if each of its commands is `$ lineside ...` or `$ scripts/lineside ...` without a name for the reader to
 * replace (DELIVERY, BOX) and without the id of a delivery of the page's own example.
 *
 * The commands of a page run in the order of the page, against a service on the simulated line. Each must succeed. If a block shows
 * output, each of its commands prints the shown words in the shown order; words with digits or slashes (times, ids, counts, paths)
 * vary; `...` stands for any output; a command without shown output prints nothing.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { commandLines } from '../reference/command-lines.ts';
import { ROOT, temporaryDirectory } from './daemon.ts';
import { type Both, startBoth } from './hub.ts';
import { runCli, startCli } from './run-cli.ts';
import { startReceiver } from './webhook-receiver.ts';
import { SECRET, urlOf, webhooksConfig } from './webhooks-support.ts';

const pages = [
  'README.md',
  'docs/tutorials/simulated-line.md',
  'docs/tutorials/first-webhook.md',
  'docs/how-to/integrator/reference-data.md',
  'docs/how-to/integrator/webhooks.md',
] as const;
/** As many as there are: a rule that finds fewer is wrong, or a page has lost a session. */
const LEAST_BLOCKS = 12;
/** Commands that are repeated until they print what the page shows. */
const READS = /^(?:status|log|outbox|webhook deliveries)\b/;

/** Files that the pages instruct the reader to create. */
const files: Readonly<Record<string, string>> = {
  'mes.secret': SECRET,
  'records.ndjson': '{"dictionary": "tools", "businessKey": "T-2", "data": {"name": "Hammer"}}\n',
};

interface Step {
  readonly line: string;
  readonly words: readonly string[];
  readonly shown: string;
}

type Block = readonly Step[];

const blocks = pages.map((page) => ({ page, found: blocksOf(readFileSync(join(ROOT, page), 'utf8')) }));

test('the pages show sessions to run', () => {
  const count = blocks.reduce((sum, { found }) => sum + found.length, 0);
  assert.ok(count >= LEAST_BLOCKS, `${count} blocks`);
});

describe('a session of the documentation', () => {
  for (const { page, found } of blocks) {
    test(`${page}: ${found.length} blocks`, async (t) => {
      const reader = await startReader();
      t.after(() => reader.service.stop());
      for (const block of found) await runBlock(reader, block);
    });
  }
});

/** What a reader has: the service, a receiver, a folder with files. */
interface Reader {
  readonly service: Both;
  readonly env: Readonly<Record<string, string>>;
  /** What stands on the page, and what it is here. */
  readonly here: ReadonlyMap<string, string>;
}

async function startReader(): Promise<Reader> {
  const receiver = await startReceiver(undefined, { secrets: [SECRET] });
  const dir = temporaryDirectory();
  const line = { port: join(dir, 'run', 'sim0'), baud_rate: 115_200 };
  const service = await startBoth({
    dir,
    config: { ...webhooksConfig([receiver]), serial: { simulate: true, at_start: 'open', line } },
  });
  const here = new Map(Object.keys(files).map((name) => [name, join(dir, name)]));
  for (const [name, path] of here) writeFileSync(path, files[name] ?? '', { mode: 0o600 });
  for (const url of ['https://mes.example/hook', 'https://127.0.0.1:9443/hook'])
    here.set(url, urlOf(receiver, '/hook'));
  const env = { LINESIDE_SOCKET: join(dir, 'run', 'grpc.sock'), LINESIDE_HTTP_SOCKET: service.socket };
  return { service, env, here };
}

async function runBlock({ env, here }: Reader, block: Block): Promise<void> {
  const showsOutput = block.some(({ shown }) => shown !== '');
  for (const { line, words, shown } of block) {
    const args = words.map((word) => here.get(word) ?? word);
    if (args.includes('--follow')) {
      const running = startCli(args, env);
      await until(`the output of ${line}`, () => running.stdout() !== '' && hasWords(running.stdout(), shown));
      await running.end();
      continue;
    }
    let out = '';
    const fits = async (): Promise<boolean> => {
      const { status, stdout, stderr } = await runCli(args, { env });
      assert.equal(status, 0, `${line}\n${stdout}${stderr}`);
      out = stdout + stderr;
      return hasWords(out, shown);
    };
    // The device and the receiver take a moment to answer. Other commands have side effects and run once.
    if (READS.test(words.join(' '))) await until(`the shown output of ${line}`, fits);
    else assert.ok(await fits(), `${line}\nshown:\n${shown}\nprinted:\n${out}`);
    if (showsOutput && shown === '') assert.equal(out, '', `${line} prints more than the page shows`);
  }
}

/** Whether the words that do not vary are there, in their order. */
function hasWords(out: string, shown: string): boolean {
  const printed = fixedWords(out);
  let from = 0;
  return fixedWords(shown).every((word) => {
    const at = printed.indexOf(word, from);
    from = at + 1;
    return at >= 0;
  });
}

function fixedWords(text: string): string[] {
  const fixed = text.split(/\s+/).filter((word) => !/[\d/]/.test(word));
  return fixed.map((word) => word.replaceAll(/[^a-z]/gi, '')).filter((word) => word.length > 1);
}

function blocksOf(markdown: string): Block[] {
  const found = [...markdown.matchAll(/^ *```console\n([\s\S]*?)^ *```$/gm)].map(([, text = '']) => text);
  return found.filter(canRun).map(stepsOf);
}

function canRun(block: string): boolean {
  const commands = block.split('\n').filter((line) => /^ *[$#] /.test(line));
  return commands.every(
    (line) =>
      /^ *\$ (?:scripts\/)?lineside /.test(line) &&
      !/\b\d+-[0-9a-f]{16}\b/.test(line) &&
      !/(?<![\w-])(?!PING|PUBLIC)[A-Z]{3,}(?![\w-])/.test(line.replace(/\s#.*/, '')),
  );
}

function stepsOf(block: string): Step[] {
  const [, ...parts] = block.split(/^ *\$ /m);
  return parts.map((part) => {
    const [, line = '', shown = ''] = /^((?:.*\\\n)*.*)\n([\s\S]*)$/.exec(part) ?? [];
    const [command] = commandLines(`\`\`\`console\n$ ${line}\n\`\`\``);
    assert.ok(command, `no command: ${line}`);
    return { line, words: command.words, shown: shown.trim() };
  });
}
