/** The compiled hub as a process of its own, spoken to over its Unix socket. */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import type { OutboxStatus } from '../../../src/hub/outbox/admin.ts';
import type { JsonObject } from '../../../src/hub/outbox/event.ts';
import { until } from '../../../src/shared/base/wait.fixture.ts';
import { type Answer, HubApi, recordPath } from '../../e2e/hub-api.ts';
import { environment, requireBuild } from '../lineside.ts';
import { childrenOf, NODE, ROOT, removeDirectory, start, stop, temporaryDirectory } from '../processes.ts';
import { DICTIONARY, dataOf, dictionary } from './samples.ts';

export interface HubOptions {
  /** '': no broker configured. */
  readonly bootstrap?: string;
  /** Authorities of webhook subscribers on loopback, which may be called then. */
  readonly subscribersCa?: string;
  /** Fills the data directory before the start. */
  readonly seed?: (dataDir: string) => void;
  readonly nodeOptions?: readonly string[];
  /** A command that runs the hub as its only child. */
  readonly wrapper?: readonly string[];
}

export interface Hub {
  readonly pid: number;
  readonly dataDir: string;
  readonly api: HubApi;
  /** What a wrapper prints after the hub's end. */
  readonly output: Readable | undefined;
  readonly errors: Readable;
  createDictionary(): Promise<void>;
  create(key: string, data: JsonObject): Promise<Answer>;
  update(key: string, data: JsonObject, version: number): Promise<Answer>;
  /** NDJSON of so many new records. */
  bundle(count: number, prefix: string): Buffer;
  importBundle(body: Buffer): Promise<Answer>;
  outbox(): Promise<OutboxStatus>;
  close(): Promise<void>;
}

export const TOPIC_PREFIX = 'bench.hub';
const START_LIMIT_MS = 30_000;
const MAX_BYTES = 8 * 1024 * 1024 * 1024;
const MAIN = join(process.env['BENCH_BUILD'] ?? join(ROOT, 'build'), 'main.js');

export async function startHub(options: HubOptions = {}): Promise<Hub> {
  requireBuild();
  const dir = temporaryDirectory();
  const dataDir = join(dir, 'data');
  mkdirSync(dataDir);
  options.seed?.(dataDir);
  const config = join(dir, 'lineside.toml');
  writeFileSync(config, toml(dir, dataDir, options));
  const args = [...(options.nodeOptions ?? []), MAIN, 'serve', '--role', 'hub', '--config', config];
  const [command = NODE, ...rest] = [...(options.wrapper ?? []), NODE, ...args];
  const child = start(command, rest, { stdio: ['ignore', 'pipe', 'pipe'], env: environment() });
  const { stdout, stderr } = child;
  if (stdout === null || stderr === null) throw new Error('no pipes to the hub');
  if (process.env['BENCH_DEBUG'] !== undefined) stderr.pipe(process.stderr);
  stderr.resume();
  if (options.wrapper === undefined) stdout.resume();
  const socket = join(dir, 'run', 'http.sock');
  const api = new HubApi(`unix:${socket}`);
  await until('the hub to answer', () => answers(api, socket, child.exitCode), START_LIMIT_MS);
  const pid = options.wrapper === undefined ? child.pid : childrenOf(child.pid ?? 0)[0];
  if (pid === undefined) throw new Error('the hub did not start');
  return {
    pid,
    dataDir,
    api,
    output: options.wrapper === undefined ? undefined : stdout,
    errors: stderr,
    ...calls(api),
    async close() {
      api.close();
      await stop(child, pid);
      removeDirectory(dir);
    },
  };
}

function toml(dir: string, dataDir: string, { bootstrap = '', subscribersCa }: HubOptions): string {
  const webhooks = ['[webhooks]', 'allow_cidrs = ["127.0.0.0/8"]', `ca_file = "${subscribersCa}"`];
  return [
    ...(subscribersCa === undefined ? [] : webhooks),
    '[device]',
    'id = "bench-device"',
    // There is no line beside it that could be asked.
    'inventory = false',
    '[data]',
    `dir = "${dataDir}"`,
    `runtime_dir = "${join(dir, 'run')}"`,
    '[http]',
    'listen = ["unix:http.sock"]',
    '[kafka]',
    `bootstrap = "${bootstrap}"`,
    `topic_prefix = "${TOPIC_PREFIX}"`,
    '[outbox]',
    `max_bytes = ${MAX_BYTES}`,
    '',
  ].join('\n');
}

async function answers(api: HubApi, socket: string, exitCode: number | null): Promise<boolean> {
  if (exitCode !== null) throw new Error('the hub did not start: BENCH_DEBUG=1 shows what it says');
  if (!existsSync(socket)) return false;
  return api.get('/healthz').then(
    ({ status }) => status === 200,
    () => false,
  );
}

type Calls = Pick<Hub, 'createDictionary' | 'create' | 'update' | 'bundle' | 'importBundle' | 'outbox'>;

function calls(api: HubApi): Calls {
  return {
    createDictionary: async () => void wanted(201, await api.post('/api/v1/dictionaries', dictionary)),
    create: async (businessKey, data) =>
      wanted(201, await api.post(`/api/v1/dictionaries/${DICTIONARY}/records`, { businessKey, data })),
    update: async (key, data, version) =>
      wanted(200, await api.send('PUT', recordPath(DICTIONARY, key), { body: { data }, ifMatch: version })),
    bundle: (count, prefix) =>
      Buffer.concat(
        Array.from({ length: count }, (_, n) =>
          Buffer.from(
            `${JSON.stringify({ dictionary: DICTIONARY, businessKey: `${prefix}-${n}`, data: dataOf(n) })}\n`,
          ),
        ),
      ),
    importBundle: async (body) =>
      wanted(200, await api.send('POST', '/api/v1/imports', { body, contentType: 'application/x-ndjson' })),
    outbox: async () => wanted(200, await api.get('/api/v1/admin/outbox')).body as unknown as OutboxStatus,
  };
}

function wanted(status: number, answer: Answer): Answer {
  if (answer.status !== status) throw new Error(`answered ${answer.status}, not ${status}: ${answer.text}`);
  return answer;
}
