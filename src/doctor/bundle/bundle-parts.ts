/** The parts of a support bundle, before the redactor. */
import { readdir } from 'node:fs/promises';
import { arch, cpus, hostname, networkInterfaces, release, totalmem } from 'node:os';
import { join } from 'node:path';
import { checkLines, checkSummary } from '../../cli/output/box-reports.ts';
import { objectIn } from '../../shared/base/json.ts';
import { isSecretName, REMOVED, shownFile } from '../../shared/base/redactor.ts';
import { knownVariables } from '../../shared/config/config.ts';
import { describeConfig, keyLine } from '../../shared/config/load.ts';
import { type CheckContext, portsOf, usualConfigFile } from '../check-context.ts';
import { databaseFacts } from '../checks/disk.ts';
import { machineFacts } from '../checks/machine.ts';
import { ask, serviceFacts, socketOf } from '../checks/service.ts';
import { runChecks, titleWidth } from '../run-checks.ts';
import { isThere, namesIn, runTool, textOf } from '../safe-files.ts';

export interface Part {
  readonly name: string;
  readonly content: string | object;
}

export interface LeftOut {
  readonly what: string;
  readonly why: string;
}

type Piece = readonly (Part | LeftOut)[];

export function isPart(one: Part | LeftOut): one is Part {
  return 'name' in one;
}

export interface Collector {
  /** The name of the part in the manifest if it fails as a whole: "the journal". */
  readonly what: string;
  readonly limitMs: number;
  readonly collect: (context: CheckContext) => Promise<Piece>;
}

const mib = 1024 * 1024;
const journalLines = 20_000;
const journalLimitBytes = 8 * mib;
/** More than the kernel keeps. */
const kernelLimitBytes = 2 * mib;

/** The journal is last, and gets the remaining space. */
export const collectors: readonly Collector[] = [
  { what: "the doctor's findings", limitMs: 50_000, collect: doctorPart },
  { what: 'configuration', limitMs: 5_000, collect: configurationPart },
  { what: 'versions', limitMs: 10_000, collect: versionsPart },
  { what: 'answers of the service', limitMs: 20_000, collect: answersPart },
  { what: 'units', limitMs: 10_000, collect: unitsPart },
  { what: 'the machine', limitMs: 10_000, collect: machinePart },
  { what: 'ports and USB', limitMs: 10_000, collect: portsPart },
  { what: 'databases', limitMs: 15_000, collect: databasesPart },
  { what: 'the kernel log', limitMs: 5_000, collect: kernelPart },
  { what: 'the saved journal', limitMs: 5_000, collect: savedJournalPart },
  { what: 'the journal', limitMs: 20_000, collect: journalPart },
];

async function doctorPart(context: CheckContext): Promise<Piece> {
  const checked = await runChecks(context);
  const text = checked.map((one) => checkLines(one, titleWidth)).join('') + checkSummary(checked);
  return [
    { name: 'doctor.txt', content: text },
    { name: 'doctor.json', content: { checks: checked } },
  ];
}

/** Known keys with their parsed values: comments, unknown keys and unparsable text may be secrets. */
async function configurationPart({ configFile, config, env }: CheckContext): Promise<Piece> {
  const known = Object.entries(env).filter(([name]) => knownVariables.has(name));
  const others = Object.keys(env).filter(isUnknownVariable).length;
  const variables =
    known.map(([name, value]) => `${name}=${shownVariable(name, value ?? '')}\n`).join('') +
    (others === 0 ? '' : `# ${others} more, which lineside does not know\n`);
  const environment: Piece = variables === '' ? [] : [{ name: 'environment.txt', content: variables }];
  if (config === undefined)
    return [...environment, { what: 'configuration', why: `${configFile.kind} (see doctor.txt)` }];
  const lines = describeConfig({ config, settings: configFile.settings }).map((key) => {
    const written = configFile.settings.get(key.path)?.value;
    const isFile = /(?:_file|_dir|\.dir)$/.test(key.path) && typeof written === 'string' && written !== '';
    return `${keyLine(isFile ? { ...key, value: shownFile(written) } : key)}\n`;
  });
  return [{ name: 'configuration.txt', content: `# ${configFile.kind}\n${lines.join('')}` }, ...environment];
}

