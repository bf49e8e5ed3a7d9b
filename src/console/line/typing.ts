/** What is typed and pasted into a terminal, as the bytes that the line gets, and as the screen shows it. Pure. */
import { text } from '../text.ts';

export const lineEndings = { cr: '\r', lf: '\n', crlf: '\r\n' } as const;
export type LineEnding = keyof typeof lineEndings;

/** One paste: some pages of configuration, a minute of line at 9,600 baud. */
export const MAX_PASTE_CHARS = 64 * 1_024;
/** More is asked about: a clipboard may hold something else than the technician remembers. */
const ASK_CHARS = 1_024;

/** `typed`: of the keyboard, with CR for Enter; or pasted. */
export function bytesOf(typed: string, ending: LineEnding): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(typed.replaceAll(/\r\n|\r|\n/g, lineEndings[ending]));
}

export interface Paste {
  readonly text: string;
  /** What is to be asked before; '': nothing. */
  readonly question: string;
  /** Why it cannot be pasted; ''. */
  readonly fault: string;
}

export function pasteOf(pasted: string): Paste {
  const lines = pasted.split(/\r\n|\r|\n/).length;
  const tooLong = pasted.length > MAX_PASTE_CHARS;
  const asks = lines > 1 || pasted.length > ASK_CHARS;
  return {
    text: pasted,
    question: asks && !tooLong ? text.terminal.pasteQuestion(lines, pasted.length) : '',
    fault: tooLong ? text.terminal.pasteTooLong(pasted.length, MAX_PASTE_CHARS) : '',
  };
}

/** For a screen: what is typed, where the device does not answer with it. Escape sequences of keys are not shown. */
export function echoOf(typed: string): string {
  if (typed.startsWith('\x1b')) return '';
  const shown = Array.from(typed, (sign) => {
    if (sign === '\r' || sign === '\n') return '\r\n';
    if (sign === '\x7f' || sign === '\b') return '\b \b';
    if (sign === '\t' || sign >= ' ') return sign;
    return `^${String.fromCharCode(sign.charCodeAt(0) + 64)}`;
  });
  return shown.join('');
}
