/** Checks of the running service: its units, whether line and hub answer on their own sockets, and what the journal says. */
import { stat } from 'node:fs/promises';
import { request } from 'node:http';
import { connect } from 'node:net';
import { dirname, join } from 'node:path';
import { ClientError, Status } from 'nice-grpc';
import { type Clock, withLimit } from '../../shared/base/clock.ts';
import { LinesideError, systemCode } from '../../shared/base/errors.ts';
import { objectIn } from '../../shared/base/json.ts';
import { pidsOfUnit } from '../../shared/base/processes.ts';
import { Redactor } from '../../shared/base/redactor.ts';
import type { Config } from '../../shared/config/config.ts';
import { type ListenAddress, showListen } from '../../shared/config/listen.ts';
import { lineside } from '../../shared/gen/proto.js';
import { promisedSockets } from '../../shared/host/systemd-sockets.ts';
import { connectLine } from '../../shared/line-client/line-client.ts';
import { type Finding, type Findings, failed, needsRoot, ok, orFine, skipped, warning } from '../check.ts';
import { type CheckContext, type ConfiguredContext, within } from '../check-context.ts';
import { isThere, runTool, type ToolAnswer } from '../safe-files.ts';
import { connectCode } from './network.ts';

const answerLimitMs = 4_000;
/** /metrics of a box with many dictionaries has some 100 KB. */
const answerLimitBytes = 2 * 1024 * 1024;

type Answer =
  | {
      readonly kind: 'answered';
      readonly version: string;
      readonly detail: string;
      /** Why the line does not store its log; '': it does. */
      readonly notStored?: string;
      /** The line's whole status, as protobuf's JSON. */
      readonly json?: object;
    }
  /** No socket; no process listens; no answer; no right to connect; not configured. */
  | { readonly kind: 'absent' | 'refused' | 'late' | 'denied' | 'none' }
  | { readonly kind: 'failed'; readonly detail: string };

export interface ServiceFacts {
  /** undefined: not systemd's. */
  readonly units: Readonly<Record<string, 'active' | 'inactive'>> | undefined;
  readonly line: Answer;
  readonly hub: Answer;
  readonly version: string;
}

const startIt = 'Start it: systemctl start lineside (without systemd: lineside serve).';

export function* judgeService({ units, line, hub, version }: ServiceFacts): Findings {
  const names = Object.keys(units ?? {});
  const stopped = names.filter((unit) => units?.[unit] === 'inactive');
  for (const unit of stopped) yield failed(`${unit} does not run`, `systemctl status ${unit} says why. ${startIt}`);
  if (names.length > 0 && stopped.length === 0) yield ok(`${names.join(' and ')} run`);
  yield* judgeAnswer('the line', line, stopped.length > 0);
  yield* judgeAnswer('the hub', hub, stopped.length > 0);
  const versionOf = (one: Answer): string => (one.kind === 'answered' ? one.version : 'unknown');
  if ([line, hub].some((one) => one.kind === 'answered' && one.version !== version))
    yield warning(
      `versions differ: line ${versionOf(line)}, hub ${versionOf(hub)}, installed ${version}`,
      'Restart the service: systemctl restart lineside.',
    );
}

function* judgeAnswer(who: string, answer: Answer, isStopped: boolean): Findings {
  switch (answer.kind) {
    case 'answered':
      yield answer.detail === ''
        ? ok(`${who} answers, version ${answer.version}`)
        : warning(`${who} answers: ${answer.detail}`, 'See lineside status and lineside alerts.');
      if (answer.notStored) yield failed(answer.notStored, 'See lineside status, and df for the disk of data.dir.');
      return;
    case 'none':
      return yield skipped(`${who} listens on no Unix socket`);
    case 'denied':
      return yield skipped(
        `${who}: its socket is not for this user`,
        'Run it as root, or as a member of group lineside.',
      );
    case 'absent':
    case 'refused':
      if (!isStopped) yield failed(`${who} does not run: no process listens on its socket`, startIt);
      return;
    case 'late':
      return yield failed(
        `${who} takes a connection and does not answer within ${answerLimitMs / 1000} s`,
        'systemctl restart lineside; keep a support bundle before.',
      );
    case 'failed':
      return yield failed(
        `${who} answers with a failure: ${answer.detail}`,
        'See lineside status; the journal says more.',
      );
  }
}

