/** Batches of the log as JSON lines. Pure. */
import type { lineside } from '../../shared/proto/services.ts';
import { logItems } from './entries.ts';
import { type DataForm, entryJson, gapJson, jsonLine } from './json.ts';

/** An entry or {"gap": ...} to a line. */
export function jsonLines(batch: lineside.v1.LogBatch, form: DataForm): string {
  let text = '';
  for (const { kind, value } of logItems(batch)) {
    text += jsonLine(kind === 'gap' ? { gap: gapJson(value) } : entryJson(value, form));
  }
  return text;
}
