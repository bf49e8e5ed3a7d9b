/** receive: takes packets from the incoming buffer. */
import type { Command } from 'commander';
import { pause } from '../../shared/base/clock.ts';
import type { serial } from '../../shared/proto/services.ts';
import type { Service } from '../connection/service.ts';
import { CliFailure, exitStatus, usageFailure } from '../failure.ts';
import { escapedText, safeText, spacedHex } from '../output/hex.ts';
import { dataJson, jsonLine } from '../output/json.ts';
import { exact, secondsAsMs, wholeNumber } from '../output/numbers.ts';
import type { Call, Shell } from '../shell.ts';

interface ReceiveOptions {
  readonly wait: number;
  readonly count: number;
  readonly hex?: boolean;
  readonly raw?: boolean;
}

/** Between two looks into an empty buffer: the contract has no waiting receive. `log --follow` shows bytes at once. */
const pollMs = 50;
const longestWaitSeconds = 86_400;

export function addReceive(program: Command, shell: Shell): void {
  const command = program
    .command('receive')
    .description('take received packets from the buffer; each goes to one caller only (the log keeps them for all)')
    .option('--wait <seconds>', 'wait so long for each packet', secondsAsMs(longestWaitSeconds), 0)
    .option('--count <n>', 'how many packets', wholeNumber(1, Number.MAX_SAFE_INTEGER), 1)
    .option('--hex', 'print hex')
    .option('--raw', 'print the bytes as they are')
    .addHelpText(
      'after',
      '\nExamples:\n  lineside receive\n  lineside send AT --cr && lineside receive --wait 2 --hex\n',
    );
  shell.remote(command, { what: 'cannot receive', run: receive });
}

async function receive(call: Call<ReceiveOptions>): Promise<number> {
  if ([call.options.hex, call.options.raw, call.json].filter((on) => on === true).length > 1) {
    throw usageFailure('--hex, --raw and --json exclude each other');
  }
  const service = await call.service();
  for (let taken = 0; taken < call.options.count; taken += 1) {
    const packet = await nextPacket(call, service);
    if (packet === undefined) throw nothingReceived(taken, call.options);
    await warnOfDrops(call, packet);
    await call.out.write(packetText(packet, call));
  }
  return exitStatus.ok;
}

/** A packet, or undefined when none came in time. */
async function nextPacket(call: Call<ReceiveOptions>, service: Service): Promise<serial.Packet | undefined> {
  const until = call.io.clock.monoMs() + call.options.wait;
  for (;;) {
    const packet = await service
      .call(call.timeoutMs, call.stop, ({ serial }, signal) => serial.receivePacket({}, { signal }))
      .catch((error: unknown) => {
        if (error instanceof CliFailure && error.code === 'NOT_FOUND') return undefined;
        throw error;
      });
    const leftMs = until - call.io.clock.monoMs();
    if (packet !== undefined || leftMs <= 0) return packet;
    await pause(call.io.clock, Math.min(pollMs, leftMs), call.stop);
    call.stop.throwIfAborted();
  }
}

function nothingReceived(taken: number, options: ReceiveOptions): CliFailure {
  const why = taken === 0 ? 'nothing was received' : `only ${taken} of ${options.count} packets were received`;
  const next = options.wait === 0 ? 'Wait for the device with --wait SECONDS.' : '';
  return new CliFailure({ status: exitStatus.nothing, code: 'NOT_FOUND', why, next });
}

async function warnOfDrops(call: Call<object>, packet: serial.Packet): Promise<void> {
  const dropped = packet.tags['dropped_packets'];
  if (dropped === undefined || call.json) return;
  await call.err.write(
    `lineside: ${safeText(dropped)} packets before this one were dropped: the buffer was full (the log has them)\n`,
  );
}

function packetText(packet: serial.Packet, call: Call<ReceiveOptions>): string | Uint8Array {
  const { payload } = packet;
  if (call.json) return jsonLine({ seqId: exact(packet.seqId), ...dataJson(payload, 'hex'), tags: packet.tags });
  if (call.options.raw === true) return payload;
  return `${call.options.hex === true ? spacedHex(payload) : escapedText(payload)}\n`;
}
