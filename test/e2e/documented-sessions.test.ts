/**
 * The terminal sessions of the documentation, typed into a shell as they are printed: every `console` block of README, CONTRIBUTING,
 * SECURITY and docs/, and the session of the recorded picture, but those that `elsewhere` names with the reason.
 *
 * The reader's folder looks like a checkout, and the service runs there on the simulated line. A tutorial and a page with
 * `scripts/run` have a service of their own; other pages share one. `scripts/run` starts it with the variables before it;
 * first-minute.test.ts runs the script itself.
 * The commands of a page run in the order of the page, and each must succeed. If a block shows output, each of its commands
 * prints the shown words in the shown order; words with digits or slashes (times, ids, counts, paths) and truncated ones vary; `...` stands for any
 * output; a command without shown output prints nothing.
 */
import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import {
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Authority } from '../../src/shared/base/certificates.fixture.ts';
import { LIMIT_MS, until, within } from '../../src/shared/base/wait.fixture.ts';
import { freePort } from '../free-port.ts';
import { environment, killGroup, listening, ROOT, startProcess, temporaryDirectory, writeConfig } from './daemon.ts';
import { type Both, startBoth } from './hub.ts';
import { PYTHON } from './python.ts';
import { addToken, remember } from './run-cli.ts';
import { startReceiver } from './webhook-receiver.ts';
import { SECRET, urlOf, webhooksConfig } from './webhooks-support.ts';

const CARD = 'writes a real card';
const SYSTEM =
  'changes the units of the running system; test/appliance/package.test.ts installs the package in a container';
const OTHER_BOX = 'needs another box on the network';
const BROKER = 'needs a real broker; test/e2e/hub-kill.test.ts runs consumer.py';

/**
 * Blocks that are not run here: the end of the page's path,
 * the beginning of the first command, the reason and, if there is one, the test that runs it.
 */
const elsewhere: readonly (readonly [page: string, command: string, reason: string])[] = [
  ['README', 'scripts/bootstrap --image', SYSTEM],
  ['SECURITY', 'dpkg-query', 'asks for the installed package'],
  ['integrator/events', 'lineside outbox\n', 'doctor fails on a machine without units; test/e2e/doctor.test.ts'],
  ['integrator/events', 'lineside outbox dead-letters', 'needs a dead letter; src/hub/http/operations.test.ts'],
  ['integrator/log-upstream', 'systemctl', SYSTEM],
  ['integrator/log-upstream', 'journalctl', SYSTEM],
  ['integrator/webhooks', 'lineside webhook deliveries', 'a delivery of a day; test/e2e/webhooks-deliveries.test.ts'],
  ['operator/backup-and-restore', 'lineside backup', 'replaces the data; test/appliance/restore.test.ts'],
  ['operator/build-and-flash', 'scripts/bootstrap --image', 'takes 10 minutes; test/image/appliance.test.ts'],
  ['operator/build-and-flash', 'sudo dd', CARD],
  ['operator/change-configuration', 'systemctl', SYSTEM],
  ['operator/collector', 'lineside collector read', 'needs a box that pushes; test/e2e/collector.test.ts'],
  ['operator/doctor-and-support-bundle', 'sudo lineside doctor', 'fails without units; test/e2e/doctor.test.ts'],
  ['operator/install-package', 'scripts/bootstrap --image', 'takes minutes; test/package/recipe.test.ts'],
  ['operator/install-package', 'sudo apt', SYSTEM],
  ['operator/install-package', 'sudo lineside identity create', SYSTEM],
  ['operator/monitor-with-prometheus', 'lineside fleet targets', `${OTHER_BOX}; test/metrics/targets.test.ts`],
  ['operator/prepare-cards', 'lineside setup cards', 'needs a list; src/appliance/setup/cards.test.ts'],
  ['operator/prepare-cards', 'dd', CARD],
  ['operator/run-the-service', 'systemctl', SYSTEM],
  ['operator/administer-boxes', 'lineside profile add press-04', `${OTHER_BOX}; test/appliance/service.test.ts`],
  ['operator/administer-boxes', 'lineside profile add press-05', `${OTHER_BOX}; src/cli/fleet/fleet.test.ts`],
  ['operator/administer-boxes', 'ssh technician@press-04.local sudo lineside status', OTHER_BOX],
  ['operator/administer-boxes', 'ssh technician@press-04.local sudo lineside config', OTHER_BOX],
  ['operator/update', 'lineside update install', 'needs slots; test/image/appliance.test.ts'],
  ['operator/update', 'image/bundle', 'needs a built image; test/image/appliance.test.ts'],
  ['operator/update', 'journalctl', SYSTEM],
  ['technician/find-a-box', 'scripts/package client', 'takes seconds; test/e2e/laptop.test.ts'],
  ['technician/find-a-box', 'lineside discover', `${OTHER_BOX}; test/e2e/discover.test.ts`],
  ['technician/monitor', 'lineside monitor\n', 'needs a terminal; src/cli/line/monitor.test.ts'],
  ['reference/journal', 'journalctl', SYSTEM],
  ['tutorials/first-box', 'sudo dd', CARD],
  ['tutorials/first-box', 'lineside discover', `${OTHER_BOX}; test/e2e/discover.test.ts`],
  ['tutorials/grpc-client-python', 'python3 client/client.py lineside-1a2b3c', OTHER_BOX],
  ['tutorials/kafka-consumer-python', 'python3 docs/examples/consumer.py', BROKER],
  ['tutorials/kafka-consumer-python', 'sqlite3', BROKER],
];

