/** A serial port that exists now, and the inventory that finds them. */

export interface Port {
  /** What clients call it: the device node, or the path that serial.extra_ports matched. */
  readonly portName: string;
  /** The node to open, with links resolved ("/dev/ttyUSB0", "/dev/pts/4"). */
  readonly devicePath: string;
  /** What USB or the device tree says; '' when neither does. */
  readonly description: string;
  /** pyserial's form: "USB VID:PID=0403:6001 SER=A50285BI LOCATION=1-1.2", "PNP0501", "platform:fe201000.serial". */
  readonly hardwareId: string;
  /** Kernel driver; '' when unknown. */
  readonly driver: string;
  readonly isPty: boolean;
  /** Other names that Open accepts for it: /dev/serial/by-id/..., /dev/serial/by-path/..., /dev/serial0. */
  readonly links: readonly string[];
  /**
   * What stays the same when the port is plugged in again and gets another name: the by-id link's name or USB
   * identity (with serial number and interface), else USB location, else the portName.
   */
  readonly stableId: string;
}

export interface Inventory {
  /** Every real port, those of serial.extra_ports, and the simulated line; sorted by name, no duplicates. */
  list(): Promise<readonly Port[]>;
  /** The port that `name` means now (a portName or one of its links). */
  find(name: string): Promise<Port | undefined>;
  /** The port that is the same hardware as `known`, whatever it is called now. */
  findAgain(known: Port): Promise<Port | undefined>;
  /** Calls back soon after any port may have appeared or become accessible (device node or link added or changed). */
  watch(call: () => void): { close(): void };
}
