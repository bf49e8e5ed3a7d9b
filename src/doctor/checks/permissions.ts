/** Check of access rights: the service's directories and sockets, the port's group, and files that hold secrets. */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { systemCode } from '../../shared/base/errors.ts';
import { pidsOfUnit, runningOf } from '../../shared/base/processes.ts';
import { type Finding, type Findings, failed, needsRoot, orFine, skipped, warning } from '../check.ts';
import { type CheckContext, type ConfiguredContext, namedFiles, portsOf } from '../check-context.ts';
import { kindOf, modeOf, textOf } from '../safe-files.ts';

export interface RightsFact {
  /** "data.dir", "the file of tls.key_file". */
  readonly what: string;
  readonly is: 'there' | 'missing' | 'unseen' | 'odd';
  readonly kind: string;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly rule: 'directory' | 'secret' | 'tokens' | 'public' | 'port';
  /** The user of the process that uses it; undefined: unknown. */
  readonly user: User | undefined;
}

type User = { readonly uid: number; readonly gids: readonly number[] };
type RuleName = RightsFact['rule'];

const othersMayRead = 0o004;
const othersMayWrite = 0o002;
const groupMayWrite = 0o020;

interface Rule {
  readonly mayBeMissing: boolean;
  readonly isSecret: boolean;
  /** Bits that its user needs, and their purpose. */
  readonly needs: number;
  readonly verb: string;
  readonly todo: string;
}

const giveIt = 'Give it to the user or the group of the service.';
const plain: Rule = { mayBeMissing: false, isSecret: false, needs: 0o4, verb: 'read', todo: giveIt };
const rules: Readonly<Record<RuleName, Rule>> = {
  directory: { ...plain, mayBeMissing: true, needs: 0o7, verb: 'write in' },
  secret: { ...plain, isSecret: true },
  tokens: { ...plain, isSecret: true, mayBeMissing: true },
  public: plain,
  port: { ...plain, needs: 0o6, verb: 'open', todo: 'Add its user to the group of the port, mostly dialout.' },
};

export function* judgeRights(fact: RightsFact): Findings {
  const { what, is, kind, user } = fact;
  const rule = rules[fact.rule];
  if (is === 'unseen') yield needsRoot(what);
  if (is === 'odd') yield failed(`${what} is ${kind}`, 'Let it name what it is for.');
  if (is === 'missing' && !rule.mayBeMissing)
    yield failed(
      `${what} is missing: there is no file of the name that is configured`,
      'Put the file there, or correct the key.',
    );
  if (is !== 'there') return;
  yield* judgeMode(fact, rule);
  if (user === undefined || may(fact, user, rule.needs)) return;
  const owner = `owner ${fact.uid}, group ${fact.gid}, mode ${modeOf(fact)}`;
  yield failed(`the service (user ${user.uid}) may not ${rule.verb} ${what} (${owner})`, rule.todo);
}

/** The rights of a port are set by udev. */
function* judgeMode({ what, mode, rule: name }: RightsFact, { isSecret }: Rule): Findings {
  const shown = `(mode ${modeOf({ mode })})`;
  if (isSecret && (mode & othersMayRead) !== 0)
    yield warning(
      `${what} may be read by everybody ${shown}`,
      'chmod o-rwx it; if it was so for long, replace the secret.',
    );
  if ((mode & othersMayWrite) !== 0 && name !== 'port')
    yield failed(`${what} may be changed by everybody ${shown}`, 'chmod o-w it.');
  else if (name === 'secret' && (mode & groupMayWrite) !== 0)
    yield warning(`${what} may be changed by its group ${shown}`, 'chmod g-w it.');
}

function may({ mode, uid, gid }: RightsFact, user: User, needs: number): boolean {
  if (user.uid === 0) return true;
  const bits = user.uid === uid ? mode >> 6 : user.gids.includes(gid) ? mode >> 3 : mode;
  return (bits & needs) === needs;
}

