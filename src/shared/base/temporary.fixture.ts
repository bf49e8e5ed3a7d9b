/** A directory for one test, which removes it at its end. */
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export function temporaryDirectory(t: { after(call: () => void): void }): string {
  const dir = realpathSync(mkdtempSync(join(tmpdir(), 'lineside-test-')));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}
