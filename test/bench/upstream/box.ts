/** The compiled service as `lineside serve` starts it, line and hub, with a broker and the serial log on its way there or not. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../../../src/shared/base/wait.fixture.ts';
import { HubApi } from '../../e2e/hub-api.ts';
import { GrpcClient } from '../grpc-client.ts';
import { environment, listening, requireBuild } from '../lineside.ts';
import { freePort } from '../peers/peers.ts';
import { childrenOf, NODE, ROOT, removeDirectory, start, stop, temporaryDirectory } from '../processes.ts';

export interface BoxOptions {
  readonly bootstrap: string;
  readonly upstream: 'off' | 'kafka';
  readonly compression?: 'none' | 'zstd';
  readonly lingerMs?: number;
  readonly topic?: string;
  /** Another run's, kept afterwards. */
  readonly dataDir?: string;
}

export interface Box {
  readonly client: GrpcClient;
  /** Of lineside_upstream_NAME. */
  figure(name: string): Promise<number>;
  cpu(): { readonly line: number; readonly hub: number };
  close(): Promise<void>;
}

const MAIN = join(process.env['BENCH_BUILD'] ?? join(ROOT, 'build'), 'main.js');
const START_LIMIT_MS = 60_000;

export async function startBox(options: BoxOptions): Promise<Box> {
  requireBuild();
  const dir = temporaryDirectory();
  const address = `127.0.0.1:${await freePort()}`;
  const config = join(dir, 'lineside.toml');
  writeFileSync(config, toml(dir, address, options));
  const heard = process.env['BENCH_DEBUG'] === undefined ? 'ignore' : 'inherit';
  const child = start(NODE, [MAIN, 'serve', '--config', config], {
    stdio: ['ignore', heard, heard],
    env: environment(),
  });
  await listening(address, child);
  const client = new GrpcClient(address);
  await client.ready();
  const socket = join(dir, 'run', 'http.sock');
  await until('the hub', () => existsSync(socket), START_LIMIT_MS);
  const api = new HubApi(`unix:${socket}`);
  const line = child.pid ?? 0;
  const hub = childrenOf(line)[0] ?? 0;
  return {
    client,
    async figure(name) {
      const { text } = await api.get('/metrics');
      return Number(new RegExp(`^lineside_upstream_${name} (\\S+)$`, 'm').exec(text)?.[1] ?? Number.NaN);
    },
    cpu: () => ({ line: processSeconds(line), hub: processSeconds(hub) }),
    async close() {
      api.close();
      client.close();
      await stop(child, line);
      removeDirectory(dir);
    },
  };
}

/** Of threads that have ended too: librdkafka's come and go. In ticks of 10 ms. */
function processSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

function toml(dir: string, address: string, options: BoxOptions): string {
  const { bootstrap, upstream, compression = 'zstd', lingerMs = 5_000, topic = 'bench.serial-log' } = options;
  return [
    '[device]',
    'id = "bench-device"',
    'inventory = false',
    '[data]',
    `dir = "${options.dataDir ?? join(dir, 'data')}"`,
    `runtime_dir = "${join(dir, 'run')}"`,
    '[serial]',
    'extra_ports = ["/dev/pts/*"]',
    'at_start = "closed"',
    '[grpc]',
    `listen = ["${address}", "unix:grpc.sock"]`,
    '[http]',
    'listen = ["unix:http.sock"]',
    '[kafka]',
    `bootstrap = "${bootstrap}"`,
    'topic_prefix = "bench.hub"',
    '[upstream]',
    `to = "${upstream}"`,
    `topic = "${topic}"`,
    `compression = "${compression}"`,
    `linger_ms = ${lingerMs}`,
    '',
  ].join('\n');
}
