/** The bytes of an entry by its id, so that a torn or swapped one shows. Some are larger than a page, some than ten. */
import { createHash } from 'node:crypto';

export function contentOf(id: number): Buffer {
  const seed = createHash('sha256').update(String(id)).digest();
  const length = id % 50 === 0 ? 5_000 + (id % 7) * 1_000 : (id * 37) % 700;
  return Buffer.alloc(length, seed);
}
