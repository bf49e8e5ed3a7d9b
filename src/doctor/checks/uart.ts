/**
 * Checks of the port: does it exist, may it be opened, which process has it open, is a console on it. The checks never open
 * the port: that changes the modem lines and takes bytes from the process that reads.
 */
import { constants } from 'node:fs';
import { access, realpath } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { type Holders, holdersOf, processIds, runningOf } from '../../shared/base/processes.ts';
import { type Finding, type Findings, failed, objectIn, ok, orFine, skipped, warning } from '../check.ts';
import { type CheckContext, portsOf } from '../check-context.ts';
import { isThere, namesIn, succeeds, textOf } from '../safe-files.ts';

export interface PortFacts {
  readonly name: string;
  readonly isWanted: boolean;
  readonly holders: Holders;
  readonly openable: boolean;
}

export interface UartFacts {
  readonly ports: readonly PortFacts[];
  /** The port that the service opens; '' if none is named. */
  readonly wanted: string;
  readonly wantedIs: 'listed' | 'unlisted' | 'missing' | 'none';
  readonly simulate: boolean;
}

export function* judgeUart({ ports, wanted, wantedIs, simulate }: UartFacts): Findings {
  const count = ports.length === 1 ? 'one port' : `${ports.length} ports`;
  if (ports.length > 0) yield ok(`${count}: ${ports.map(({ name }) => name).join(', ')}`);
  else if (simulate) yield ok('no port but the simulated line');
  else
    yield warning(
      'there is no serial port',
      'Plug the adapter in; on a Raspberry Pi let config.txt switch the UART on.',
    );
  if (wantedIs === 'missing')
    yield failed(
      `${wanted}, which is to be opened, is not there`,
      'Plug it in, or name another port (lineside devices lists them).',
    );
  if (wantedIs === 'unlisted')
    yield failed(
      `${wanted} is there and is no port of the service`,
      'Name a listed port, or add it to serial.extra_ports.',
    );
  for (const port of ports) yield* judgePort(port);
}

function* judgePort({ name, isWanted, holders: { holders, unseen }, openable }: PortFacts): Findings {
  const say = isWanted ? failed : warning;
  for (const { name: program, pid } of holders.filter(({ isLineside }) => !isLineside))
    yield say(
      `${name} is held open by ${program} (process ${pid})`,
      `End that program (a getty: systemctl disable --now serial-getty@${basename(name)}): two readers share the bytes.`,
    );
  const ours = holders.find(({ isLineside }) => isLineside);
  if (ours !== undefined) return yield ok(`${name} is open in lineside (process ${ours.pid})`);
  if (!isWanted) return;
  if (unseen > 0) yield skipped(`who holds ${name}: ${unseen} processes are other users'`, 'Run it as root.');
  if (!openable)
    yield skipped(
      `${name} may not be opened by this user`,
      'The service has group dialout; for yourself: adduser USER dialout.',
    );
}

export async function checkUart(context: CheckContext): Promise<Findings> {
  const { config, roots } = context;
  const ports = await portsOf(context);
  const wanted = await wantedPort(context);
  const found = ports.find((port) => port.portName === wanted || port.links.includes(wanted));
  const facts: PortFacts[] = [];
  for (const port of ports) {
    const device = await realpath(port.devicePath).catch(() => port.devicePath);
    facts.push({
      name: port.portName,
      isWanted: port === found,
      holders: await holdersOf(roots.proc, device),
      openable: await succeeds(access(device, constants.R_OK | constants.W_OK)),
    });
  }
  const isElsewhere = wanted !== '' && found === undefined && (await isThere(wanted));
  const missing = isElsewhere ? 'unlisted' : 'missing';
  const simulate = config?.serial.simulate === true;
  const isSimulated = simulate && wanted.startsWith(config?.data.runtimeDir ?? '/dev/null');
  const wantedIs = wanted === '' || isSimulated ? 'none' : found === undefined ? missing : 'listed';
  return judgeUart({ ports: facts, wanted, wantedIs, simulate });
}

/** By the configuration, or the port that the service had open last. */
async function wantedPort({ config }: CheckContext): Promise<string> {
  if (config === undefined) return '';
  const { atStart, line } = config.serial;
  if (atStart === 'open') return line.port;
  if (atStart === 'closed') return '';
  const state = objectIn(await textOf(join(config.data.dir, 'line-state.json')));
  const { open } = (state ?? {}) as { open?: { portName?: unknown } | null };
  return typeof open?.portName === 'string' ? open.portName : '';
}

