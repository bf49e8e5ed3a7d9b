/** Asks the next start of the box to throw all data away: while it runs, its data partition is in use. */
import { closeSync, fsyncSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { LinesideError } from '../../shared/base/errors.ts';
import { syncPath } from '../backup/restore-swap.ts';
import { writeWhole } from '../tar-file.ts';
import { readBootFacts, type UpdatePlace, withBoot } from './boot-partition.ts';

const requestName = 'factory-reset';

/**
 * The request names this box: on a card that was put into another one it asks for nothing. What runs before anything is
 * mounted obeys it, marks the data partition as empty, and removes it.
 */
export function requestFactoryReset(place: UpdatePlace, machineIdFile = '/etc/machine-id'): void {
  readBootFacts(place);
  const machineId = readFileSync(machineIdFile, 'utf8').trim();
  if (!/^[0-9a-f]{32}$/.test(machineId)) {
    throw new LinesideError('NOT_READY', `${machineIdFile} does not say which box this is`, {
      hint: 'Write a new card instead.',
    });
  }
  withBoot(place, () => {
    const fd = openSync(join(place.bootDir, requestName), 'w', 0o600);
    try {
      writeWhole(fd, Buffer.from(`${machineId}\n`));
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    syncPath(place.bootDir);
  });
}
