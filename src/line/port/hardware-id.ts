/** What the attributes of a port in sysfs say about it, in pyserial's form where it has one. Pure. */

/** Attributes gathered on the way up from the tty to the bus; '' or undefined: not there. */
export interface PortFacts {
  /** "ttyUSB0". */
  readonly name: string;
  readonly usb: UsbFacts | undefined;
  /** First line of a PNP device's `id` ("PNP0501"). */
  readonly pnpId: string;
  /** The device below which the tty hangs: its bus ("platform", "amba", "pci") and its name there ("fe201000.serial"). */
  readonly bus: string;
  readonly busName: string;
  /** Of a PCI device, as "8086:8C3D". */
  readonly pciId: string;
  /** From the device tree: `label`, else the first `compatible`. */
  readonly treeName: string;
  readonly driver: string;
}

export interface UsbFacts {
  readonly vendorId: string;
  readonly productId: string;
  readonly serial: string;
  readonly manufacturer: string;
  readonly product: string;
  /** Name of the interface, from the device itself. */
  readonly interfaceName: string;
  /** bInterfaceNumber, two hex digits. */
  readonly interfaceNumber: string;
  readonly interfaceCount: number;
  /** Port of the adapter where one interface has several (`port_number`). */
  readonly portNumber: string;
  /** "1-1.2" and "1-1.2:1.0". */
  readonly deviceLocation: string;
  readonly interfaceLocation: string;
}

export function hardwareIdOf(facts: PortFacts): string {
  const { usb } = facts;
  if (usb !== undefined) {
    const id = `${usb.vendorId}:${usb.productId}`.toUpperCase();
    const location = usb.interfaceCount > 1 ? usb.interfaceLocation : usb.deviceLocation;
    return `USB VID:PID=${id}${usb.serial === '' ? '' : ` SER=${usb.serial}`}${location === '' ? '' : ` LOCATION=${location}`}`;
  }
  if (facts.pnpId !== '') return facts.pnpId;
  if (facts.pciId !== '') return `PCI VID:PID=${facts.pciId.toUpperCase()} LOCATION=${facts.busName}`;
  if (facts.busName === '') return '';
  // The Pi's PL011 is on the bus "amba", its mini-UART on "platform": to a technician both are the board's own.
  return facts.bus === 'amba' || facts.bus === 'platform'
    ? `platform:${facts.busName}`
    : `${facts.bus}:${facts.busName}`;
}

export function descriptionOf(facts: PortFacts): string {
  const { usb } = facts;
  if (usb === undefined) return facts.treeName;
  const product = usb.product === '' ? usb.manufacturer : usb.product;
  if (usb.interfaceName === '' || usb.interfaceName === product) return product;
  return product === '' ? usb.interfaceName : `${product} - ${usb.interfaceName}`;
}

/**
 * From the USB identity itself and not from the by-id link, although that says the same: the link comes later than the
 * port (udev makes it) or never, and a port that is back must be known at once.
 */
export function stableIdOf(facts: PortFacts, portName: string): string {
  const { usb } = facts;
  if (usb === undefined) return portName;
  const kind = `usb:${usb.vendorId}:${usb.productId}`.toLowerCase();
  const place = `${usb.interfaceNumber || '00'}${usb.portNumber === '' ? '' : `.${usb.portNumber}`}`;
  return usb.serial === '' ? `${kind}@${usb.deviceLocation}:${place}` : `${kind}:${usb.serial}:${place}`;
}