export interface ConsoleFacts {
  readonly cmdline: string;
  /** /proc/consoles: the current ones. */
  readonly consoles: string;
  readonly gettys: readonly string[];
  /** config.txt of the firmware; '' if there is none. */
  readonly firmware: string;
  /** Targets of links such as /dev/serial0: "serial0" to "ttyAMA0". */
  readonly links: Readonly<Record<string, string>>;
  readonly ports: readonly string[];
  /** The port that the service opens; ''. */
  readonly wanted: string;
}

export function judgeConsole(facts: ConsoleFacts): Finding[] {
  return orFine(consoleFindings(facts), 'no console and no login on a serial port');
}

function* consoleFindings(facts: ConsoleFacts): Findings {
  const { cmdline, consoles, gettys, firmware, links, ports, wanted } = facts;
  const onPorts = (names: readonly string[]): Set<string> =>
    new Set(names.map((name) => links[name] ?? name).filter((name) => ports.includes(name)));
  const told = [...cmdline.matchAll(/(?:^|\s)(?:console|kgdboc)=([A-Za-z]+\d+)/g)].map((found) => found[1] ?? '');
  const now = consoles.split('\n').flatMap((line) => /^(\S+)/.exec(line)?.[1] ?? []);
  const say = (port: string) => (port === wanted ? failed : warning);
  for (const port of onPorts([...told, ...now]))
    yield say(port)(
      `the kernel has its console on ${port}: its messages go out on the line`,
      `Take console=${port} (or console=serial0) out of cmdline.txt and restart; on a Raspberry Pi: raspi-config, Serial Port, no login shell.`,
    );
  for (const port of onPorts(gettys))
    yield say(port)(`a login waits on ${port}`, `systemctl disable --now serial-getty@${port}.service`);
  yield* judgeFirmware(firmware, ports);
}

function* judgeFirmware(firmware: string, ports: readonly string[]): Findings {
  if (firmware === '') return;
  const lines = firmware.split('\n').map((line) => line.replace(/#.*/, '').trim());
  const has = (pattern: RegExp): boolean => lines.some((line) => pattern.test(line));
  if (has(/^dtoverlay=(?:disable-bt|miniuart-bt|pi3-disable-bt|pi3-miniuart-bt|lineside-uart)/)) return;
  const isOn = has(/^enable_uart=1/);
  if (isOn)
    yield warning(
      'config.txt switches on the UART and leaves the good one (PL011) to Bluetooth',
      'Add dtoverlay=disable-bt to config.txt and restart: the mini-UART has no parity, and its speed wanders.',
    );
  if (!isOn && !ports.some((name) => /^tty(?:AMA|S)\d/.test(name)))
    yield skipped('the UART on the header is off', 'To use it: enable_uart=1 and dtoverlay=disable-bt in config.txt.');
}

export async function checkConsole(context: CheckContext): Promise<Finding[]> {
  const { roots } = context;
  const ports = (await portsOf(context)).map(({ devicePath }) => basename(devicePath));
  const links: Record<string, string> = {};
  for (const name of ['serial0', 'serial1']) {
    const target = await realpath(join(roots.dev, name)).catch(() => '');
    if (target !== '') links[name] = basename(target);
  }
  const wanted = await realpath((await wantedPort(context)) || '/nothing').catch(() => '');
  const firmware = (await Promise.all(roots.boot.map((dir) => textOf(join(dir, 'config.txt'))))).find(Boolean) ?? '';
  const [cmdline, consoles] = await Promise.all([
    textOf(join(roots.proc, 'cmdline')),
    textOf(join(roots.proc, 'consoles')),
  ]);
  const gettys = await gettysOf(context);
  return judgeConsole({ cmdline, consoles, gettys, firmware, links, ports, wanted: basename(wanted) });
}

/** By the units' control groups, and by the programs that run. */
async function gettysOf({ roots }: CheckContext): Promise<string[]> {
  const slice = join(roots.sys, 'fs/cgroup/system.slice/system-serial\\x2dgetty.slice');
  const units = (await namesIn(slice)).flatMap((name) => /^serial-getty@(.+)\.service$/.exec(name)?.[1] ?? []);
  const found = new Set(units);
  for (const pid of await processIds(roots.proc)) {
    const { name } = await runningOf(roots.proc, pid);
    if (!name.endsWith('getty')) continue;
    for (const word of (await textOf(join(roots.proc, String(pid), 'cmdline'))).split('\0')) {
      if (/^(?:\/dev\/)?tty[A-Z]+\d+$/.test(word)) found.add(basename(word));
    }
  }
  return [...found];
}
