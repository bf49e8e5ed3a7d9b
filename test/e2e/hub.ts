/** The hub in end-to-end tests: alone, or with the line as `lineside serve` runs them; and requests to it. */
import { readFileSync } from 'node:fs';
import { until, within } from '../../src/shared/base/wait.fixture.ts';
import {
  type Client,
  connectTo,
  type DaemonOptions,
  daemonPid,
  killGroup,
  launch,
  listening,
  signalPid,
  untilLogOpened,
} from './daemon.ts';
import { type Answer, HubApi } from './hub-api.ts';

/** `body`: parsed if it is JSON, text otherwise. */
export type HttpAnswer = Omit<Answer, 'body'> & { readonly body: unknown };

export interface HttpOptions {
  /** Goes over TCP with this token instead of the Unix socket. */
  readonly token?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Hub {
  /** Of the hub's process; another one after it was started again. */
  pid(): number;
  readonly dir: string;
  readonly configFile: string;
  readonly socket: string;
  /** host:port */
  readonly address: string;
  readonly logLines: readonly string[];
  waitFor(pattern: RegExp, from?: number): Promise<string>;
  /** A body that is no text is sent as JSON. */
  http(method: string, path: string, body?: unknown, options?: HttpOptions): Promise<HttpAnswer>;
  /** SIGTERM to what was started, and its exit status when it has ended. */
  stop(): Promise<number | string>;
  /** SIGKILL to the hub's process, and until it is gone. */
  kill(): Promise<void>;
  readonly ended: Promise<number | string>;
}

/** The line and its hub. `pid()`, `kill()` are the hub's; `linePid`, `client` the line's. */
export interface Both extends Hub {
  readonly linePid: number;
  readonly client: Client;
}

/** The hub alone. */
export async function startHub(options: DaemonOptions = {}): Promise<Hub> {
  const started = launch({ ...options, role: 'hub' });
  try {
    const ready = await started.waitFor(/ info hub ready /);
    const pid = await until('the pid of the hub', () => daemonPid(started.child.pid));
    return asHub(started, ready, () => pid);
  } catch (error) {
    killGroup(started.child);
    throw error;
  }
}

/** What `lineside serve` runs, once both are ready. */
export async function startBoth(options: DaemonOptions = {}): Promise<Both> {
  const started = launch({ ...options, role: 'both' });
  try {
    const line = listening(await started.waitFor(/ info ready /));
    const ready = await started.waitFor(/ info hub ready /);
    const linePid = await until('the pid of the line', () => daemonPid(started.child.pid));
    const pid = (): number => lastHubPid(started.logLines);
    const client = connectTo(line.socket === '' ? line.address : `unix:${line.socket}`);
    if (line.socket !== '') await untilLogOpened(client);
    const hub = asHub(started, ready, pid);
    return {
      ...hub,
      linePid,
      client,
      async stop() {
        signalPid(linePid, 'SIGTERM');
        const how = await within('the service ends', started.ended);
        client.close();
        return how;
      },
    };
  } catch (error) {
    killGroup(started.child);
    throw error;
  }
}

/** The log without what the machine of the test itself lacks (memory, disk, a good supply): the hub reports that as well. */
export function ownLog(logLines: readonly string[]): string {
  return logLines.filter((line) => !/ alert fired alert=Host/.test(line)).join('\n');
}

function lastHubPid(logLines: readonly string[]): number {
  const line = logLines.findLast((one) => / info hub started /.test(one)) ?? '';
  return Number(/pid=(\d+)/.exec(line)?.[1] ?? 0);
}

function asHub(
  { dir, configFile, logLines, waitFor, ended }: ReturnType<typeof launch>,
  ready: string,
  pid: () => number,
): Hub {
  const { socket, address } = listening(ready);
  return {
    pid,
    dir,
    configFile,
    socket,
    address,
    logLines,
    waitFor,
    ended,
    http: (method, path, body, options = {}) =>
      ask(options.token === undefined ? `unix:${socket}` : address, method, path, body, options),
    async stop() {
      signalPid(pid(), 'SIGTERM');
      return within('the hub ends', ended);
    },
    async kill() {
      const old = pid();
      signalPid(old, 'SIGKILL');
      await until(`the end of ${old}`, () => !isAlive(old));
    },
  };
}

async function ask(
  address: string,
  method: string,
  path: string,
  body: unknown,
  { token, headers = {} }: HttpOptions,
): Promise<HttpAnswer> {
  const api = new HubApi(address, token);
  try {
    const sent = body === undefined ? {} : { body: body as object | string };
    const answer = await api.send(method, path, { ...sent, headers });
    return { ...answer, body: answer.body ?? answer.text };
  } finally {
    api.close();
  }
}

/** A zombie that is not reaped yet counts as ended. */
export function isAlive(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat[stat.lastIndexOf(')') + 2] !== 'Z';
  } catch {
    return false;
  }
}
