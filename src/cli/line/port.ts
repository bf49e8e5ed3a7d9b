/** devices, open, close, settings, events, release, modem, break: the port, what it is open with, what happened to it, its other wires. */
import { utcTime } from '../../shared/base/instant.ts';
import { eventJson, eventKinds, flowControls, parities, stopBits } from '../../shared/proto/line-status.ts';
import { type lineside, serial } from '../../shared/proto/services.ts';
import { type ArgumentSpec, type Entry, type Given, option } from '../command.ts';
import { checkAnswer } from '../connection/service.ts';
import { CliFailure } from '../failure.ts';
import { clockMark } from '../output/entries.ts';
import { safeText } from '../output/hex.ts';
import { configJson, deviceJson } from '../output/json.ts';
import { exact, localTime, wholeNumber } from '../output/numbers.ts';
import { table } from '../output/table.ts';
import type { Args, Call } from '../shell.ts';
import { parseSettings, type Settings, settingsText, usualSettings } from './settings.ts';

/** The contract's own limits are checked by the service; these keep a number from overflowing in transit. */
const maxUint32 = 4_294_967_295;

const openOptions = [
  option('--baud <n>', 'speed in baud', { parse: wholeNumber(0, maxUint32) }),
  option('--data-bits <n>', '5 to 8', { parse: wholeNumber(0, maxUint32) }),
  option('--parity <mode>', 'parity mode', { choices: parities }),
  option('--stop-bits <n>', 'stop bits', { choices: ['1', '2', '1.5'] }),
  option('--flow-control <mode>', 'by the lines RTS and CTS, or by XON and XOFF in the data', {
    choices: flowControls,
    usual: 'none',
  }),
  option('--rx-gap <ms>', 'silence that ends a chunk, 0 to 1000 ms (default: serial.rx_gap_ms)', {
    parse: wholeNumber(0, maxUint32),
  }),
  option('--packet-size <bytes>', 'fixed payload size of a packet, 0: any', {
    parse: wholeNumber(0, maxUint32),
    usual: 0,
  }),
] as const;

/** The service answers so many at a time. */
const mostEvents = 1_000;
const usualEvents = 20;
const eventsOptions = [
  option('--last <n>', `the last n, up to ${mostEvents}`, { parse: wholeNumber(1, mostEvents), usual: usualEvents }),
] as const;

const modemOptions = [
  option('--dtr <state>', 'set DTR', { choices: ['on', 'off'] }),
  option('--rts <state>', 'set RTS', { choices: ['on', 'off'] }),
] as const;

/** Longer than any frame at 300 baud, and what `tcsendbreak` does at least. */
const usualBreakMs = 250;
const longestBreakMs = 5000;
const breakMs: ArgumentSpec = {
  name: '[ms]',
  help: `1 to ${longestBreakMs} milliseconds`,
  parse: (text) => String(wholeNumber(1, longestBreakMs)(text)),
  usual: String(usualBreakMs),
};

export const portCommands: readonly Entry[] = [
  {
    command: 'devices',
    help: 'list the serial ports of the box; * marks the open one',
    examples: ['lineside devices', 'lineside devices --json | jq -r ".devices[].portName"'],
    what: 'list the ports',
    run: devices,
  },
  {
    command: 'open',
    help: 'open the port, or reopen it with other settings; it stays open until `close`, also over a restart',
    arguments: [
      {
        name: '[port]',
        help: 'name from `lineside devices`, or a stable link (/dev/serial/by-id/...); /dev/ may be left out. Not needed if there is one port',
        completes: 'ports',
      },
      { name: '[settings]', help: 'short form: 9600 or 9600,7E1 (default: those of the profile, else 115200,8N1)' },
    ],
    options: openOptions,
    examples: [
      'lineside open 9600',
      'lineside open /dev/ttyUSB0 9600,8E1',
      'lineside open /dev/ttyAMA0 --baud 19200 --parity even --packet-size 8',
    ],
    what: ({ port }) => (isSpeed(port) ? 'open a port' : `open ${safeText(port ?? '')}`),
    run: open,
  },
  {
    command: 'close',
    help: 'close the port; done too when none is open',
    examples: ['lineside close'],
    what: 'close the port',
    run: close,
  },
  {
    command: 'settings',
    help: 'print what the port is open with, or "closed" (status 0 both ways)',
    examples: ['lineside settings', 'lineside settings --json | jq .open'],
    what: 'read the settings',
    run: showSettings,
  },
  {
    command: 'events',
    help: 'list what happened to the port: opened, closed, lost, back, settings changed, held, and by whom',
    options: eventsOptions,
    notes: 'The box keeps the newest 10,000. ENTRY is the entry of the log after which it happened.',
    examples: ['lineside events', `lineside events --last 1000 --json | jq '.events[] | select(.kind == "lost")'`],
    what: 'list the events of the line',
    run: showEvents,
  },
  {
    command: 'release',
    help: 'end the hold of the line (by attach or rfc2217); a token needs the role admin',
    notes:
      'The program of the holder goes on, without exclusive use: its packets go between those of others. `lineside events` shows the name of the caller.',
    examples: ['lineside release'],
    what: 'release the line',
    run: release,
  },
];