/** The value of an unknown variable may be a secret. */
export function isUnknownVariable(name: string): boolean {
  return name.startsWith('LINESIDE_') && !knownVariables.has(name);
}

function shownVariable(name: string, value: string): string {
  if (/_(?:FILE|DIR)$/.test(name)) return shownFile(value);
  return isSecretName(name) ? REMOVED : value;
}

async function versionsPart({ version, roots }: CheckContext): Promise<Piece> {
  const [os, board, model, kernelVersion] = await Promise.all([
    textOf(join(roots.etc, 'os-release')),
    textOf('/usr/lib/lineside/board'),
    textOf(join(roots.proc, 'device-tree/model')),
    textOf(join(roots.proc, 'version')),
  ]);
  const named = Object.fromEntries(
    os.split('\n').flatMap((line) => {
      const [, name = '', value = ''] = /^([A-Z_]+)="?([^"]*)"?$/.exec(line) ?? [];
      return /^(?:PRETTY_NAME|VERSION_ID|IMAGE_ID|IMAGE_VERSION|BUILD_ID)$/.test(name) ? [[name, value]] : [];
    }),
  );
  const content = {
    lineside: version,
    node: process.versions.node,
    libraries: { ...process.versions },
    os: named,
    kernel: release(),
    kernelVersion,
    architecture: arch(),
    model: model.replaceAll('\0', ''),
    board,
  };
  return [{ name: 'versions.json', content }];
}

async function answersPart(context: CheckContext): Promise<Piece> {
  const { clock, config } = context;
  if (config === undefined) return [{ what: 'answers of the service', why: 'the configuration cannot be read' }];
  const facts = await serviceFacts({ ...context, config });
  const { json: status, ...line } = { json: undefined, ...facts.line };
  const piece: (Part | LeftOut)[] = [{ name: 'service.json', content: { ...facts, line } }];
  if (status === undefined) piece.push({ what: "the line's status", why: `the line: ${line.kind}` });
  else piece.push({ name: 'line-status.json', content: { status } });
  const socket = socketOf(config.http.listen);
  const wanted = [
    ['/metrics', 'metrics.txt'],
    ['/readyz', 'readyz.json'],
    ['/api/v1/admin/host', 'host-as-reported.json'],
  ] as const;
  for (const [path, name] of wanted) {
    const answer = facts.hub.kind === 'answered' ? await ask(clock, socket, path) : facts.hub.kind;
    if (typeof answer === 'string') piece.push({ what: path, why: `the hub: ${answer}` });
    else piece.push({ name, content: objectIn(answer.body) ?? answer.body });
  }
  return piece;
}

const unitPatterns = ['lineside*.service', 'lineside*.socket', 'lineside*.timer'];
const properties =
  'Id,LoadState,ActiveState,SubState,Result,NRestarts,ExecMainStatus,ExecMainStartTimestamp,ActiveEnterTimestamp,StatusText,MemoryCurrent,MemoryPeak,TasksCurrent,FragmentPath,DropInPaths';

async function unitsPart({ clock, roots }: CheckContext): Promise<Piece> {
  if (!(await isThere(join(roots.run, 'systemd/system'))))
    return [{ what: 'unit states', why: 'systemd does not run here' }];
  const args = ['show', '--no-pager', `--property=${properties}`, ...unitPatterns];
  const { kind, stdout } = await runTool(clock, 'systemctl', args, { limitMs: 8_000, limitBytes: mib });
  return kind === 'done'
    ? [{ name: 'units.txt', content: stdout }]
    : [{ what: 'unit states', why: `systemctl: ${kind}` }];
}

async function machinePart(context: CheckContext): Promise<Piece> {
  const { proc } = context.roots;
  const read = ['meminfo', 'self/mountinfo', 'cmdline', 'consoles'].map((name) => textOf(join(proc, name)));
  const [meminfo, mounts = '', cmdline, consoles] = await Promise.all(read);
  const addresses = Object.entries(networkInterfaces()).flatMap(([name, all]) =>
    (all ?? []).map(({ address, family }) => ({ name, family, address })),
  );
  const facts = await machineFacts(context);
  const known = { hostname: hostname(), processors: cpus().length, memoryBytes: totalmem() };
  const of = { ...known, addresses, cmdline, consoles, facts, mounts: mounts.split('\n').map(mountOf) };
  return [
    { name: 'machine.json', content: of },
    { name: 'meminfo.txt', content: `${meminfo}\n` },
  ];
}

