/** The parameters of a line, as the contract numbers them. */

export const Parity = { none: 0, even: 1, odd: 2, mark: 3, space: 4 } as const;
export type Parity = (typeof Parity)[keyof typeof Parity];
export const StopBits = { one: 0, onePointFive: 1, two: 2 } as const;
export type StopBits = (typeof StopBits)[keyof typeof StopBits];
export type DataBits = 5 | 6 | 7 | 8;

export interface LineSettings {
  readonly baudRate: number;
  readonly dataBits: DataBits;
  readonly parity: Parity;
  readonly stopBits: StopBits;
}

/** What the port is (to be) open with. */
export interface LineConfig extends LineSettings {
  /** As the caller named it: a listed port or a stable link to one. */
  readonly portName: string;
  /** Bytes; 0: any size. */
  readonly packetSize: number;
}

export interface EffectiveSettings extends LineSettings {
  /** True on a PTY, which keeps neither parity nor data bits: nothing was checked. */
  readonly unverified: boolean;
  /** Kernel driver behind the port; '' when unknown. */
  readonly driver: string;
}

export interface OutgoingLines {
  readonly dtr?: boolean;
  readonly rts?: boolean;
}

export interface ModemLines {
  readonly dtr: boolean;
  readonly rts: boolean;
  readonly cts: boolean;
  readonly dsr: boolean;
  readonly dcd: boolean;
  readonly ri: boolean;
}

/** struct serial_icounter_struct of the kernel (TIOCGICOUNT), since the driver was loaded. */
export interface KernelCounters {
  readonly frame: number;
  readonly overrun: number;
  readonly parity: number;
  readonly brk: number;
  readonly bufOverrun: number;
  readonly rx: number;
  readonly tx: number;
}
