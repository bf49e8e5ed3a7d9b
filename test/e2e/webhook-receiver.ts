/** Runs the independent subscriber (webhook_receiver.py), sets its answers, and returns what it was sent. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { lasting, makeCa, signed } from '../../src/shared/base/certificates.fixture.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { temporaryDirectory } from './daemon.ts';
import { Orders } from './orders.ts';

/** What it answers; each is explained in webhook_receiver.py. */
export interface Step {
  /** 202 */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly delayS?: number;
  /** How many requests it is for; 1. */
  readonly times?: number;
  readonly fault?: 'hang' | 'close' | 'reset' | 'cut' | 'garbage';
}

export interface DeliveredEvent {
  readonly schemaVersion: string;
  readonly eventType: string;
  readonly category?: string;
  readonly dictionary: string;
  /** undefined: the event is of a definition or a draft, which has none. */
  readonly businessKey?: string;
  readonly action: string;
  readonly version: number;
  readonly validFrom: string;
  readonly data: Readonly<Record<string, unknown>>;
}

export interface DeliveredBody {
  readonly deliveryId: string;
  readonly subscriptionName: string;
  readonly occurredAt: string;
  readonly events: readonly DeliveredEvent[];
}

export interface ReceivedRequest {
  /** From 1, in the order in which they were there whole. */
  readonly n: number;
  /** From 1: requests on a kept connection have the same. */
  readonly connection: number;
  /** Seconds by the kernel's monotonic clock, as process.hrtime() counts them. */
  readonly at: number;
  readonly method: string;
  readonly path: string;
  /** As they came, names as written, in order. */
  readonly headers: readonly (readonly [string, string])[];
  /** By lower-case name; the last one counts. */
  readonly header: Readonly<Record<string, string>>;
  readonly raw: Buffer;
  /** Parsed; undefined where it is no JSON. */
  readonly body: DeliveredBody | undefined;
  /** All of it came. */
  readonly complete: boolean;
  /** The secret that X-Service-Signature is by; undefined: none of those it knows. */
  readonly signedBy: string | undefined;
  /** In words; empty: all as the specification wants it. */
  readonly faults: readonly string[];
  /** undefined while the answer is not out. */
  readonly end: RequestEnd | undefined;
}

export interface RequestEnd {
  readonly at: number;
  /** gone: the client was. */
  readonly how: 'answered' | 'gone';
  /** Bytes of the answer. */
  readonly sent: number;
  /** What the script wanted answered. */
  readonly status: number;
}

export interface ReceiverOptions {
  /** Signatures may be by any of them. */
  readonly secrets: readonly string[];
  /** What its certificate is for; default DNS:localhost,IP:127.0.0.1. */
  readonly names?: string;
  /** Valid for clocks that jump by years. */
  readonly lasting?: boolean;
  /** 127.0.0.1 */
  readonly host?: string;
  readonly port?: number;
  /** A command that runs it: ['ip', 'netns', 'exec', name]. */
  readonly wrapper?: readonly string[];
}

export interface Receiver {
  /** https://127.0.0.1:PORT/hook */
  readonly url: string;
  readonly port: number;
  /** The authority that its certificate is by, for webhooks.ca_file. */
  readonly caFile: string;
  /** Holds ca.pem, ca.key and what was signed. */
  readonly dir: string;
  /** All so far, or those of a path. */
  requests(path?: string): readonly ReceivedRequest[];
  /** TCP connections so far, those without a request too. */
  connections(): number;
  /** Waits for so many requests (of a path), and returns all that are there. */
  received(count: number, path?: string, limitMs?: number): Promise<readonly ReceivedRequest[]>;
  /** The next answers, instead of those that are left; of a path, or of any. */
  script(steps: readonly Step[], path?: string): Promise<void>;
  /** Completes hanging requests; of a path, or of any. */
  release(path?: string): Promise<void>;
  /** false: connections are refused, those that stand are cut; true: on the same port again. */
  listen(on: boolean): Promise<void>;
  stop(): Promise<void>;
}

