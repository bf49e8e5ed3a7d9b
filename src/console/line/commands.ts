/** The list of saved commands, as it is changed. Pure. */
import { text } from '../text.ts';
import { bytesOf, type LineCommand } from './sending.ts';

const words = text.commands;

/** Why a command cannot be saved under that name; undefined: it can. `before`: the name that it has already, or ''. */
export function nameFault(items: readonly LineCommand[], name: string, before: string): string | undefined {
  const wanted = name.trim();
  if (wanted === '') return words.noName;
  return wanted !== before && items.some((one) => one.name === wanted) ? words.taken(wanted) : undefined;
}

/** Why its bytes cannot be sent; undefined: they can. */
export function dataFault(command: Omit<LineCommand, 'name'>): string | undefined {
  const read = bytesOf(command);
  if ('fault' in read) return read.fault;
  return read.bytes.length === 0 ? text.send.nothingTyped : undefined;
}

/** In its place, or at the end. One that another person has deleted meanwhile is added again. */
export function withCommand(items: readonly LineCommand[], command: LineCommand, before: string): LineCommand[] {
  const at = items.findIndex(({ name }) => name === before);
  return at === -1 ? [...items, command] : items.with(at, command);
}

export function withoutCommand(items: readonly LineCommand[], gone: string): LineCommand[] {
  return items.filter(({ name }) => name !== gone);
}
