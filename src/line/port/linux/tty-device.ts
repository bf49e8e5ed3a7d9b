/** Opens real ports and PTYs. The work is loaded at the first Open: koffi and serialport cost 40 ms at start otherwise. */
import type { OpenDevice } from './device.ts';

export const openTty: OpenDevice = async (port, settings) => {
  const { openTtyNow } = await import('./tty-open.ts');
  return openTtyNow(port, settings);
};