const SENDS = /\blineside send /;
/** Commands that are repeated until they print what the page shows. */
const READS = /lineside (?:status|log|outbox|webhook deliveries)\b|sqlite3/;
/** A service of the page's own, as scripts/run starts it. */
const RUN = /scripts\/run$/;
/** Commands that run until the end of the page, and print something at once. */
const STAYS = /--follow|python3 (?:docs|client)\/|collector serve/;
/** Variables that a command sets are there for the next one of the page. */
const SHELL = 'cd "$1"; set -a; [ ! -f .shell ] || . ./.shell; eval "$2"; status=$?; export -p >.shell; exit $status';

interface Step {
  readonly line: string;
  readonly shown: string;
}

const RECORDING = 'docs/images/first-minutes.svg';
const pages = [
  'README.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  RECORDING,
  ...globSync('docs/**/*.md', { cwd: ROOT }).sort(),
];
const all = pages.map((page) => ({ page, blocks: blocksOf(markdownOf(page)) }));
const named = all.flatMap(({ page, blocks }) => blocks.map((block) => elsewhere.filter(names(page, block))));
const typed = all
  .map(({ page, blocks }) => ({ page, blocks: blocks.filter((block) => !elsewhere.some(names(page, block))) }))
  .filter(({ blocks }) => blocks.length > 0);

test('each block that is not run here is named once, with its reason', () => {
  const found = named.flat();
  assert.deepEqual(
    elsewhere.filter((one) => found.filter((other) => other === one).length !== 1),
    [],
  );
  const owners = elsewhere.flatMap(([, , reason]) => /test\/\S+\.ts/.exec(reason) ?? []);
  assert.deepEqual(
    owners.filter((file) => !existsSync(join(ROOT, file))),
    [],
  );
  assert.ok(typed.flatMap(({ blocks }) => blocks).length >= 35, 'a rule that finds fewer is wrong');
});

describe('a session of the documentation', () => {
  let shared: Reader;
  before(async () => {
    shared = await makeReader();
    await startService(shared);
  });
  after(() => shared.service?.stop());
  for (const { page, blocks } of typed) {
    test(`${page}: ${blocks.length} blocks`, async (t) => {
      const runs = blocks.flat().some(({ line }) => RUN.test(line));
      const own = runs || page.startsWith('docs/tutorials/') || page === RECORDING;
      const reader = own ? await makeReader() : shared;
      if (own && !runs) await startService(reader);
      t.after(async () => {
        for (const child of reader.running.splice(0)) killGroup(child);
        rmSync(join(reader.home, '.shell'), { force: true });
        if (own) await reader.service?.stop();
      });
      for (const block of blocks) await runBlock(reader, block);
    });
  }
});

/** What a reader has: a folder that looks like a checkout, a token, and the service once it is started. */
interface Reader {
  readonly home: string;
  readonly token: string;
  /** What stands on the page, and what it is here. */
  readonly here: Map<string, string>;
  readonly running: ChildProcess[];
  service: Both | undefined;
}