export async function checkService(context: ConfiguredContext): Promise<Findings> {
  return judgeService(await serviceFacts(context));
}

const unitNames = ['lineside.service', 'lineside-hub.service'];

export async function serviceFacts(context: ConfiguredContext): Promise<ServiceFacts> {
  const { config } = context;
  const units = await unitStates(context);
  // If systemd holds the sockets, a connection would start a stopped unit.
  const isStopped = units?.['lineside.service'] === 'inactive';
  const isHubStopped = isStopped || units?.['lineside-hub.service'] === 'inactive';
  const [line, hub] = await Promise.all([
    isStopped ? ({ kind: 'absent' } as const) : askLine(context.clock, config),
    isHubStopped ? ({ kind: 'absent' } as const) : askHub(context.clock, config),
  ]);
  return { units, line, hub, version: context.version };
}

async function unitStates({ isUnits, roots }: CheckContext): Promise<ServiceFacts['units']> {
  // Without control groups of version 2 the state of units is unknown.
  if (!isUnits || !(await isThere(join(roots.sys, 'fs/cgroup/system.slice')))) return undefined;
  const states = await Promise.all(
    unitNames.map(async (unit) => [unit, (await pidsOfUnit(roots.sys, unit)).length > 0] as const),
  );
  return Object.fromEntries(states.map(([unit, runs]) => [unit, runs ? 'active' : 'inactive'] as const));
}

/** '' if there is none. */
export function socketOf(listen: readonly ListenAddress[]): string {
  for (const one of listen) if (one.kind === 'unix') return one.path;
  return '';
}

async function socketTrouble(path: string): Promise<Answer | undefined> {
  if (path === '') return { kind: 'none' };
  const found = await stat(path).catch((error: unknown) => systemCode(error));
  if (found === 'EACCES') return { kind: 'denied' };
  if (typeof found === 'string') return { kind: 'absent' };
  return found.isSocket() ? undefined : { kind: 'failed', detail: 'there is something else in place of its socket' };
}

async function askLine(clock: Clock, config: Config): Promise<Answer> {
  const path = socketOf(config.grpc.listen);
  const trouble = await socketTrouble(path);
  if (trouble !== undefined) return trouble;
  const client = connectLine(path);
  const never = new AbortController().signal;
  try {
    const status = await withLimit(clock, answerLimitMs, never, (signal) => client.line.getStatus({}, { signal }));
    const json: object = lineside.v1.LineStatus.fromObject(status).toJSON();
    const { version, portError, log } = status;
    return { kind: 'answered', version, detail: portError, notStored: log?.error ?? '', json };
  } catch (error) {
    if (error instanceof LinesideError) return { kind: 'late' };
    if (!(error instanceof ClientError)) return { kind: 'failed', detail: 'no answer that can be understood' };
    if (error.code === Status.PERMISSION_DENIED || /EACCES/.test(error.details)) return { kind: 'denied' };
    if (error.code === Status.UNAVAILABLE) return { kind: 'refused' };
    return { kind: 'failed', detail: Status[error.code] ?? 'an error' };
  } finally {
    client.close();
  }
}

async function askHub(clock: Clock, config: Config): Promise<Answer> {
  const path = socketOf(config.http.listen);
  const trouble = await socketTrouble(path);
  if (trouble !== undefined) return trouble;
  const health = await ask(clock, path, '/healthz');
  if (typeof health === 'string') return { kind: health };
  const ready = await ask(clock, path, '/readyz');
  const version = /"version":"([\w.+-]{1,40})"/.exec(health.body)?.[1] ?? 'unknown';
  if (typeof ready === 'string') return { kind: ready };
  if (health.status !== 200) return { kind: 'failed', detail: `status ${health.status}` };
  return { kind: 'answered', version, detail: ready.status === 200 ? '' : `it is not ready: ${reasonsIn(ready.body)}` };
}

