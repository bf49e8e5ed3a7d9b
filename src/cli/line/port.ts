/** devices, open, close, config: the port and what it is open with. */
import type { Command } from 'commander';
import type { serial } from '../../shared/proto/services.ts';
import type { Service } from '../connection/service.ts';
import { checkAnswer } from '../connection/service-errors.ts';
import { exitStatus } from '../failure.ts';
import { safeText } from '../output/hex.ts';
import { configJson, deviceJson, jsonLine } from '../output/json.ts';
import { wholeNumber } from '../output/numbers.ts';
import { table } from '../output/table.ts';
import type { Call, Shell } from '../shell.ts';
import {
  type ParityName,
  parities,
  parseSettings,
  type Settings,
  type StopBitsName,
  settingsText,
  stopBitses,
  usualSettings,
} from './settings.ts';

/** The contract's own limits are checked by the service; these keep a number from overflowing on its way. */
const maxUint32 = 4_294_967_295;

export function addDevices(program: Command, shell: Shell): void {
  const command = program
    .command('devices')
    .description('list the serial ports of the box; * marks the open one')
    .addHelpText('after', '\nExamples:\n  lineside devices\n  lineside devices --json | jq -r ".devices[].portName"\n');
  shell.remote(command, { what: 'cannot list the ports', run: devices });
}

async function devices(call: Call<object>): Promise<number> {
  const service = await call.service();
  const found = await service.call(call.timeoutMs, call.stop, ({ serial }, signal) =>
    serial.listDevices({}, { signal }),
  );
  const status = await service.call(call.timeoutMs, call.stop, ({ line }, signal) => line.getStatus({}, { signal }));
  // The port may be listed under the link it was opened by, or under the name it has now.
  const names = status.effective == null ? [] : [status.currentPortName, status.requested?.portName];
  const isOpen = (device: serial.SerialDevice): boolean => names.includes(device.portName);
  if (call.json) {
    await call.out.write(jsonLine({ devices: found.devices.map((device) => deviceJson(device, isOpen(device))) }));
  } else if (found.devices.length === 0) {
    await call.out.write('no serial ports found\n');
  } else {
    const rows = found.devices.map((device) => [
      isOpen(device) ? '*' : '',
      ...[device.portName, device.description, device.hardwareId].map(safeText),
    ]);
    await call.out.write(table(['', 'PORT', 'DESCRIPTION', 'HARDWARE ID'], rows, call.out.width));
  }
  return exitStatus.ok;
}

export function currentConfig(call: Call<object>, service: Service): Promise<serial.SerialConfig> {
  return service.call(call.timeoutMs, call.stop, ({ serial }, signal) => serial.getCurrentConfig({}, { signal }));
}

interface OpenOptions {
  readonly baud?: number;
  readonly dataBits?: number;
  readonly parity?: ParityName;
  readonly stopBits?: StopBitsName;
  readonly packetSize: number;
}

export function addOpen(program: Command, shell: Shell): void {
  const command = program
    .command('open')
    .description('open the port, or reopen it with other settings; it stays open until `close`, also over a restart')
    .argument('<port>', 'name from `lineside devices`, or a stable link (/dev/serial/by-id/...)')
    .argument('[settings]', 'short form: 9600 or 9600,7E1 (default 115200,8N1)')
    .option('--baud <n>', 'speed in baud', wholeNumber(0, maxUint32))
    .option('--data-bits <n>', '5 to 8', wholeNumber(0, maxUint32))
    .addOption(choice(program, '--parity <mode>', 'parity mode', Object.keys(parities)))
    .addOption(choice(program, '--stop-bits <n>', 'stop bits', Object.keys(stopBitses)))
    .option('--packet-size <bytes>', 'fixed payload size of a packet, 0: any', wholeNumber(0, maxUint32), 0)
    .addHelpText(
      'after',
      '\nExamples:\n  lineside open /dev/ttyUSB0 9600,8E1\n  lineside open /dev/ttyAMA0 --baud 19200 --parity even --packet-size 8\n',
    );
  shell.remote(command, { what: ([port]) => `cannot open ${safeText(port ?? '')}`, run: open });
}

function choice(program: Command, flags: string, text: string, choices: readonly string[]) {
  return program.createOption(flags, text).choices(choices);
}

async function open(call: Call<OpenOptions>, [port = '', short]: readonly string[]): Promise<number> {
  const config = openConfig(port, short, call.options);
  const service = await call.service();
  const { serial: contract } = await import('../../shared/proto/services.ts');
  const request = contract.SerialConfig.fromObject(config);
  const answer = await service.call(call.timeoutMs, call.stop, ({ serial }, signal) =>
    serial.open(request, { signal }),
  );
  checkAnswer(answer, `cannot open ${safeText(port)}`);
  const now = await currentConfig(call, service);
  await call.out.write(call.json ? jsonLine({ open: true, ...configJson(now) }) : `open: ${configText(now)}\n`);
  return exitStatus.ok;
}

export function openConfig(port: string, short: string | undefined, options: OpenOptions) {
  const merged: Settings = { ...usualSettings, ...(short === undefined ? {} : parseSettings(short)) };
  const { packetSize } = options;
  return {
    portName: port,
    baudRate: options.baud ?? merged.baudRate,
    dataBits: options.dataBits ?? merged.dataBits,
    parity: parities[options.parity ?? merged.parity],
    stopBits: stopBitses[options.stopBits ?? merged.stopBits],
    packetSize,
  };
}

function configText(config: serial.SerialConfig): string {
  const packets = config.packetSize === 0 ? '' : ` packets of ${config.packetSize} bytes`;
  return `${safeText(config.portName)} ${settingsText(config)}${packets}`;
}

export function addClose(program: Command, shell: Shell): void {
  const command = program
    .command('close')
    .description('close the port; done too when none is open')
    .addHelpText('after', '\nExample:\n  lineside close\n');
  shell.remote(command, { what: 'cannot close the port', run: close });
}

async function close(call: Call<object>): Promise<number> {
  const service = await call.service();
  const answer = await service.call(call.timeoutMs, call.stop, ({ serial }, signal) => serial.close({}, { signal }));
  checkAnswer(answer, 'cannot close the port');
  await call.out.write(call.json ? jsonLine({ open: false }) : 'closed\n');
  return exitStatus.ok;
}

export function addConfig(program: Command, shell: Shell): Command {
  const command = program
    .command('config')
    .enablePositionalOptions()
    .description('print what the port is open with, or "closed" (status 0 both ways)')
    .addHelpText('after', '\nExamples:\n  lineside config\n  lineside config --json | jq .open\n');
  return shell.remote(command, { what: 'cannot read the configuration', run: showConfig });
}

async function showConfig(call: Call<object>): Promise<number> {
  const config = await currentConfig(call, await call.service());
  const open = config.portName !== '';
  if (call.json) await call.out.write(jsonLine(open ? { open, ...configJson(config) } : { open }));
  else await call.out.write(open ? `${configText(config)}\n` : 'closed\n');
  return exitStatus.ok;
}
