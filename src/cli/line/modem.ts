/** modem and break: the other wires of the line. */
import type { Command } from 'commander';
import type { lineside } from '../../shared/proto/services.ts';
import { exitStatus } from '../failure.ts';
import { jsonLine } from '../output/json.ts';
import { wholeNumber } from '../output/numbers.ts';
import type { Call, Shell } from '../shell.ts';

interface ModemOptions {
  readonly dtr?: 'on' | 'off';
  readonly rts?: 'on' | 'off';
}

export function addModem(program: Command, shell: Shell): void {
  const onOff = (flags: string, text: string) => program.createOption(flags, text).choices(['on', 'off']);
  const command = program
    .command('modem')
    .description('show the modem lines, and set DTR and RTS')
    .addOption(onOff('--dtr <state>', 'set DTR'))
    .addOption(onOff('--rts <state>', 'set RTS'))
    .addHelpText('after', '\nExamples:\n  lineside modem\n  lineside modem --dtr off --rts on\n');
  shell.remote(command, { what: 'cannot use the modem lines', run: modem });
}

async function modem(call: Call<ModemOptions>): Promise<number> {
  const service = await call.service();
  const { dtr, rts } = call.options;
  const wanted = {
    ...(dtr === undefined ? {} : { dtr: dtr === 'on' }),
    ...(rts === undefined ? {} : { rts: rts === 'on' }),
  };
  const lines = await service.call(call.timeoutMs, call.stop, ({ line }, signal) =>
    Object.keys(wanted).length === 0 ? line.getModemLines({}, { signal }) : line.setModemLines(wanted, { signal }),
  );
  await call.out.write(call.json ? jsonLine(named(lines)) : modemText(lines));
  return exitStatus.ok;
}

function named(lines: lineside.v1.ModemLines): { [name: string]: boolean } {
  const { dtr, rts, cts, dsr, dcd, ri } = lines;
  return { dtr, rts, cts, dsr, dcd, ri };
}

function modemText(lines: lineside.v1.ModemLines): string {
  const shown = Object.entries(named(lines)).map(([name, on]) => `${name.toUpperCase()} ${on ? 'on' : 'off'}`);
  return `${shown.join('  ')}\n`;
}

/** Longer than any frame at 300 baud, and what `tcsendbreak` does at least. */
const usualBreakMs = 250;
const longestBreakMs = 5000;

export function addBreak(program: Command, shell: Shell): void {
  const command = program
    .command('break')
    .description('hold the line in break')
    .argument('[ms]', `1 to ${longestBreakMs} milliseconds`, wholeNumber(1, longestBreakMs), usualBreakMs)
    .addHelpText('after', '\nExamples:\n  lineside break\n  lineside break 1000\n');
  shell.remote(command, {
    what: 'cannot send a break',
    run: (call) => sendBreak(call, Number(command.processedArgs[0])),
  });
}

async function sendBreak(call: Call<object>, durationMs: number): Promise<number> {
  const service = await call.service();
  await service.call(call.timeoutMs + durationMs, call.stop, ({ line }, signal) =>
    line.sendBreak({ durationMs }, { signal }),
  );
  await call.out.write(call.json ? jsonLine({ breakMs: durationMs }) : `break of ${durationMs} ms sent\n`);
  return exitStatus.ok;
}
