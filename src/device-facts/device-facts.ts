/** The device's own dictionaries, device.ports and device.line: the hub asks the line for its facts, and tells the centre through its own outbox. */
import { Keeper, type KeeperOptions } from './keeper.ts';
import { connectLine } from './line-client.ts';

export interface DeviceFactsOptions extends Omit<KeeperOptions, 'source'> {
  /** Of the line's gRPC interface. */
  readonly socketPath: string;
}

/** Never fails: while the line is away, or the store full, what is stored stays and it is tried again. */
export function startDeviceFacts({ socketPath, ...options }: DeviceFactsOptions): { stop(): Promise<void> } {
  return new Keeper({ ...options, source: connectLine(socketPath) });
}