async function makeReader(): Promise<Reader> {
  const home = temporaryDirectory();
  for (const name of readdirSync(ROOT))
    if (!/^\.(?:git|run|cache)$/.test(name)) symlinkSync(join(ROOT, name), join(home, name));
  const receiver = await startReceiver(undefined, { secrets: [SECRET] });
  const [authority, url] = [new Authority(home, 'ca'), urlOf(receiver, '/hook')];
  const server = authority.issue('server', '/CN=box');
  const guide = readFileSync(join(ROOT, 'docs/how-to/integrator/webhooks.md'), 'utf8');
  const [, subscription = ''] = /```json\n([\s\S]*?)```/.exec(guide) ?? [];
  writeAll(home, 0o600, {
    'ca.crt': authority.root.cert,
    'chain.pem': Buffer.concat([server.cert, authority.root.cert]),
    'mes.secret': SECRET,
    'records.ndjson': '{"dictionary": "tools", "businessKey": "T-2", "data": {"name": "Hammer"}}\n',
    // The page adds it by the command first, under the same name.
    'subscription.json': subscription.replace('"mes"', '"mes-2"').replace('https://mes.example/hook', url),
    '.curlrc': 'fail\nsilent\nshow-error\n',
  });
  writeAll(join(home, 'bin'), 0o755, {
    lineside: `#!/bin/sh\nexec "${home}/scripts/lineside" "$@"\n`,
    sudo: '#!/bin/sh\nexec "$@"\n',
    nano: '#!/bin/sh\nprintf %s "$TOKEN" >"$1"\n',
    python3: `#!/bin/sh\nexec ${PYTHON} "$@"\n`,
  });
  for (const name of ['srv', 'stick']) mkdirSync(join(home, name));
  const here = new Map([
    ['https://mes.example/hook', url],
    ['9443', String(await freePort())],
    ['0.0.0.0:7443', '127.0.0.1:0'],
    ['AB:CD:...', new X509Certificate(authority.root.cert).fingerprint256],
    ['/dev/ttyAMA0', simulated(home)],
    ['/dev/serial/by-id/usb-FTDI_FT232R_A50285BI-if00-port0', simulated(home)],
    ['/etc/lineside/tls', home],
    ['/media/stick', join(home, 'stick')],
    ['/srv/lineside', join(home, 'srv')],
  ]);
  mkdirSync(join(home, '.run'));
  const configFile = writeConfig(join(home, '.run'), {
    ...webhooksConfig([receiver]),
    serial: { simulate: true, at_start: 'open', line: { port: simulated(home), baud_rate: 115_200 } },
    grpc: { listen: ['0.0.0.0:0', 'unix:grpc.sock'] },
    http: { listen: ['0.0.0.0:0', 'unix:http.sock'] },
    tls: { cert_file: join(home, 'chain.pem'), key_file: join(home, 'server.key') },
  });
  await addToken(configFile, 'claim', 'admin');
  const token = await addToken(configFile, 'reader', 'admin', 'operator');
  return { home, token, here, running: [], service: undefined };
}

/** `variables`: what the page sets before scripts/run. */
async function startService(reader: Reader, variables: Readonly<Record<string, string>> = {}): Promise<void> {
  const { home, here } = reader;
  const service = await startBoth({ dir: join(home, '.run'), env: variables });
  reader.service = service;
  const { address } = listening(await service.waitFor(/ info ready /));
  here.set('192.168.7.20', address.replace('0.0.0.0', '127.0.0.1'));
  here.set('BOX:8443', service.address.replace('0.0.0.0', '127.0.0.1'));
}

const simulated = (home: string): string => join(home, '.run/run/sim0');

function writeAll(dir: string, mode: number, files: Readonly<Record<string, string | Buffer>>): void {
  mkdirSync(dir, { recursive: true });
  for (const [name, content] of Object.entries(files)) writeFileSync(join(dir, name), content, { mode });
}

async function runBlock(reader: Reader, block: readonly Step[]): Promise<void> {
  const showsOutput = block.some(({ shown }) => shown !== '');
  for (const [at, { line, shown }] of block.entries()) {
    if (RUN.test(line)) await startService(reader, await variablesOf(reader, line.replace(RUN, 'env')));
    else if (STAYS.test(line)) await stay(reader, line, shown);
    else {
      const out = await typeUntil(reader, line, shown, block[at - 1]?.line);
      if (showsOutput && shown === '') assert.equal(out, '', `${line} prints more than the page shows`);
    }
  }
}

async function variablesOf(reader: Reader, line: string): Promise<Record<string, string>> {
  const { out } = await type(reader, line);
  return Object.fromEntries(
    [...out.matchAll(/^(LINESIDE_WEBHOOKS\w+)=(.*)$/gm)].map(([, name, value]) => [name, value]),
  );
}

