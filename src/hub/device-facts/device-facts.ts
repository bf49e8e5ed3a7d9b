/** The device's own dictionaries, device.ports and device.line: the hub asks the line for its facts, and tells the centre through its own outbox. */
import type { LineClient } from '../../shared/line-client/line-client.ts';
import { Keeper, type KeeperOptions, type LineSource } from './keeper.ts';

export interface DeviceFactsOptions extends Omit<KeeperOptions, 'source'> {
  /** Whose it is closes it, after stop(). */
  readonly client: LineClient;
}

/** Never fails: while the line is away, or the store full, what is stored stays and it is tried again. */
export function startDeviceFacts({ client, ...options }: DeviceFactsOptions): { stop(): Promise<void> } {
  return new Keeper({ ...options, source: lineSource(client) });
}

function lineSource({ serial, line }: LineClient): LineSource {
  return {
    async look(signal) {
      const [{ devices }, status] = await Promise.all([
        serial.listDevices({}, { signal }),
        line.getStatus({}, { signal }),
      ]);
      return { devices, status };
    },
  };
}
