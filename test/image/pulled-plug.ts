/** The plug pulled under load from all sides, and what has to be there at the next power-on. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { lineside } from '../../src/shared/proto/services.ts';
import type { Client } from '../e2e/daemon.ts';
import { logStatus, openPort } from '../e2e/faults.ts';
import { Ledger } from '../soak/ledger.ts';
import type { Random } from '../soak/random.ts';
import { encodeRecord } from '../soak/records.ts';
import { follower, logRawCaller, sender, type Traffic } from '../soak/traffic.ts';
import type { QemuBox } from './box.ts';
import { contentsOf, lookAtStates, type Part, type StatesFigures } from './card-states.ts';
import type { HttpClient } from './remote.ts';

export const DICTIONARY = 'power';
/** The device behind the line talks so often: some 3 kB/s. */
const DEVICE_PAUSE_MS = 30;
/** Callers give the emulated box room to breathe. */
const CALLER_PAUSE_MS = 10;
const PAGE = 500;
/** Under emulation. */
const REOPEN_LIMIT_MS = 120_000;
const { PORT_STATE_OPEN } = lineside.v1.PortState;

export class Load {
  readonly ledger = new Ledger();
  readonly #random: Random;
  readonly #numbers = new Map<string, number>();
  /** Business keys of the records whose creation was answered, and of those that were asked for alone. */
  readonly #answered = new Set<string>();
  readonly #asked = new Set<string>();

  constructor(random: Random) {
    this.#random = random;
  }

  get records(): number {
    return this.#answered.size;
  }

  /** The port is opened, and the dictionary made; what the log has already is none of this load's. */
  async begin(client: Client, http: HttpClient, portName: string): Promise<void> {
    await http.expect(201, 'POST', '/dictionaries', { name: DICTIONARY, title: 'Under load', scope: 'PUBLIC' });
    await client.serial.close({});
    await openPort(client, portName);
    this.ledger.startAfter(Number((await client.line.getStatus({})).log?.headId ?? 0));
  }

