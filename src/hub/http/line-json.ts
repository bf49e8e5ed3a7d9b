/** The line's messages as the JSON of the HTTP interface, and back. Pure. */
import type Long from 'long';
import { messageJson, parities, stopBits } from '../../shared/proto/line-status.ts';
import { lineside, serial } from '../../shared/proto/services.ts';

export interface LineConfig {
  readonly portName: string;
  readonly baudRate: number;
  readonly dataBits: number;
  readonly parity: (typeof parities)[number];
  readonly stopBits: (typeof stopBits)[number];
  readonly packetSize?: number;
}

export function configMessage(config: LineConfig): serial.SerialConfig {
  const parity = parities.indexOf(config.parity);
  return serial.SerialConfig.fromObject({ ...config, parity, stopBits: stopBits.indexOf(config.stopBits) });
}

export function gapJson(gap: lineside.v1.LogGap): object {
  return messageJson(lineside.v1.LogGap, gap, number);
}

/** What a caller of LogRaw made of a timestamp may be beyond 2^53, and is rounded. */
export function number(value: Long): number {
  return value.toNumber();
}