export async function checkPermissions(context: ConfiguredContext): Promise<Finding[]> {
  const { config, hubDir } = context;
  const user = (unit: string, name: string) => (context.isUnits ? unitUser(context, unit, name) : undefined);
  const line = await user('lineside.service', 'lineside');
  const hub = (await user('lineside-hub.service', 'lineside-hub')) ?? line;
  const facts = [
    await factOf('data.dir', config.data.dir, 'directory', line),
    await factOf("the hub's data directory", hubDir, 'directory', hub),
    await factOf('data.runtime_dir', config.data.runtimeDir, 'directory', line),
    await factOf('the tokens file', config.auth.tokensFile, 'tokens', line),
  ];
  for (const { key, file, isSecret, reader } of namedFiles(context)) {
    const users = { systemd: undefined, hub, line };
    const fact = await factOf(`the file of ${key}`, file, isSecret ? 'secret' : 'public', users[reader]);
    // The service creates webhooks.key_file; certificates have a check of their own.
    if (fact.is !== 'missing' || !/^(?:tls\.|webhooks\.key_file$)/.test(key)) facts.push(fact);
  }
  const findings = [...facts.flatMap((fact) => [...judgeRights(fact)]), ...(await portRights(context, line))];
  return orFine(findings, `${facts.length} files and directories are as they should be`);
}

async function factOf(what: string, path: string, rule: RuleName, user: User | undefined): Promise<RightsFact> {
  const nothing = { what, rule, user, kind: '', mode: 0, uid: 0, gid: 0 };
  const stats = await stat(path).catch((error: unknown) => systemCode(error));
  if (typeof stats === 'string') {
    const isMissing = stats === 'ENOENT' || stats === 'ENOTDIR';
    return { ...nothing, is: isMissing ? 'missing' : 'unseen' };
  }
  const { mode, uid, gid } = stats;
  const fits = { directory: stats.isDirectory(), port: stats.isCharacterDevice() }[rule as string] ?? stats.isFile();
  return { ...nothing, is: fits ? 'there' : 'odd', kind: kindOf(stats), mode, uid, gid };
}

async function portRights(context: CheckContext, line: User | undefined): Promise<Finding[]> {
  const ports = await portsOf(context);
  if (line === undefined)
    return context.isRoot || ports.length === 0
      ? []
      : [skipped('whether the service may open the ports: it does not run')];
  const facts = await Promise.all(ports.map((port) => factOf(port.portName, port.devicePath, 'port', line)));
  return facts.flatMap((fact) => [...judgeRights(fact)]);
}

async function unitUser({ roots }: CheckContext, unit: string, name: string): Promise<User | undefined> {
  const [pid] = await pidsOfUnit(roots.sys, unit);
  if (pid !== undefined) {
    const status = await textOf(join(roots.proc, String(pid), 'status'));
    const numbers = (field: string): number[] =>
      (new RegExp(`^${field}:\\s+(.*)$`, 'm').exec(status)?.[1] ?? '').split(/\s+/).filter(Boolean).map(Number);
    const { uid } = await runningOf(roots.proc, pid);
    if (uid >= 0) return { uid, gids: [...numbers('Gid'), ...numbers('Groups')] };
  }
  const entry = (await textOf(join(roots.etc, 'passwd')))
    .split('\n')
    .find((line) => line.startsWith(`${name}:`))
    ?.split(':');
  if (entry === undefined) return undefined;
  const groups = (await textOf(join(roots.etc, 'group'))).split('\n').map((line) => line.split(':'));
  // The units give these whatever /etc/group says.
  const given = ['dialout', 'lineside'].flatMap((group) => groups.find(([one]) => one === group)?.[2] ?? []);
  const listed = groups.filter(([, , , members]) => members?.split(',').includes(name)).map(([, , gid]) => gid ?? '');
  return { uid: Number(entry[2]), gids: [Number(entry[3]), ...[...given, ...listed].map(Number)] };
}