/** A report of the device may come in one chunk with its answer, which is another line than the page shows: begins again then. */
async function stay(reader: Reader, line: string, shown: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const child = shell(reader, line);
    reader.running.push(child);
    const [out, err] = [remember(child.stdout), remember(child.stderr)];
    const shows = (): boolean => {
      assert.equal(child.exitCode, null, `${line} has ended: ${out()}${err()}`);
      return out() + err() !== '' && hasWords(out() + err(), shown);
    };
    try {
      return void (await until(`the output of ${line}`, shows, LIMIT_MS / 2));
    } catch (cause) {
      if (attempt === 3) throw new Error(`${line}\nshown:\n${shown}\nprinted:\n${out()}${err()}`, { cause });
    }
    const ended = once(child, 'close');
    killGroup(child);
    await within(`the end of ${line}`, ended);
  }
}

/** `before`: the line before it on the page. What it sent is sent again where the answer came in one chunk with a report: see stay(). */
async function typeUntil(reader: Reader, line: string, shown: string, before = ''): Promise<string> {
  let out = '';
  // The device talks on while a machine at work is slower than a person.
  const longer = line.replace(/--last \d+$/, '--last 500');
  const fits = async (): Promise<boolean> => {
    const typed = await type(reader, longer);
    ({ out } = typed);
    assert.equal(typed.status, 0, `${line}\n${out}`);
    return hasWords(out, shown);
  };
  // The device and the receiver take a moment to answer. Other commands have side effects and run once.
  if (READS.test(line))
    for (let attempt = 1; ; attempt++) {
      try {
        await until(`the shown output of ${line}`, fits, LIMIT_MS / 2);
        break;
      } catch (cause) {
        if (attempt === 3) throw new Error(`${line}\nshown:\n${shown}\nprinted:\n${out}`, { cause });
      }
      if (SENDS.test(before)) await type(reader, before);
    }
  else assert.ok(await fits(), `${line}\nshown:\n${shown}\nprinted:\n${out}`);
  return out;
}

async function type(reader: Reader, line: string): Promise<{ status: number; out: string }> {
  const child = shell(reader, line);
  const [out, err] = [remember(child.stdout), remember(child.stderr)];
  child.stdin?.end();
  const [status] = (await within(line, once(child, 'close'))) as [number];
  return { status, out: out() + err() };
}

function shell({ home, here, token }: Reader, line: string): ChildProcess {
  const command = [...here].reduce((text, [shown, own]) => text.replaceAll(shown, own), line);
  const path = `${home}/bin:${process.env['PATH']}`;
  const config = join(home, '.run/lineside.toml');
  const env = environment({
    HOME: home,
    XDG_CONFIG_HOME: join(home, '.config'),
    PATH: path,
    TOKEN: token,
    LINESIDE_CONFIG: config,
  });
  return startProcess('bash', ['-c', SHELL, 'bash', home, command], env);
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

/** A run of one word counts once: how many reports the device sends before a command is the machine's matter. */
function fixedWords(text: string): string[] {
  const fixed = text.split(/\s+/).filter((word) => !/[\d/…]/.test(word));
  const words = fixed.map((word) => word.replaceAll(/[^a-z]/gi, '')).filter((word) => word.length > 1);
  return words.filter((word, n) => word !== words[n - 1]);
}

/** The recording as a block, without what it shows of the machine. */
function markdownOf(page: string): string {
  const content = readFileSync(join(ROOT, page), 'utf8');
  if (page !== RECORDING) return content;
  const rows = [...content.matchAll(/<text [^>]*>([^<]*)<\/text>/g)].map(([, text = '']) => text);
  const text = rows.join('\n').replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&');
  return `\`\`\`console\n${text.replace(/^Host .*\n(?: +.*\n)*/m, '')}\n\`\`\`\n`;
}

function blocksOf(markdown: string): (readonly Step[])[] {
  const found = [...markdown.matchAll(/^ *```console\n([\s\S]*?)^ *```$/gm)].map(([, text = '']) => text);
  return found.map(stepsOf);
}

/** A block has one prompt, of a user or of root. */
function stepsOf(block: string): Step[] {
  const [, ...parts] = block.split(/^ *\$ /m.test(block) ? /^ *\$ /m : /^ *# /m);
  return parts.map((part) => {
    const [, line = '', shown = ''] = /^((?:.*\\\n)*.*)\n([\s\S]*)$/.exec(part) ?? [];
    return { line, shown: shown.trim() };
  });
}

function names(page: string, [first]: readonly Step[]): (one: (typeof elsewhere)[number]) => boolean {
  return ([where, command]) => page.endsWith(`${where}.md`) && `${first?.line}\n`.startsWith(command);
}
