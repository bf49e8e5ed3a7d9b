/** Runs docs/examples/receiver.py unchanged: subscribers copy it. */
import { once } from 'node:events';
import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import Database from 'better-sqlite3';
import { makeCa, signed } from '../../src/shared/base/certificates.fixture.ts';
import { within } from '../../src/shared/base/wait.fixture.ts';
import { environment, killGroup, ROOT, startProcess, temporaryDirectory } from '../e2e/daemon.ts';
import { PYTHON } from '../e2e/python.ts';

/** As subscribers copy it. */
export const RECEIVER = join(ROOT, 'docs/examples/receiver.py');

/** What it knows of a record. */
export interface TakenRecord {
  readonly dictionary: string;
  readonly key: string;
  readonly version: number;
  readonly action: string;
  readonly data: string;
}

/** A receiver's files: they outlive its process. */
export class ReceiverPlace {
  readonly dir = temporaryDirectory();
  readonly secret: string;
  /** The authority that its certificate is by. */
  readonly caFile = join(this.dir, 'ca.pem');
  readonly database = join(this.dir, 'receiver.db');

  constructor(secret: string) {
    this.secret = secret;
    makeCa(this.dir);
    signed(this.dir, 'receiver', 'DNS:localhost,IP:127.0.0.1');
    writeFileSync(join(this.dir, 'secret'), `${secret}\n`);
    copyFileSync(RECEIVER, join(this.dir, 'receiver.py'));
  }

  /** Answers its port when it listens; 0: any free one. */
  async start(port = 0): Promise<RunningReceiver> {
    const names = ['receiver.py', 'receiver.pem', 'receiver.key', 'secret', 'receiver.db'];
    const child = startProcess(PYTHON, [...names.map((name) => join(this.dir, name)), String(port)], environment());
    const ended = once(child, 'close');
    const { stdout, stderr } = child;
    if (stdout === null || stderr === null) throw new Error('no pipes from the receiver');
    const complaint = text(stderr);
    const listening = once(createInterface({ input: stdout }), 'line').then(String);
    const early = ended.then(async () => Promise.reject(new Error(`the receiver has ended:\n${await complaint}`)));
    early.catch(() => {});
    const line = await within('the receiver listens', Promise.race([listening, early]));
    return {
      port: Number(/^listening on port (\d+)$/.exec(line)?.[1]),
      async kill() {
        killGroup(child);
        await within('the receiver ends', ended);
        return complaint;
      },
    };
  }

  /** The accepted records, by dictionary and key. */
  records(): TakenRecord[] {
    return this.query('SELECT * FROM record ORDER BY dictionary, key') as TakenRecord[];
  }

  /** Of each delivery that it has stored, in the order in which they came: its id, and whether it is done. */
  deliveries(): { readonly id: string; readonly done: number }[] {
    const all = this.query('SELECT id, body IS NULL AS done FROM delivery ORDER BY number');
    return all as { id: string; done: number }[];
  }

  query(sql: string): unknown[] {
    const base = new Database(this.database, { readonly: true });
    try {
      return base.prepare(sql).all();
    } finally {
      base.close();
    }
  }
}

export interface RunningReceiver {
  readonly port: number;
  /** SIGKILL; answers what it wrote to standard error. */
  kill(): Promise<string>;
}
