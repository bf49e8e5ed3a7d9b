/** Imported by the hub that is measured: SIGUSR2 collects its garbage, so that what is left is in use. */
import { collectGarbage } from '../../../../src/shared/base/memory.ts';

process.on('SIGUSR2', collectGarbage);
