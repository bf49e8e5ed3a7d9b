/** A serial log as the line would have left it. */
import { join } from 'node:path';
import { RX } from '../../src/line/log/entry.ts';
import { openSerialLog } from '../../src/line/log/serial-log.ts';
import { systemClock } from '../../src/shared/base/clock.ts';
import { silentLogger } from '../../src/shared/base/logger.ts';

const MIB = 1_048_576;
/** A commit of a line: more at once the log would store without compression (log-database.ts). */
const AT_ONCE_BYTES = 32_768;

/** So many received entries, in the data directory below `dir`. `atOnceBytes`: of one commit, which is a block of the log; the entry that is stored last comes on top. */
export async function filledLog(
  dir: string,
  entries: number,
  entry: (n: number) => Uint8Array,
  atOnceBytes = AT_ONCE_BYTES,
): Promise<void> {
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
    for (let bytes = 0; n < entries - 1 && bytes < atOnceBytes; n++) {
      const data = entry(n);
      log.record(RX, Date.now(), data);
      bytes += data.length;
    }
    await log.store({ dir: RX, timestampMs: Date.now(), data: entry(n++), note: '' });
  }
  await log.close();
}
