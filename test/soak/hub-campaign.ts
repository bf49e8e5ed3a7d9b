/** What the campaigns against the hub share: a hub that is killed again and again on the same data, the load on it, and the ledger. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import type { Toml } from '../e2e/daemon.ts';
import { type Hub, startHub } from '../e2e/hub.ts';
import type { HubApi } from '../e2e/hub-api.ts';
import { apiOf, expect } from '../e2e/hub-support.ts';
import { killAtStart } from './kill.ts';
import { OutboxLedger, storedVersions } from './outbox-ledger.ts';
import { dictionaries, type Load, schema } from './outbox-writers.ts';
import { type Random, seeded } from './random.ts';

export class HubCampaign {
  readonly ledger = new OutboxLedger();
  readonly #dir: string;
  protected readonly random: Random;
  readonly #numbers = new Map<string, number>();
  #hub: Hub | undefined;

  constructor(dir: string, seed: number) {
    this.#dir = dir;
    this.random = seeded(seed);
  }

  async end(): Promise<void> {
    assert.equal(await this.hub.stop(), 0);
  }

  /** The first hub, with its dictionaries. */
  protected async startFirst(config: Toml): Promise<void> {
    this.#hub = await startHub({ dir: this.#dir, config });
    for (const [name, scope] of Object.entries(dictionaries)) {
      await expect(201, this.api.post('/api/v1/dictionaries', { name, title: name, scope, schema }));
    }
  }

  protected async startAgain(): Promise<void> {
    this.#hub = await startHub({ dir: this.#dir });
  }

  /** What must hold after every restart, whatever the kill interrupted. */
  protected settle(): void {
    this.ledger.settle(storedVersions(this.path, this.ledger.lastTxTime));
  }

  protected killAtStart(startMs: number): Promise<void> {
    return killAtStart('hub', this.hub.configFile, this.random.between(0, startMs));
  }

  protected get load(): Load {
    return { api: this.api, ledger: this.ledger, random: this.random, numbers: this.#numbers };
  }

  protected get api(): HubApi {
    return apiOf(this.hub);
  }

  protected get hub(): Hub {
    assert.ok(this.#hub);
    return this.#hub;
  }

  protected get path(): string {
    return join(this.#dir, 'data', 'refdata.db');
  }
}