function reasonsIn(body: string): string {
  const found = objectIn(body);
  if (found === undefined) return 'it does not say why';
  const { reasons, detail } = found as { reasons?: unknown; detail?: unknown };
  const all = Array.isArray(reasons) ? reasons.join('; ') : typeof detail === 'string' ? detail : '';
  return new Redactor().text(all.slice(0, 500));
}

export async function ask(
  clock: Clock,
  socketPath: string,
  path: string,
): Promise<{ readonly status: number; readonly body: string } | 'late' | 'refused' | 'denied'> {
  const sent = request({ socketPath, path, agent: false });
  const answered = new Promise<Awaited<ReturnType<typeof ask>>>((resolve) => {
    sent.once('error', (error) => resolve(systemCode(error) === 'EACCES' ? 'denied' : 'refused'));
    sent.once('response', (response) => {
      const parts: Buffer[] = [];
      let bytes = 0;
      response.on('data', (part: Buffer) => {
        bytes += part.length;
        if (bytes <= answerLimitBytes) parts.push(part);
        else response.destroy();
      });
      const { statusCode: status = 0 } = response;
      response.once('close', () => resolve({ status, body: Buffer.concat(parts).toString('utf8') }));
    });
    sent.end();
  });
  const result = await within(clock, answerLimitMs, answered, 'late');
  sent.destroy();
  return result;
}

/** Promised listeners, and whether the kernel accepts a connection there. */
interface ListenerFacts {
  /** The socket unit; '' if the configuration names the address. */
  readonly unit: string;
  readonly isOpen: boolean;
  /** Each address, and what is wrong there; '': nothing is. */
  readonly addresses: readonly (readonly [address: string, trouble: string])[];
}

/** `unserved`: what line and hub report of their own listeners; another program may accept connections in their place. */
function judgeListeners(listeners: readonly ListenerFacts[], unserved: readonly string[]): Finding[] {
  const all = listeners.flatMap(({ addresses }) => addresses.map(([address]) => address));
  if (all.length === 0) return [skipped('no address is promised besides the Unix sockets')];
  const reported = unserved.map((fault) => failed(fault, 'See lineside status; ss -tlnp shows what listens there.'));
  return orFine([...listeners.flatMap(listenerFaults), ...reported], `connections are taken on ${all.join(', ')}`);
}

function listenerFaults({ unit, isOpen, addresses }: ListenerFacts): Finding[] {
  const what = addresses.map(([address]) => address).join(', ');
  if (!isOpen)
    return [failed(`${unit} is not open (${what})`, `systemctl restart lineside; systemctl status ${unit}.`)];
  return addresses
    .filter(([, trouble]) => trouble !== '')
    .map(([address, trouble]) => failed(`${address}${unit && ` (${unit})`}: ${trouble}`, 'systemctl restart lineside'));
}

export async function checkListeners(context: ConfiguredContext): Promise<Finding[]> {
  const { config, clock } = context;
  // Port 0 changes at each start; without systemd, the check of the service covers the Unix sockets.
  const listen = [...config.grpc.listen, ...config.http.listen].filter((one) => one.kind === 'tcp' && one.port !== 0);
  const promised = context.isUnits
    ? await promisedSockets()
    : [{ unit: '', isOpen: true, addresses: listen.map(showListen) }];
  if (promised === undefined) return [skipped('systemd does not answer (systemctl)')];
  if (context.isUnits && (await unitStates(context))?.['lineside.service'] === 'inactive')
    return [skipped('the service does not run')];
  const facts = promised.map(async ({ unit, isOpen, addresses }): Promise<ListenerFacts> => {
    const asked = addresses.map(async (address) => [address, isOpen ? await troubleAt(clock, address) : ''] as const);
    return { unit, isOpen, addresses: await Promise.all(asked) };
  });
  const unserved = await Promise.all([lineFault(clock, config), hubFault(clock, config)]);
  return judgeListeners(
    await Promise.all(facts),
    unserved.filter((fault) => fault !== ''),
  );
}

