/** What a topic lacks of what was asked for, in words. Pure. */
import type { TopicSpec } from './face.ts';

export interface FoundTopic {
  /** 0: it does not exist. */
  readonly partitions: number;
  /** Its settings, or why they are not known. */
  readonly config: ReadonlyMap<string, string> | string;
}

export function lacksOf(wish: TopicSpec, found: FoundTopic, maxMessageBytes: number): string[] {
  const lacks: string[] = [];
  if (found.partitions < wish.partitions) {
    lacks.push(
      `has ${found.partitions} partition${found.partitions === 1 ? '' : 's'}, ${wish.partitions} are asked for`,
    );
  }
  if (typeof found.config === 'string') return [...lacks, `its settings are not known: ${found.config}`];
  for (const [name, asked] of Object.entries(wish.config)) {
    const has = found.config.get(name);
    if (has !== asked) lacks.push(`${name} is ${has ?? 'not known'}, ${asked} is asked for`);
  }
  const limit = limitOf(found);
  if (limit !== undefined && limit < maxMessageBytes) {
    lacks.push(
      `takes messages of up to ${limit} bytes (max.message.bytes), kafka.max_message_bytes allows ${maxMessageBytes}`,
    );
  }
  return lacks;
}

/** Bytes of the largest message (or batch) that a topic takes; undefined: not known. */
export function limitOf(found: FoundTopic): number | undefined {
  const text = typeof found.config === 'string' ? undefined : found.config.get('max.message.bytes');
  return text === undefined || text === '' ? undefined : Number(text);
}
