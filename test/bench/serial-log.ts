/** A serial log as the line would have left it. */
import { join } from 'node:path';
import { RX } from '../../src/line/log/entry.ts';
import { openSerialLog } from '../../src/line/log/serial-log.ts';
import { systemClock } from '../../src/shared/base/clock.ts';
import { silentLogger } from '../../src/shared/base/logger.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';

const MIB = 1_048_576;
const AT_ONCE_BYTES = 4 * MIB;

/** So many received entries, in the data directory below `dir`. */
export async function filledLog(dir: string, entries: number, entry: (n: number) => Uint8Array): Promise<void> {
  const log = await openSerialLog({
    dir: join(dir, 'data'),
    commitMs: 100,
    maxBytes: 1_024 * MIB,
    maxAgeDays: 30,
    queueBytes: 64 * MIB,
    tailBytes: 65_536,
    clock: systemClock,
    logger: silentLogger,
  });
  for (let n = 0; n < entries; ) {
    for (let bytes = 0; n < entries && bytes < AT_ONCE_BYTES; n++) {
      const data = entry(n);
      log.record(RX, Date.now(), data);
      bytes += data.length;
    }
    await until('the log to be stored', async () => (await log.status()).pendingEntries === 0);
  }
  await log.close();
}