/** `t`: the test it ends with; undefined: with the whole file. */
export async function startReceiver(
  t: { after(stop: () => Promise<void>): void } | undefined,
  options: ReceiverOptions,
): Promise<Receiver> {
  const {
    names = 'DNS:localhost,IP:127.0.0.1',
    host = '127.0.0.1',
    wrapper = [],
    lasting: isLasting,
    ...more
  } = options;
  const dir = temporaryDirectory();
  const valid = isLasting === true ? { valid: lasting } : {};
  makeCa(dir, 'ca', valid.valid);
  signed(dir, 'receiver', names, valid);
  const record = new RecordFile(join(dir, 'requests.jsonl'), options.secrets);
  const script = new Orders(wrapper, 'webhook_receiver.py');
  const files = { cert: join(dir, 'receiver.pem'), key: join(dir, 'receiver.key'), record: record.path };
  const { port = 0 } = await script.first({ ...more, host, ...files });
  t?.after(() => script.stop());
  return {
    url: `https://${host.includes(':') ? `[${host}]` : host}:${port}/hook`,
    port,
    caFile: join(dir, 'ca.pem'),
    dir,
    requests: (path) => record.requests(path),
    connections: () => record.connections(),
    received(count, path, limitMs) {
      const enough = () => (record.requests(path).length >= count ? record.requests(path) : undefined);
      return until(`${count} requests${path === undefined ? '' : ` to ${path}`} at the subscriber`, enough, limitMs);
    },
    script: (steps, path = '*') => script.order({ script: { path, steps } }),
    release: (path = '*') => script.order({ release: path }),
    listen: (listen) => script.order({ listen }),
    stop: () => script.stop(),
  };
}

type Line = { kind: 'connection' | 'request' | 'end'; n: number; at: number } & Omit<Kept, 'body'> & {
    body: string;
    signedBy: number | null;
    how: RequestEnd['how'];
    sent: number;
    status: number;
  };
type Kept = { -readonly [K in keyof ReceivedRequest]: ReceivedRequest[K] };

/** Reads on where it was: a test looks often, and a file may be large. */
class RecordFile {
  readonly path: string;
  readonly #secrets: readonly string[];
  #read = 0;
  #rest = '';
  #connections = 0;
  readonly #requests: Kept[] = [];

  constructor(path: string, secrets: readonly string[]) {
    this.path = path;
    this.#secrets = secrets;
  }

  requests(path?: string): readonly ReceivedRequest[] {
    this.#more();
    return this.#requests.filter((one) => path === undefined || one.path === path);
  }

  connections(): number {
    this.#more();
    return this.#connections;
  }

  #more(): void {
    const file = openSync(this.path, 'r');
    try {
      const bytes = Buffer.alloc(fstatSync(file).size - this.#read);
      this.#read += readSync(file, bytes, 0, bytes.length, this.#read);
      // Lines are ASCII, so no character is cut in two.
      const lines = (this.#rest + bytes.toString('latin1')).split('\n');
      this.#rest = lines.pop() ?? '';
      for (const line of lines) this.#take(JSON.parse(line) as Line);
    } finally {
      closeSync(file);
    }
  }

  #take(line: Line): void {
    const { kind, n, at, how, sent, status } = line;
    if (kind === 'connection') {
      this.#connections += 1;
      return;
    }
    if (kind === 'request') {
      this.#requests.push(this.#requestOf(line));
      return;
    }
    const ended = this.#requests.findLast((one) => one.n === n);
    if (ended !== undefined) ended.end = { at, how, sent, status };
  }

  #requestOf({ body, signedBy, ...kept }: Line): Kept {
    const raw = Buffer.from(body, 'base64');
    const header = Object.fromEntries(kept.headers.map(([name, value]) => [name.toLowerCase(), value]));
    const secret = signedBy === null ? undefined : this.#secrets[signedBy];
    return { ...kept, header, raw, body: parsedBody(raw), signedBy: secret, end: undefined };
  }
}

function parsedBody(raw: Buffer): DeliveredBody | undefined {
  try {
    return JSON.parse(raw.toString('utf8')) as DeliveredBody;
  } catch {
    return undefined;
  }
}