export const wireCommands: readonly Entry[] = [
  {
    command: 'modem',
    help: 'show the modem lines, and set DTR and RTS',
    options: modemOptions,
    examples: ['lineside modem', 'lineside modem --dtr off --rts on'],
    what: 'use the modem lines',
    run: modem,
  },
  {
    command: 'break',
    help: 'hold the line in break',
    arguments: [breakMs],
    examples: ['lineside break', 'lineside break 1000'],
    what: 'send a break',
    run: sendBreak,
  },
];

async function devices(call: Call<object>): Promise<number> {
  const found = await call.line(({ serial }, options) => serial.listDevices({}, options));
  const status = await call.line(({ line }, options) => line.getStatus({}, options));
  // The port may be listed under the link it was opened by, or under the name it has now.
  const names = status.effective == null ? [] : [status.currentPortName, status.requested?.portName];
  const all = found.devices.map((device) => deviceJson(device, names.includes(device.portName)));
  const rows = all.map(({ open, portName, description, hardwareId }) => [
    open ? '*' : '',
    ...[portName, description, hardwareId].map(safeText),
  ]);
  const heading = ['', 'PORT', 'DESCRIPTION', 'HARDWARE ID'];
  return call.print(
    { devices: all },
    rows.length === 0 ? 'no serial ports found' : table(heading, rows, call.out.width),
  );
}

export function currentConfig(call: Call<object>): Promise<serial.SerialConfig> {
  return call.line(({ serial }, options) => serial.getCurrentConfig({}, options));
}

type OpenOptions = Given<typeof openOptions>;

async function open(call: Call<OpenOptions>, { port, settings }: Args): Promise<number> {
  const short = settings ?? (isSpeed(port) ? port : undefined);
  const config = openConfig('', short ?? call.profile()?.settings, call.options);
  const { flowControl, rxGap: rxGapMs } = call.options;
  await openNamed(call, port === undefined || isSpeed(port) ? await onlyPort(call) : port, config);
  const now = await currentConfig(call);
  const flow = flowControl === 'none' ? '' : `, flow control ${flowControl}`;
  const gap = rxGapMs === undefined ? '' : `, RX gap ${rxGapMs} ms`;
  const asked = { flowControl, ...(rxGapMs !== undefined && { rxGapMs }) };
  return call.print({ open: true, ...configJson(now), ...asked }, `open: ${configText(now)}${flow}${gap}`);
}

/** Of the first argument: no port is called like a speed. */
function isSpeed(port: string | undefined): boolean {
  return /^(?:\d|$)/.test(port ?? '');
}

async function openNamed(call: Call<OpenOptions>, name: string, config: object): Promise<void> {
  const paths = name.includes('/') ? [name] : pathsOf(name, await portNames(call));
  for (const portName of paths) {
    const request = serial.SerialConfig.fromObject({ ...config, portName });
    const flowControl = flowControls.indexOf(call.options.flowControl);
    const { rxGap: rxGapMs } = call.options;
    // A box of an earlier version has the contract's Open alone.
    const isPlain = flowControl === 0 && rxGapMs === undefined;
    const answer = await call.line(({ line, serial }, options) =>
      isPlain
        ? serial.open(request, options)
        : line.open({ config: request, flowControl, ...(rxGapMs !== undefined && { rxGapMs }) }, options),
    );
    // It has changed nothing.
    if (answer.status !== serial.StatusCode.NOT_FOUND) return checkAnswer(answer);
  }
  throw noPort(`no serial port is called "${safeText(name)}"`, await portNames(call));
}

/** What a name without its directory may stand for: ttyS0, sim0, serial0, usb-FTDI_FT232R-if00-port0. */
function pathsOf(name: string, listed: readonly string[]): readonly string[] {
  const known = listed.filter((path) => path.endsWith(`/${name}`));
  return known.length === 1 ? known : ['/dev/', '/dev/serial/by-id/', '/dev/serial/by-path/'].map((dir) => dir + name);
}

async function onlyPort(call: Call<object>): Promise<string> {
  const names = await portNames(call);
  const [only] = names;
  if (only !== undefined && names.length === 1) return only;
  throw noPort(only === undefined ? 'the box has no serial port' : 'the box has several ports', names);
}

