/** Judges the arguments of Open, before any port is touched. Pure. */
import { LinesideError } from '../../shared/base/errors.ts';
import type { OpenRequest } from './face.ts';
import type { DataBits, LineConfig, Parity, StopBits } from './settings.ts';

/** The fastest UARTs in use (FT232H, FT2232H) end at 12 Mbaud. */
const MAX_BAUD_RATE = 12_000_000;
/** The largest packet that SendPacket would take by default, too. */
const MAX_PACKET_SIZE = 65_536;
const parityNumbers: readonly number[] = [0, 1, 2, 3, 4];
const stopBitsNumbers: readonly number[] = [0, 1, 2];
const dataBitsNumbers: readonly number[] = [5, 6, 7, 8];

/** Throws INVALID_ARGUMENT that names every field at fault. */
export function validateOpen(request: OpenRequest): LineConfig {
  const faults = [
    // Whatever else it is: a name that is not listed is NOT_FOUND.
    request.portName === '' ? 'port_name: is empty' : '',
    inRange(request.baudRate, 1, MAX_BAUD_RATE) ? '' : `baud_rate: ${request.baudRate} is not 1 to ${MAX_BAUD_RATE}`,
    dataBitsNumbers.includes(request.dataBits) ? '' : `data_bits: ${request.dataBits} is not 5, 6, 7 or 8`,
    parityNumbers.includes(request.parity) ? '' : `parity: ${request.parity} is no Parity`,
    stopBitsNumbers.includes(request.stopBits) ? '' : `stop_bits: ${request.stopBits} is no StopBits`,
    request.stopBits === 1 && dataBitsNumbers.includes(request.dataBits) && request.dataBits !== 5
      ? `stop_bits: 1.5 stop bits exist with 5 data bits only, not with ${request.dataBits}`
      : '',
    inRange(request.packetSize, 0, MAX_PACKET_SIZE)
      ? ''
      : `packet_size: ${request.packetSize} is not 0 to ${MAX_PACKET_SIZE}`,
  ].filter((fault) => fault !== '');
  if (faults.length > 0) throw new LinesideError('INVALID_ARGUMENT', faults.join('; '));
  return {
    portName: request.portName,
    baudRate: request.baudRate,
    dataBits: request.dataBits as DataBits,
    parity: request.parity as Parity,
    stopBits: request.stopBits as StopBits,
    packetSize: request.packetSize,
  };
}

/** Why a payload of so many bytes cannot be sent; undefined when it can. packetSize 0: any size. */
export function payloadFault(bytes: number, packetSize: number, maxBytes: number): LinesideError | undefined {
  const fault =
    bytes === 0
      ? 'is empty'
      : bytes > maxBytes
        ? `has ${bytes} bytes, more than ${maxBytes} (serial.max_payload_bytes)`
        : packetSize !== 0 && bytes !== packetSize
          ? `has ${bytes} bytes, not ${packetSize} (packet_size)`
          : undefined;
  return fault === undefined ? undefined : new LinesideError('INVALID_ARGUMENT', `payload: ${fault}`);
}

function inRange(value: number, low: number, high: number): boolean {
  return Number.isInteger(value) && value >= low && value <= high;
}
