/** What the line counts since the service started. */
export interface Counters {
  rxBytes: number;
  txBytes: number;
  rxChunks: number;
  txPackets: number;
  rxDroppedPackets: number;
  rxDroppedBytes: number;
  txFailedPackets: number;
  losses: number;
  reopens: number;
  rxPauses: number;
  rxFetchedPackets: number;
}

export function newCounters(): Counters {
  return {
    rxBytes: 0,
    txBytes: 0,
    rxChunks: 0,
    txPackets: 0,
    rxDroppedPackets: 0,
    rxDroppedBytes: 0,
    txFailedPackets: 0,
    losses: 0,
    reopens: 0,
    rxPauses: 0,
    rxFetchedPackets: 0,
  };
}
