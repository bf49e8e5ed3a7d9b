/** A logger that keeps its lines as they are in the journal: `warn refused a caller peer=127.0.0.1`. */
import { createLogger, type Logger } from './logger.ts';

export function recordingLogger(): { readonly logger: Logger; readonly lines: string[] } {
  const lines: string[] = [];
  const write = (line: string): void => void lines.push(line.replace(/^<\d>/, '').trimEnd());
  return { logger: createLogger({ write, journal: true, debug: true, wallMs: () => 0 }), lines };
}
