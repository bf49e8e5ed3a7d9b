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

export interface Schedule {
  /** Every so many rounds one more kill comes during the start, which takes about `startMs`. */
  readonly startKillEvery: number;
  readonly startMs: number;
  readonly compareEvery: number;
}

/** A life of the hub in each round, and what must hold after every restart, whatever the kill interrupted. */
export abstract class HubCampaign<Figures> {
  readonly ledger = new OutboxLedger();
  killsAtStart = 0;
  readonly #schedule: Schedule;
  readonly #dir: string;
  protected readonly random: Random;
  readonly #numbers = new Map<string, number>();
  #hub: Hub | undefined;

  constructor(dir: string, seed: number, schedule: Schedule) {
    this.#dir = dir;
    this.random = seeded(seed);
    this.#schedule = schedule;
  }

  async run(rounds: number, say: (line: string) => void): Promise<Figures> {
    const { startKillEvery, startMs, compareEvery } = this.#schedule;
    await this.begin();
    for (let round = 1; round <= rounds; round++) {
      await this.life(round);
      if (round % startKillEvery === 0) {
        await this.killAtStart(startMs);
        this.killsAtStart += 1;
      }
      await this.startAgain(round);
      this.ledger.settle(storedVersions(this.path, this.ledger.lastTxTime));
      if (round % 20 === 0) say(`round ${round} of ${rounds}: ${JSON.stringify(this.ledger.figures)}`);
      if (round % compareEvery === 0 && round < rounds) say(`compared: ${JSON.stringify(await this.compare())}`);
    }
    const figures = await this.compare();
    assert.equal(await this.hub.stop(), 0);
    return figures;
  }

  protected abstract begin(): Promise<void>;

  /** Load until the kill. */
  protected abstract life(round: number): Promise<void>;

  /** Everything that was sent, against everything that the database has. */
  protected abstract compare(): Promise<Figures>;

  /** The first hub, with its dictionaries. */
  protected async startFirst(config: Toml): Promise<void> {
    this.#hub = await startHub({ dir: this.#dir, config });
    for (const [name, scope] of Object.entries(dictionaries)) {
      await expect(201, this.api.post('/api/v1/dictionaries', { name, title: name, scope, schema }));
    }
  }

  protected async startAgain(_round: number): Promise<void> {
    this.#hub = await startHub({ dir: this.#dir });
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
