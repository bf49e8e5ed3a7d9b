/** What a device says that speaks in lines: a sentence of 80 bytes each, with the numbers changing as a scale's or meter's do. */
import { seeded } from '../../soak/random.ts';

export const SENTENCE_BYTES = 80;
const CONTENT_BYTES = 1_048_576;

/** 1 MiB or a little less, whole sentences. */
export function sentences(): Buffer {
  const random = seeded(1);
  const count = Math.floor(CONTENT_BYTES / SENTENCE_BYTES);
  let gross = 12_000;
  const lines = Array.from({ length: count }, (_, n) => {
    gross += random.between(-40, 40);
    const at = new Date(1_767_225_600_000 + n * 1_000).toISOString().slice(0, 19);
    const line = `$WGT,${at},${random.between(1, 4)},${(gross / 10).toFixed(1)},kg,T,${random.between(0, 999)},ST,GS,${random.between(190, 260) / 10}C,`;
    return `${line.padEnd(SENTENCE_BYTES - 5, ' ')}*${(n & 0xff).toString(16).padStart(2, '0').toUpperCase()}\r\n`;
  });
  return Buffer.from(lines.join(''), 'latin1');
}