/** Options beyond these may hold the password of a share. */
function mountOf(line: string): string {
  const [before = '', after = ''] = line.split(' - ');
  const [type = '', source = ''] = after.split(' ');
  const [, , , , at = '', options = ''] = before.split(' ');
  return `${at} ${type} ${source.startsWith('/dev/') ? source : ''} ${options.split(',').includes('ro') ? 'ro' : 'rw'}`;
}

async function portsPart(context: CheckContext): Promise<Piece> {
  const { sys, proc } = context.roots;
  const ports = await portsOf(context);
  const usb = join(sys, 'bus/usb/devices');
  const devices = await Promise.all(
    (await namesIn(usb))
      .filter((name) => !name.includes(':'))
      .map(async (name) => ({
        at: name,
        id: `${await textOf(join(usb, name, 'idVendor'))}:${await textOf(join(usb, name, 'idProduct'))}`,
        manufacturer: await textOf(join(usb, name, 'manufacturer')),
        product: await textOf(join(usb, name, 'product')),
        speed: await textOf(join(usb, name, 'speed')),
      })),
  );
  const drivers = await textOf(join(proc, 'tty/drivers'));
  return [{ name: 'ports.json', content: { ports, usb: devices, drivers: drivers.split('\n') } }];
}

/** Sizes, counts and positions: no record, no event, no byte of the line. */
async function databasesPart(context: CheckContext): Promise<Piece> {
  const dirs = [...new Set([context.config?.data.dir ?? '', context.hubDir])].filter(Boolean);
  const files = await Promise.all(dirs.map(async (dir) => ({ dir, names: await readdir(dir).catch(() => []) })));
  return [{ name: 'databases.json', content: { databases: await databaseFacts(context), files } }];
}

const ofInterest =
  /tty|serial|uart|usb|ftdi|cp210|ch34|pl2303|cdc_acm|voltage|throttl|mmc|ext4|I\/O error|oom|out of memory|watchdog/i;

async function kernelPart({ clock }: CheckContext): Promise<Piece> {
  const { kind, stdout } = await runTool(clock, 'dmesg', [], { limitMs: 4_000, limitBytes: kernelLimitBytes });
  if (kind !== 'done') return [{ what: 'the kernel log', why: `dmesg: ${kind}` }];
  const lines = stdout.split('\n').filter((line) => ofInterest.test(line));
  return [{ name: 'kernel.txt', content: `${lines.join('\n')}\n` }];
}

/** The image keeps its journal in memory, and saves warnings and worse from time to time. */
const savedJournal = '/var/lib/lineside-journal';
const savedLimitBytes = 4 * mib;

async function savedJournalPart({ isUnits }: CheckContext): Promise<Piece> {
  if (!isUnits || !(await isThere(savedJournal))) return [];
  const names = ['previous.log', 'current.log'];
  const texts = await Promise.all(names.map((name) => textOf(join(savedJournal, name), savedLimitBytes)));
  return [{ name: 'journal-saved.txt', content: texts.map((text) => `${text}\n`).join('') }];
}

async function journalPart({ clock, isUnits, configFile }: CheckContext): Promise<Piece> {
  if (!isUnits) {
    const why =
      configFile.file === usualConfigFile ? 'systemd does not run here' : 'this configuration is not that of the units';
    return [{ what: 'the journal', why }];
  }
  const args = ['-u', 'lineside*', '-n', String(journalLines), '-o', 'short-iso-precise', '--no-pager', '-q'];
  const limits = { limitMs: 18_000, limitBytes: journalLimitBytes };
  const { kind, stdout, cut } = await runTool(clock, 'journalctl', args, limits);
  if (kind !== 'done' && stdout === '') return [{ what: 'the journal', why: `journalctl: ${kind}` }];
  const older = cut ? [{ what: 'older lines of the journal', why: `more than ${journalLimitBytes / mib} MiB` }] : [];
  return [{ name: 'journal.txt', content: stdout }, ...older];
}
