/** Writes the pages of the reference; scripts/reference runs it. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pages } from './pages.ts';

const root = join(import.meta.dirname, '../..');
for (const [file, make] of Object.entries(pages)) {
  const { text, holes } = await make();
  writeFileSync(join(root, file), text);
  process.stdout.write(`${file}${holes.length === 0 ? '' : `: ${holes.length} things have no description`}\n`);
  for (const hole of holes) process.stdout.write(`  ${hole}\n`);
}
