/**
 * Appends to the log of argv[2] until it is killed, and prints a line for each fact it was told:
 * `id N` for an entry that is stored, `head N` for the last id it handed out.
 */

import { openSerialLog } from '../../src/line/log/serial-log.ts';
import { systemClock } from '../../src/shared/base/clock.ts';
import { silentLogger } from '../../src/shared/base/logger.ts';
import { contentOf } from './kill-content.ts';

const log = await openSerialLog({
  dir: process.argv[2] ?? '',
  maxBytes: 1 << 30,
  maxAgeDays: 30,
  commitMs: 5,
  queueBytes: 8 << 20,
  tailBytes: 1 << 20,
  clock: systemClock,
  logger: silentLogger,
});
let head = 0;
void (async () => {
  const request = {
    after: 'live',
    follow: true,
    dir: undefined,
    sinceMs: undefined,
    untilMs: undefined,
    limit: undefined,
  } as const;
  for await (const run of log.read(request, new AbortController().signal)) head = run.nextAfterId;
})();
process.stdout.write('ready\n');
for (;;) {
  const { headId } = await log.status();
  for (let i = 0; i < 7; i++) {
    const id = headId + 1 + i;
    log.record(1, id, contentOf(id));
  }
  const id = headId + 8;
  const stored = await log.store({ dir: 0, timestampMs: id, data: contentOf(id), note: String(id) });
  process.stdout.write(`id ${stored.id}\nhead ${Math.max(head, stored.id)}\n`);
}
