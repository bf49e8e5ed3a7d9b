/** What the card has to bear: bytes written to storage for each byte of the line, checkpoints and the final close included. */
import { join } from 'node:path';
import { temporaryDirectory } from '../../e2e/daemon.ts';
import { deviceBytes } from '../card.ts';
import { accountedIn, io, ioIn } from '../processes.ts';
import { allStored, startLineside } from '../stations.ts';
import { judge, type Line, type Row } from '../table.ts';

const BITS_PER_BYTE = 10;

const cases = [
  { baud: 9_600, writeBytes: 1, aim: 6, what: 'byte by byte' },
  { baud: 9_600, writeBytes: 8, aim: 6, what: 'in 8-byte bursts, as half a FIFO gives them' },
  { baud: 115_200, writeBytes: 1, aim: 2, what: 'byte by byte' },
  { baud: 115_200, writeBytes: 16, aim: 2, what: 'in 16-byte writes' },
] as const;

export const storage: Row = {
  name: 'storage',
  whyMissed:
    'SQLite writes each byte twice, to its write-ahead log and to the file, and Linux writes whole pages of 4 ' +
    'KiB. At 9,600 baud a page a second is 4.3 bytes for each logged byte already, and the 2.2 KB of a commit lie ' +
    'in one and a half pages on average. At 115,200 baud the two copies are 2.0 without any headers and indexes. ' +
    'Page sizes that were tried: src/line/log/store/open-file.ts.',
  async run({ quick, say }) {
    const seconds = quick ? 15 : 120;
    const before = deviceBytes('/tmp');
    // At the same time: they take no CPU to speak of, and each is charged for its own bytes.
    const lines = await Promise.all(cases.map((one) => measure(one, seconds)));
    const device = deviceBytes('/tmp') - before;
    const logged = cases.reduce((sum, { baud }) => sum + (baud / BITS_PER_BYTE) * seconds, 0);
    say(
      `the whole device meanwhile: ${(device / logged).toFixed(2)} bytes per logged byte, everybody's writes and the file system's journal included`,
    );
    return lines;
  },
};

async function measure({ baud, writeBytes, aim, what }: (typeof cases)[number], seconds: number): Promise<Line> {
  const bytes = (baud / BITS_PER_BYTE) * seconds;
  const account = join(temporaryDirectory(), 'io');
  const { daemon, driver, pid, close } = await startLineside(baud, { wrapper: accountedIn(account) });
  const before = io(pid);
  await driver.pace(bytes, writeBytes, baud / BITS_PER_BYTE);
  await allStored(daemon);
  const until = io(pid);
  const entries = Number((await daemon.client.line.getStatus({})).counters?.rxChunks ?? 0);
  await close();
  const perByte = (from: number, to: number): string => ((to - from) / bytes).toFixed(2);
  const whole = (ioIn(account).writeBytes - before.writeBytes) / bytes;
  return {
    row: `bytes to storage per logged byte, ${baud.toLocaleString('en')} baud continuous ${what}, ${seconds} s`,
    lineside: `${whole.toFixed(2)} with the final checkpoint (${perByte(before.writeBytes, until.writeBytes)} until then, ${perByte(before.wchar, until.wchar)} by write calls), ${entries} entries`,
    against: '1.0',
    ratio: whole.toFixed(2),
    aim: `at most ${aim}`,
    verdict: judge(whole <= aim),
  };
}
