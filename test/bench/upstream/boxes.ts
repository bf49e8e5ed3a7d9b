/** The compiled service as `lineside serve` starts it, line and hub, with a broker and the serial log on its way there or not. */
import type { Toml } from '../../e2e/daemon.ts';
import { type Both, startBoth } from '../../e2e/hub.ts';
import { DEVICE_ID } from '../outbox/settings.ts';
import { processSeconds } from '../processes.ts';

export interface BoxOptions {
  readonly bootstrap: string;
  readonly topic: string;
  readonly to: 'off' | 'kafka';
  readonly compression?: 'none' | 'zstd';
  readonly lingerMs?: number;
  /** Its serial log is there already. */
  readonly dir?: string;
}

export function startBox({
  bootstrap,
  topic,
  to,
  compression = 'zstd',
  lingerMs = 5_000,
  dir,
}: BoxOptions): Promise<Both> {
  const config: Toml = {
    serial: { extra_ports: ['/dev/pts/*'] },
    device: { id: DEVICE_ID, inventory: false },
    http: { listen: ['unix:http.sock'] },
    kafka: { bootstrap, topic_prefix: 'bench.hub' },
    upstream: { to, topic, compression, linger_ms: lingerMs },
  };
  return startBoth({ config, ...(dir !== undefined && { dir }) });
}

export function cpuOfBox(box: Both): { readonly line: number; readonly hub: number } {
  return { line: processSeconds(box.linePid), hub: processSeconds(box.pid()) };
}
