/** What is taken of the numbers of Open, both ends included: the line checks them, and the console before it sends them. Pure. */
export const lineLimits = {
  // The fastest UARTs in use (FT232H, FT2232H) end at 12 Mbaud.
  baudRate: [1, 12_000_000],
  dataBits: [5, 8],
  // The largest packet that SendPacket would take by default, too.
  packetSize: [0, 65_536],
  // As serial.rx_gap_ms.
  rxGapMs: [0, 1_000],
} as const;
