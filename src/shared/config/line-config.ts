/** The shape of [serial.line]; the numbers are those of serial.Parity and serial.StopBits. */
export interface LineConfig {
  readonly portName: string;
  readonly baudRate: number;
  readonly dataBits: 5 | 6 | 7 | 8;
  readonly parity: 0 | 1 | 2 | 3 | 4;
  readonly stopBits: 0 | 1 | 2;
  readonly packetSize: number;
}
