/** The compiled hub as the end-to-end tests start it, over its Unix socket, with what the rows ask of it. */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { JsonObject } from '../../../src/hub/outbox/event.ts';
import { type DaemonOptions, temporaryDirectory } from '../../e2e/daemon.ts';
import { type Hub, startHub as startProcess } from '../../e2e/hub.ts';
import type { HubApi } from '../../e2e/hub-api.ts';
import { apiOf, create, expect } from '../../e2e/hub-support.ts';
import { bundled, DICTIONARY, dictionary } from './samples.ts';
import { DEVICE_ID } from './settings.ts';

export interface HubOptions extends Pick<DaemonOptions, 'nodeOptions' | 'wrapper'> {
  /** '': no broker configured. */
  readonly bootstrap?: string;
  /** Authorities of webhook subscribers on loopback, which may be called then. */
  readonly subscribersCa?: string;
  /** Fills the data directory before the start. */
  readonly seed?: (dataDir: string) => void;
}

export interface RowsHub extends Hub {
  readonly api: HubApi;
  createDictionary(): Promise<void>;
  create(key: string, data: JsonObject): Promise<unknown>;
  /** So many new records, made beforehand. */
  importer(count: number, prefix: string): () => Promise<void>;
}

const MAX_BYTES = 8 * 1024 * 1024 * 1024;

/** What `work` gives of a hub that is stopped afterwards. */
export async function withHub<T>(options: HubOptions, work: (hub: RowsHub) => Promise<T>): Promise<T> {
  const hub = await startHub(options);
  const found = await work(hub);
  await hub.stop();
  return found;
}

export async function startHub(options: HubOptions = {}): Promise<RowsHub> {
  const { bootstrap = '', subscribersCa, seed, ...more } = options;
  const dir = temporaryDirectory();
  const dataDir = join(dir, 'data');
  mkdirSync(dataDir);
  seed?.(dataDir);
  const webhooks = { allow_cidrs: ['127.0.0.0/8'], ca_file: subscribersCa ?? '' };
  const config = {
    // There is no line beside it that could be asked.
    device: { id: DEVICE_ID, inventory: false },
    http: { listen: ['unix:http.sock'] },
    kafka: { bootstrap, topic_prefix: 'bench.hub' },
    outbox: { max_bytes: MAX_BYTES },
    ...(subscribersCa !== undefined && { webhooks }),
  };
  const hub = await startProcess({ dir, config, ...more });
  const api = apiOf(hub);
  return {
    ...hub,
    api,
    /** Its file may be of a gigabyte. */
    async stop() {
      const how = await hub.stop();
      rmSync(dir, { recursive: true });
      return how;
    },
    createDictionary: async () => void (await expect(201, api.post('/api/v1/dictionaries', dictionary))),
    create: (key, data) => create(api, DICTIONARY, key, data),
    importer(count, prefix) {
      const records = Array.from({ length: count }, (_, n) => bundled(`${prefix}-${n}`, n));
      const bundle = { body: Buffer.from(records.join('')), contentType: 'application/x-ndjson' };
      return async () => void (await expect(200, api.send('POST', '/api/v1/imports', bundle)));
    },
  };
}
