/** What a fleet's topic has, read by kcat, against what the boxes have written. */
import { consumed } from '../kafka/offering.ts';

export interface FleetRead {
  readonly messages: number;
  readonly missing: number;
  readonly duplicates: number;
  /** A box's version that first came after a later one of it. */
  readonly late: number;
}

export async function readFleet(
  bootstrap: string,
  topic: string,
  written: ReadonlyMap<string, number>,
): Promise<FleetRead> {
  const messages = await consumed(bootstrap, topic);
  const seen = new Map<string, Set<number>>();
  let [duplicates, late] = [0, 0];
  const highest = new Map<string, number>();
  for (const { key, value } of messages) {
    const box = key.slice(key.indexOf(':') + 1);
    const version = versionOf(value);
    const versions = seen.get(box) ?? new Set<number>();
    seen.set(box, versions);
    if (versions.has(version)) duplicates++;
    else if (version < (highest.get(box) ?? 0)) late++;
    versions.add(version);
    highest.set(box, Math.max(version, highest.get(box) ?? 0));
  }
  let missing = 0;
  for (const [box, count] of written) {
    for (let version = 1; version <= count; version++) if (!seen.get(box)?.has(version)) missing++;
  }
  return { messages: messages.length, missing, duplicates, late };
}

function versionOf(value: string): number {
  const event: unknown = JSON.parse(value);
  if (typeof event === 'object' && event !== null && 'version' in event) return Number(event.version);
  throw new Error(`not an event: ${value}`);
}
