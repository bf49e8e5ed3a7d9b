/** What the line counts since the service started. */
export function newCounters() {
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
    /** By ReceivePacket. */
    rxFetchedPackets: 0,
  };
}

export type Counters = ReturnType<typeof newCounters>;