  /** Works on the box until the plug is pulled after so many milliseconds. */
  async until(box: QemuBox, client: Client, http: HttpClient, lifeMs: number): Promise<void> {
    const over = new AbortController();
    const traffic = { random: this.#random, ledger: this.ledger, numbers: this.#numbers } as Traffic;
    const work = [
      this.#device(box, over.signal),
      follower(client, traffic, over.signal),
      ...['L1', 'L2'].map((name) => logRawCaller(name, client, traffic, over.signal, CALLER_PAUSE_MS)),
      sender('T1', client, traffic, over.signal, CALLER_PAUSE_MS),
      this.#writer('W1', http, over.signal),
    ];
    await sleep(lifeMs);
    await box.kill();
    over.abort();
    client.close();
    http.close();
    await Promise.all(work);
  }

  /** Everything that was promised, read over the network from the box that has started again. */
  async check(client: Client, http: HttpClient): Promise<void> {
    const log = await logStatus(client);
    assert.equal(log.setAside, '', 'the log was taken for damaged');
    assert.equal(log.error, '');
    await this.ledger.readOn(client);
    const found = await this.#recordsOf(http);
    const missing = [...this.#answered].filter((key) => !found.has(key));
    assert.deepEqual(missing, [], 'records whose creation was answered');
    const unasked = [...found].filter((key) => !this.#asked.has(key));
    assert.deepEqual(unasked, [], 'records that were not requested');
  }

  async #device(box: QemuBox, over: AbortSignal): Promise<void> {
    while (!over.aborted) {
      const number = (this.#numbers.get('R') ?? 0) + 1;
      this.#numbers.set('R', number);
      box.uartSend(encodeRecord('R', number, this.#random, 40));
      await sleep(DEVICE_PAUSE_MS);
    }
  }

  async #writer(name: string, http: HttpClient, over: AbortSignal): Promise<void> {
    while (!over.aborted) {
      const businessKey = `${name}-${this.#asked.size + 1}`;
      this.#asked.add(businessKey);
      try {
        const { status, body } = await http.send('POST', `/dictionaries/${DICTIONARY}/records`, {
          businessKey,
          data: { filler: this.#random.bytes(100).toString('hex') },
        });
        assert.equal(status, 201, body);
        this.#answered.add(businessKey);
      } catch (error) {
        if (error instanceof assert.AssertionError) throw error;
        // The box is gone: that is what this is for.
        if (!over.aborted) await sleep(CALLER_PAUSE_MS);
      }
    }
  }

  async #recordsOf(http: HttpClient): Promise<Set<string>> {
    const found = new Set<string>();
    let cursor: string | null = '';
    while (cursor !== null) {
      const page: { items: { businessKey: string }[]; nextCursor: string | null } = await http.expect(
        200,
        'GET',
        `/dictionaries/${DICTIONARY}/records?limit=${PAGE}${cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`}`,
      );
      for (const { businessKey } of page.items) found.add(businessKey);
      cursor = page.nextCursor;
    }
    return found;
  }
}

interface Lives {
  readonly connection: () => { readonly client: Client; readonly http: HttpClient };
  readonly lifeMs: () => number;
  /** The box is off. */
  readonly pulled?: (pull: number) => void;
  /** Until the box answers, and there is a new connection; the seconds of the start. */
  readonly powerOn: (pull: number) => Promise<number>;
}

/** The card is checked after each pulled plug, and everything that was promised after each start. The seconds of the starts. */
export async function pullPlugs(box: QemuBox, load: Load, count: number, lives: Lives): Promise<number[]> {
  const boots: number[] = [];
  for (let pull = 1; pull <= count; pull++) {
    const { client, http } = lives.connection();
    await load.until(box, client, http, lives.lifeMs());
    lives.pulled?.(pull);
    lookIntoCard(box);
    boots.push(await lives.powerOn(pull));
    const again = lives.connection();
    const isOpen = async (): Promise<boolean> => (await again.client.line.getStatus({})).portState === PORT_STATE_OPEN;
    await until('the port is open again', isOpen, REOPEN_LIMIT_MS);
    await load.check(again.client, again.http);
  }
  return boots;
}

/** Where the data partition is on the card. */
export function dataPart(card: string): Part {
  const { partitiontable } = JSON.parse(execFileSync('sfdisk', ['--json', card], { encoding: 'utf8' })) as {
    partitiontable: { sectorsize: number; partitions: { start: number; size: number }[] };
  };
  const fourth = partitiontable.partitions[3];
  assert.ok(fourth !== undefined, 'the card has no fourth partition');
  const { sectorsize } = partitiontable;
  return { offset: fourth.start * sectorsize, length: fourth.size * sectorsize };
}

/** The card in a reader: the file system is sound once its journal was replayed, and so are both databases. */
function lookIntoCard(box: QemuBox): void {
  const copy = join(box.dir, 'data.ext4');
  copyData(box, copy);
  mkdirSync(join(box.dir, 'mount'), { recursive: true });
  contentsOf(copy, join(box.dir, 'mount'));
  execFileSync('e2fsck', ['-fn', copy], { stdio: 'ignore' });
}

/** One life of a card, every write of it recorded. */
export class CardRecording {
  readonly #box: QemuBox;
  readonly #dir: string;
  readonly #log: string;
  readonly #before: string;

  /** `dir` is made, and emptied with each life. */
  constructor(box: QemuBox, dir: string) {
    this.#box = box;
    this.#dir = dir;
    this.#log = join(dir, 'writes');
    this.#before = join(dir, 'before.ext4');
  }

  /** What QEMU has to be started with; the box is off. */
  begin(): readonly string[] {
    rmSync(this.#dir, { recursive: true, force: true });
    mkdirSync(this.#dir, { recursive: true });
    copyData(this.#box, this.#before);
    writeFileSync(this.#log, '');
    const parts = [`file.driver=file,file.filename=${this.#box.card}`, `log.driver=file,log.filename=${this.#log}`];
    return ['-drive', `driver=blklogwrites,${parts.join(',')},if=none,id=card`];
  }

  /** Looks into the card as it was after every so many'th flush. Throws where a state is not sound. */
  look(every: number, chance: () => number): StatesFigures {
    const part = dataPart(this.#box.card);
    return lookAtStates({ log: this.#log, before: this.#before, part, work: this.#dir, every, chance });
  }
}

function copyData({ card }: QemuBox, copy: string): void {
  const { offset, length } = dataPart(card);
  const mebibyte = 1 << 20;
  const range = [`skip=${offset / mebibyte}`, `count=${length / mebibyte}`];
  execFileSync('dd', [`if=${card}`, `of=${copy}`, 'bs=1M', ...range, 'conv=sparse', 'status=none']);
  // dd omits the zeros at the end.
  truncateSync(copy, length);
}