async function portNames(call: Call<object>): Promise<readonly string[]> {
  const { devices } = await call.line(({ serial }, options) => serial.listDevices({}, options));
  return devices.map(({ portName }) => portName);
}

/** A box may have hundreds of PTYs. */
const mostNamed = 20;

function noPort(why: string, names: readonly string[]): CliFailure {
  const shown = names.slice(0, mostNamed).map(safeText).join(', ');
  const more = names.length > mostNamed ? ', ...: lineside devices' : '';
  const next = names.length === 0 ? 'Plug one in: lineside devices lists the ports.' : `Name one of ${shown}${more}.`;
  return new CliFailure('nothing', 'NOT_FOUND', why, { next });
}

export function openConfig(port: string, short: string | undefined, options: OpenOptions) {
  const merged: Settings = { ...usualSettings, ...(short === undefined ? {} : parseSettings(short)) };
  return {
    portName: port,
    baudRate: options.baud ?? merged.baudRate,
    dataBits: options.dataBits ?? merged.dataBits,
    parity: options.parity === undefined ? merged.parity : parities.indexOf(options.parity),
    stopBits: options.stopBits === undefined ? merged.stopBits : stopBits.map(String).indexOf(options.stopBits),
    packetSize: options.packetSize,
  };
}

function configText(config: serial.SerialConfig): string {
  const packets = config.packetSize === 0 ? '' : ` packets of ${config.packetSize} bytes`;
  return `${safeText(config.portName)} ${settingsText(config)}${packets}`;
}

async function close(call: Call<object>): Promise<number> {
  checkAnswer(await call.line(({ serial }, options) => serial.close({}, options)));
  return call.print({ open: false }, 'closed');
}

async function showSettings(call: Call<object>): Promise<number> {
  const config = await currentConfig(call);
  if (config.portName === '') return call.print({ open: false }, 'closed');
  return call.print({ open: true, ...configJson(config) }, configText(config));
}

async function showEvents(call: Call<Given<typeof eventsOptions>>): Promise<number> {
  const { last: limit } = call.options;
  const { events } = await call.line(({ line }, options) => line.listEvents({ limit }, options));
  const heading = ['TIME', '', 'ENTRY', 'EVENT', 'BY', 'MORE'];
  const shown = events.length === 0 ? 'no events' : table(heading, events.map(eventRow), call.out.width);
  return call.print({ events: events.map(eventLine) }, shown);
}

function eventRow({ timestampMs, clock, afterEntryId, kind, by, detail }: lineside.v1.RecordedEvent): string[] {
  const { date, time } = localTime(timestampMs);
  const words = (eventKinds[kind] ?? 'unknown').replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  const texts = [words, by, detail].map(safeText);
  return [`${date} ${time}`.trim(), clockMark(clock), String(exact(afterEntryId)), ...texts];
}

function eventLine(event: lineside.v1.RecordedEvent) {
  const { clock, ...fields } = eventJson(event, exact);
  return { ...fields, time: utcTime(exact(event.timestampMs)), ...(clock !== 'unknown' && { clock }) };
}

async function release(call: Call<object>): Promise<number> {
  const { holder } = await call.line(({ line }, options) => line.getStatus({}, options));
  await call.line(({ line }, options) => line.releaseHold({}, options));
  const heldBy = holder?.name ?? '';
  const text = heldBy === '' ? 'the line was not held' : `released: it was held by ${safeText(heldBy)}`;
  return call.print({ heldBy: heldBy === '' ? null : heldBy }, text);
}

async function modem(call: Call<Given<typeof modemOptions>>): Promise<number> {
  const { dtr, rts } = call.options;
  const wanted = {
    ...(dtr === undefined ? {} : { dtr: dtr === 'on' }),
    ...(rts === undefined ? {} : { rts: rts === 'on' }),
  };
  const isAsked = Object.keys(wanted).length === 0;
  const lines = await call.line(({ line }, options) =>
    isAsked ? line.getModemLines({}, options) : line.setModemLines(wanted, options),
  );
  const named = modemNames.map((name) => [name, lines[name]] as const);
  const shown = named.map(([name, on]) => `${name.toUpperCase()} ${on ? 'on' : 'off'}`);
  return call.print(Object.fromEntries(named), shown.join('  '));
}

const modemNames = ['dtr', 'rts', 'cts', 'dsr', 'dcd', 'ri'] as const;

async function sendBreak(call: Call<object>, { ms }: Args): Promise<number> {
  const durationMs = Number(ms);
  await call.line(({ line }, options) => line.sendBreak({ durationMs }, options), durationMs);
  return call.print({ breakMs: durationMs }, `break of ${durationMs} ms sent`);
}