/** '' also if the line does not answer, which the check of the service reports. */
async function lineFault(clock: Clock, config: Config): Promise<string> {
  const answer = await askLine(clock, config);
  const fault = answer.kind === 'answered' ? reportedFault(answer.json) : '';
  return fault && `the line: ${fault}`;
}

async function hubFault(clock: Clock, config: Config): Promise<string> {
  const path = socketOf(config.http.listen);
  const answer = path === '' ? 'refused' : await ask(clock, path, '/api/v1/admin/host');
  const fault = typeof answer === 'string' ? '' : reportedFault(objectIn(answer.body)?.['hub']);
  return fault && `the hub: ${fault}`;
}

/** In the status of the line, or of the hub. */
function reportedFault(status: unknown): string {
  const { listenerFault } = { ...(status as { readonly listenerFault?: unknown } | undefined) };
  return typeof listenerFault === 'string' ? new Redactor().text(listenerFault) : '';
}

/** An address as systemd or the configuration writes it. A wildcard is tried on the loopback address. */
async function troubleAt(clock: Clock, address: string): Promise<string> {
  if (address.startsWith('/')) {
    const socket = await stat(address).catch(() => undefined);
    if (socket === undefined) return 'there is no such socket';
    // The directory has the group that may use it.
    if (socket.gid !== (await stat(dirname(address))).gid) return `it belongs to another group (${socket.gid})`;
  }
  const [, host = '', port = ''] = /^(.*):(\d+)$/.exec(address) ?? [];
  const own = host === '[::]' ? '::1' : host === '0.0.0.0' ? '127.0.0.1' : host.replace(/^\[|\]$/g, '');
  const socket = connect(address.startsWith('/') ? { path: address } : { host: own, port: Number(port) });
  const code = await connectCode(clock, socket, answerLimitMs);
  socket.destroy();
  if (code === '' || code === 'EACCES') return '';
  return code === 'ETIMEDOUT'
    ? `no connection within ${answerLimitMs / 1000} s`
    : `no connection is accepted (${code})`;
}

const journalLimitMs = 8_000;
const journalLines = 200;

type Journal = { readonly kind: ToolAnswer['kind'] | 'denied'; readonly lines: readonly string[] };

export function judgeJournal({ kind, lines }: Journal): [Finding] {
  if (kind === 'missing') return [skipped('there is no journal here (journalctl)')];
  if (kind === 'denied') return [needsRoot('the journal')];
  if (kind === 'late') return [skipped(`journalctl did not end within ${journalLimitMs / 1000} s`)];
  if (kind === 'failed') return [skipped('journalctl failed')];
  if (lines.length === 0) return [ok('no error of the last 24 hours')];
  const many = lines.length >= journalLines ? `${lines.length} or more` : String(lines.length);
  const found = `${many} errors in the last 24 hours, the newest: ${new Redactor().text(lines.at(-1) ?? '').slice(0, 300)}`;
  return [warning(found, 'journalctl -u lineside -u lineside-hub -p err')];
}

export async function checkJournal(context: CheckContext): Promise<Finding[]> {
  if (!context.isUnits) return [skipped('the service is not run by systemd: its log is where it was started')];
  const which = ['-u', 'lineside', '-u', 'lineside-hub', '-p', 'err', '--since', '-24h', '-n', String(journalLines)];
  const args = [...which, '-o', 'cat', '--no-pager', '-q'];
  const { kind, stdout, stderr } = await runTool(context.clock, 'journalctl', args, {
    limitMs: journalLimitMs,
    limitBytes: 256 * 1024,
  });
  const isDenied = kind === 'done' && /not seeing messages|insufficient permissions/i.test(stderr);
  const lines = stdout.split('\n').filter((line) => line.trim() !== '' && !line.startsWith('-- '));
  return judgeJournal({ kind: isDenied ? 'denied' : kind, lines });
}
