/** The parameters of a line, as the contract numbers them, and which of them are taken. Pure. */

import { LinesideError } from '../../shared/base/errors.ts';
import { lineLimits } from '../../shared/base/line-limits.ts';

export const Parity = { none: 0, even: 1, odd: 2, mark: 3, space: 4 } as const;
export type Parity = (typeof Parity)[keyof typeof Parity];
export const StopBits = { one: 0, onePointFive: 1, two: 2 } as const;
export type StopBits = (typeof StopBits)[keyof typeof StopBits];
export const FlowControl = { none: 0, rtscts: 1, xonxoff: 2 } as const;
export type FlowControl = (typeof FlowControl)[keyof typeof FlowControl];
/** By their numbers. */
export const stopBitsNames = ['1', '1.5', '2'] as const;
export const flowControlNames = ['none', 'RTS/CTS', 'XON/XOFF'] as const;
export type DataBits = 5 | 6 | 7 | 8;

/** What a character is on the wire. */
export interface Framing {
  readonly baudRate: number;
  readonly dataBits: DataBits;
  readonly parity: Parity;
  readonly stopBits: StopBits;
}

export interface LineSettings extends Framing {
  readonly flowControl: FlowControl;
}

/** What the port is (to be) open with. */
export interface LineConfig extends LineSettings {
  /** As the caller named it: a listed port or a stable link to one. */
  readonly portName: string;
  /** Bytes; 0: any size. */
  readonly packetSize: number;
  /** Silence that ends a chunk; 0: each read is a chunk; default: serial.rx_gap_ms. */
  readonly rxGapMs?: number;
}

/** The arguments of Open as they came in: any numbers at all. */
export interface OpenRequest extends Record<keyof Framing | 'packetSize', number> {
  readonly portName: string;
  /** The contract's Open knows neither. */
  readonly flowControl?: number;
  readonly rxGapMs?: number | null;
}

export interface EffectiveSettings extends LineSettings {
  /** True on a PTY, which keeps neither parity nor data bits: nothing was checked. */
  readonly unverified: boolean;
  /** Kernel driver behind the port; '' when unknown. */
  readonly driver: string;
}

/** "9600 baud, 8N1"; with flow control and RX gap, where one was asked for. */
export function settingsText(settings: LineSettings & Pick<LineConfig, 'rxGapMs'>): string {
  const { baudRate, dataBits, parity, stopBits, flowControl, rxGapMs } = settings;
  const flow = flowControl === FlowControl.none ? '' : `, ${flowControlNames[flowControl]}`;
  const gap = rxGapMs === undefined ? '' : `, RX gap ${rxGapMs} ms`;
  return `${baudRate} baud, ${dataBits}${'NEOMS'[parity]}${stopBitsNames[stopBits]}${flow}${gap}`;
}

export interface OutgoingLines {
  readonly dtr?: boolean;
  readonly rts?: boolean;
}

/** What is taken of each number, both ends included, and how a fault names it. */
const ranges = [
  ['baudRate', 'baud_rate', ...lineLimits.baudRate, 'is not 1 to 12000000'],
  ['dataBits', 'data_bits', ...lineLimits.dataBits, 'is not 5, 6, 7 or 8'],
  ['parity', 'parity', Parity.none, Parity.space, 'is no Parity'],
  ['stopBits', 'stop_bits', StopBits.one, StopBits.two, 'is no StopBits'],
  ['packetSize', 'packet_size', ...lineLimits.packetSize, 'is not 0 to 65536'],
  ['flowControl', 'flow_control', FlowControl.none, FlowControl.xonxoff, 'is no FlowControl'],
  ['rxGapMs', 'rx_gap_ms', ...lineLimits.rxGapMs, 'is not 0 to 1000'],
] as const;

type Numbers = {
  readonly [K in Exclude<keyof LineConfig, 'portName'>]: K extends 'rxGapMs' ? number | undefined : number;
};

/** The arguments of Open, before any port is touched. Throws INVALID_ARGUMENT that names every field at fault. */
export function validateOpen(request: OpenRequest): LineConfig {
  const { portName, baudRate, dataBits, parity, stopBits, packetSize, flowControl = FlowControl.none } = request;
  const rxGapMs = request.rxGapMs ?? undefined;
  const numbers = { baudRate, dataBits, parity, stopBits, packetSize, flowControl, rxGapMs };
  // Whatever else it is: a name that is not listed is NOT_FOUND.
  return { portName, ...validNumbers(numbers, portName === '' ? ['port_name: is empty'] : []) };
}

/** Settings to be changed in place, any numbers at all; those that are not named stay. */
export type SettingsChange = Partial<Readonly<Record<keyof LineSettings, number>>>;

/** The configuration with these settings. Throws as validateOpen. */
export function changedConfig(config: LineConfig, changes: SettingsChange): LineConfig {
  return { portName: config.portName, ...validNumbers({ rxGapMs: undefined, ...config, ...changes }, []) };
}

function validNumbers(numbers: Numbers, others: readonly string[]): Omit<LineConfig, 'portName'> {
  const { dataBits, stopBits } = numbers;
  const isTaken = (value: number, low: number, high: number): boolean =>
    Number.isInteger(value) && value >= low && value <= high;
  const faults = [
    ...others,
    ...ranges.flatMap(([key, field, low, high, fault]) =>
      isTaken(numbers[key] ?? low, low, high) ? [] : [`${field}: ${numbers[key]} ${fault}`],
    ),
    ...(stopBits === StopBits.onePointFive && dataBits !== 5 && isTaken(dataBits, 5, 8)
      ? [`stop_bits: 1.5 stop bits exist with 5 data bits only, not with ${dataBits}`]
      : []),
  ];
  if (faults.length > 0) throw new LinesideError('INVALID_ARGUMENT', faults.join('; '));
  const { baudRate, parity, packetSize, flowControl, rxGapMs } = numbers;
  const gap = rxGapMs !== undefined && { rxGapMs };
  return { baudRate, dataBits, parity, stopBits, packetSize, flowControl, ...gap } as Omit<LineConfig, 'portName'>;
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
