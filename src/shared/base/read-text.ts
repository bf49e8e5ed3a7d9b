import { readFileSync } from 'node:fs';

/** '' if it cannot be read, for whatever reason: files of the kernel, and others that may be missing. */
export function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
