/**
 * Checks of the machine: its clock, its memory, heat and supply, which of the two systems of the image runs, and its serial
 * ports: do they exist, may they be opened, which process has them open, is a console on them. No check opens a port: that
 * changes the modem lines and takes bytes from the process that reads.
 */
import { constants } from 'node:fs';
import { access, realpath, stat } from 'node:fs/promises';
import { uptime } from 'node:os';
import { basename, join } from 'node:path';
import { parseSlots } from '../../appliance/update/slots.ts';
import { instantOfMs } from '../../shared/base/instant.ts';
import { objectIn } from '../../shared/base/json.ts';
import { type Holders, holdersOf, processIds } from '../../shared/base/processes.ts';
import { clockState } from '../../shared/host/clock-sync.ts';
import type { HostFacts } from '../../shared/host/host-facts.ts';
import { hostRules } from '../../shared/host/host-rules.ts';
import { slot } from '../../shared/host/sensors.ts';
import { sampleHost, uncounted } from '../../shared/host/telemetry.ts';
import { type Finding, type Findings, failed, ok, orFine, skipped, warning } from '../check.ts';
import { type CheckContext, portsOf } from '../check-context.ts';
import { isThere, namesIn, succeeds, textOf } from '../safe-files.ts';

/** 2026-01-01, before this was written: an earlier clock is wrong. */
const floorMs = 1_767_225_600_000;
/** 2100-01-01: no box lives so long; the clock was set wrong by hand. */
const ceilingMs = 4_102_444_800_000;

export interface ClockFacts {
  readonly nowMs: number;
  readonly state: HostFacts['clock'];
  /** Build time of the system; 0: unknown. */
  readonly builtMs: number;
  readonly uptimeS: number;
}

/** Time sync needs a network and some patience after a boot. */
const graceS = 600;

export function judgeClock({ nowMs, state, builtMs, uptimeS }: ClockFacts): Finding[] {
  const shown = `${instantOfMs(nowMs).slice(0, 19)}Z`;
  const set = remedyOf('HostClockNotSynced');
  if (nowMs < Math.max(floorMs, builtMs))
    return [
      failed(`the clock says ${shown}, which is before this was built`, `${set} Certificates look not yet valid.`),
    ];
  if (nowMs > ceilingMs) return [failed(`the clock says ${shown}`, `${set} Certificates look expired.`)];
  if (state === 'synced') return [ok(`${shown}, set by time sync`)];
  if (state === 'unknown') return [ok(`${shown}; no time sync confirms it`)];
  return uptimeS < graceS
    ? [ok(`${shown}, not yet set by time sync; the machine runs for ${Math.floor(uptimeS)} s`)]
    : [warning(`${shown}, and time sync has not set it`, set)];
}

export async function checkClock({ clock, config, roots }: CheckContext): Promise<Finding[]> {
  const epoch = await stat(join(roots.etc, '../usr/lib/clock-epoch')).catch(() => undefined);
  const state = clockState(config?.device.timeSyncFile ?? '');
  return judgeClock({ nowMs: clock.wallMs(), state, builtMs: epoch?.mtimeMs ?? 0, uptimeS: uptime() });
}

function remedyOf(alert: string): string {
  return (hostRules.find(({ name }) => name === alert)?.remedy ?? '').replaceAll('`', '"');
}

/** The checks of clock, disk and slots report these. */
const elsewhere = new Set(['HostClockNotSynced', 'HostDiskLow', 'HostPowerLoss', 'HostDataLost', 'HostUpdateFailed']);

export function judgeMachine(facts: HostFacts): Finding[] {
  const findings = hostRules
    .filter((rule) => !elsewhere.has(rule.name) && rule.value(facts) > 0)
    .map((rule) => (rule.severity === 'critical' ? failed : warning)(rule.summary(facts), remedyOf(rule.name)));
  const { temperatureCelsius: heat, memory, underVoltage } = facts;
  const free = memory.availableBytes === null ? 'unknown' : `${Math.floor(memory.availableBytes / 1_048_576)} MiB`;
  const volts = { yes: 'too low', no: 'good', unknown: 'unknown' }[underVoltage];
  const degrees = heat === null ? 'temperature unknown' : `${heat} °C`;
  return orFine(findings, `${degrees}, ${free} of memory available, supply ${volts}`);
}

export async function machineFacts({ roots, config }: CheckContext): Promise<HostFacts> {
  const sensors = { sys: roots.sys, bootFacts: join(roots.run, 'lineside-boot') };
  return {
    bootId: await textOf(join(roots.proc, 'sys/kernel/random/boot_id')),
    uptimeSeconds: uptime(),
    ageSeconds: 0,
    ...(await sampleHost(config?.data.dir ?? '/', sensors)),
    clock: clockState(config?.device.timeSyncFile ?? ''),
    boots: uncounted,
    slot: slot(sensors),
  };
}

/** `slotFile`: slot.txt of the boot partition; ''. */
export function judgeSlots({ running, slotFile }: { running: HostFacts['slot']; slotFile: string }): Finding[] {
  if (running === null) return [skipped("this is no appliance's image")];
  const findings = [...slotFindings(running, slotFile)];
  return findings.some(({ state }) => state !== 'skipped') ? findings : [ok(`slot ${running.name}, known to be good`)];
}

function* slotFindings(running: NonNullable<HostFacts['slot']>, slotFile: string): Findings {
  if (running.dataLost)
    yield failed(
      'the data partition cannot be mounted: all that is kept now is lost with the power',
      remedyOf('HostDataLost'),
    );
  if (running.updateFailed)
    yield warning(`an update did not become healthy: slot ${running.name} runs again`, remedyOf('HostUpdateFailed'));
  if (running.trying)
    yield warning(
      `slot ${running.name} is on trial: if the service does not become healthy, the next start returns to the other slot`,
      'Wait until the service is healthy; it marks the slot good automatically.',
    );
  if (slotFile === '') yield skipped('slot.txt cannot be read', 'Run it as root.');
  else if (parseSlots(slotFile) === undefined)
    yield failed('slot.txt is damaged', 'Install an update, which rewrites it; the running slot stays.');
}

export async function checkSlots({ roots }: CheckContext): Promise<Finding[]> {
  const running = slot({ sys: roots.sys, bootFacts: join(roots.run, 'lineside-boot') });
  const files = await Promise.all(roots.boot.map((dir) => textOf(join(dir, 'slot.txt'))));
  return judgeSlots({ running, slotFile: files.find(Boolean) ?? '' });
}

// The serial ports.

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
  const configured = [...cmdline.matchAll(/(?:^|\s)(?:console|kgdboc)=([A-Za-z]+\d+)/g)].map((found) => found[1] ?? '');
  const now = consoles.split('\n').flatMap((line) => /^(\S+)/.exec(line)?.[1] ?? []);
  const say = (port: string) => (port === wanted ? failed : warning);
  for (const port of onPorts([...configured, ...now]))
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
    const at = join(roots.proc, String(pid));
    // The kernel's name is enough: to read more of every process takes seconds on a small board under load.
    if (!(await textOf(join(at, 'comm'))).endsWith('getty')) continue;
    for (const word of (await textOf(join(at, 'cmdline'))).split('\0')) {
      if (/^(?:\/dev\/)?tty[A-Z]+\d+$/.test(word)) found.add(basename(word));
    }
  }
  return [...found];
}
