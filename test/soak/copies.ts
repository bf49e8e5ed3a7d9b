/**
 * Two programs in another language that keep a copy of the records, as docs/examples has them: one from Kafka, one from webhooks.
 * Whatever was killed meanwhile, both copies end as the database is.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { type Toml, temporaryDirectory } from '../e2e/daemon.ts';
import type { HubApi } from '../e2e/hub-api.ts';
import { expect } from '../e2e/hub-support.ts';
import { startExample } from '../e2e/python.ts';
import { HOOKS, SECRET } from '../e2e/webhooks-support.ts';
import { ReceiverPlace } from '../webhooks/receiver.ts';
import { rowsOf, type Version } from './outbox-ledger.ts';

interface Copied {
  readonly dictionary: string;
  readonly key: string;
  readonly version: number;
  readonly action: string;
  readonly data: string;
}

const COPY = "SELECT dictionary, key, version, action, data FROM record WHERE dictionary NOT LIKE 'device.%'";

export class Copies {
  readonly #receiver = new ReceiverPlace(SECRET);
  readonly #byKafka = join(temporaryDirectory(), 'copy.db');
  #consumer: ReturnType<typeof startExample> | undefined;

  /** Of the hub: for the receiver's certificate. */
  get config(): Toml {
    return { webhooks: { allow_cidrs: ['127.0.0.0/8'], ca_file: this.#receiver.caFile } };
  }

  /** The topics need not exist yet. */
  async start(api: HubApi, bootstrap: string, topics: readonly string[]): Promise<void> {
    this.#consumer = startExample('consumer.py', [bootstrap, this.#byKafka, ...topics]);
    const { port } = await this.#receiver.start();
    const request = { name: 'copy', url: `https://127.0.0.1:${port}/`, secret: SECRET };
    await expect(201, api.post(`${HOOKS}/subscriptions`, request));
  }

  /** Answers how many records both have. */
  async compare(versions: readonly Version[], limitMs: number): Promise<number> {
    const newest = new Map<string, Copied>();
    for (const { businessKey: key, ...version } of versions) {
      const before = newest.get(`${version.dictionary}:${key}`)?.version ?? 0;
      if (version.version > before) newest.set(`${version.dictionary}:${key}`, { ...version, key });
    }
    const expected = wordsOf([...newest.values()]);
    const copies = { Kafka: this.#byKafka, webhooks: this.#receiver.database };
    for (const [by, path] of Object.entries(copies)) {
      const copied = (): string[] => wordsOf(rowsOf<Copied>(path, COPY));
      await until(`the copy by ${by}`, () => copied().join() === expected.join(), limitMs).catch(() => {
        const found = copied();
        const missing = expected.filter((row) => !found.includes(row));
        const more = found.filter((row) => !expected.includes(row));
        const ended = this.#consumer?.child.exitCode ?? 'none';
        const first = JSON.stringify([missing.slice(0, 3), more.slice(0, 3)]);
        assert.fail(
          `the copy by ${by} has ${found.length} of ${expected.length}; missing ${missing.length}, others ${more.length}: ${first}; exit status of consumer.py: ${ended}`,
        );
      });
    }
    return newest.size;
  }
}

/** Python writes JSON with other spaces. */
function wordsOf(rows: readonly Copied[]): string[] {
  const words = ({ dictionary, key, version, action, data }: Copied): string =>
    JSON.stringify([dictionary, key, version, action, JSON.parse(data)]);
  return rows.map(words).sort();
}
