/** What an encoded UpstreamBatch shows before its parts become objects. Pure. */
import Long from 'long';
import { Reader } from 'protobufjs/minimal.js';
import { MAX_CORRECTIONS, MAX_ENTRIES, MAX_GAPS } from './limits.ts';

/** Numbers of fields of UpstreamBatch, as in proto/lineside.proto. */
const THROUGH_ID = 6;
const GAPS = 8;
const CORRECTIONS = 9;
/** Far above what any later version will have. */
const MAX_FIELDS = 256;

const parts = [
  { field: 7, name: 'entries', limit: MAX_ENTRIES },
  { field: GAPS, name: 'gaps', limit: MAX_GAPS },
  { field: CORRECTIONS, name: 'clock_corrections', limit: MAX_CORRECTIONS },
] as const;

/** What is wrong with the sizes; '': nothing. Throws where the bytes are no message at all. */
export function sizeFault(encoded: Uint8Array): string {
  const counts = new Map<number, number>();
  const reader = Reader.create(encoded);
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    const field = tag >>> 3;
    counts.set(field, (counts.get(field) ?? 0) + 1);
    reader.skipType(tag & 7);
    if (counts.size > MAX_FIELDS) return 'the batch has fields without end';
  }
  for (const { field, name, limit } of parts) {
    const count = counts.get(field) ?? 0;
    if (count > limit) return `${name}: ${count} of them; at most ${limit} in a batch`;
  }
  return '';
}

/** Of a batch that was judged before: much cheaper than to decode it. */
export function glance(encoded: Uint8Array): { readonly throughId: Long; readonly mayHaveExtras: boolean } {
  let throughId = Long.UZERO;
  let mayHaveExtras = false;
  const reader = Reader.create(encoded);
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    const field = tag >>> 3;
    if (field === GAPS || field === CORRECTIONS) mayHaveExtras = true;
    if (field === THROUGH_ID) throughId = Long.fromValue(reader.uint64());
    else reader.skipType(tag & 7);
  }
  return { throughId, mayHaveExtras };
}
