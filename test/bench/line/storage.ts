/** What the card has to bear: bytes written to storage for each byte of the line, checkpoints and the final close included. */
import { readFileSync, statSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { allStored } from '../contenders.ts';
import { startLineside } from '../lineside.ts';
import { io, parseIo } from '../processes.ts';
import { PtyDriver } from '../pty-driver.ts';
import { judge, type Line, type Row } from '../table.ts';

const BITS_PER_BYTE = 10;
/** sh waits for the daemon; what the daemon wrote until its very end is then sh's own (a child's account is its parent's). */
const AFTERWARDS = ['sh', '-c', '"$0" "$@" & wait $!; cat /proc/$$/io'] as const;
const SECTOR_BYTES = 512;

const cases = [
  { baud: 9_600, writeBytes: 1, aim: 8, what: 'byte by byte' },
  { baud: 9_600, writeBytes: 8, aim: 8, what: 'in 8-byte bursts, as half a FIFO gives them' },
  { baud: 115_200, writeBytes: 1, aim: 2.5, what: 'byte by byte' },
  { baud: 115_200, writeBytes: 16, aim: 2.5, what: 'in 16-byte writes' },
] as const;

interface Cost {
  readonly perByte: number;
  readonly windowPerByte: number;
  readonly wcharPerByte: number;
  readonly entries: number;
}

export const storage: Row = {
  name: 'storage',
  async run({ quick, say }) {
    const seconds = quick ? 15 : 120;
    const before = deviceBytes();
    // At the same time: they take no CPU to speak of, and each is charged for its own bytes.
    const costs = await Promise.all(cases.map((each) => measure(each.baud, each.writeBytes, seconds)));
    const device = before === undefined ? undefined : (deviceBytes() ?? Number.NaN) - before;
    if (device !== undefined) {
      const logged = cases.reduce((sum, { baud }) => sum + (baud / BITS_PER_BYTE) * seconds, 0);
      say(
        `the whole device meanwhile: ${(device / logged).toFixed(2)} bytes per logged byte, everybody's writes and the file system's journal included`,
      );
    }
    return cases.map(({ baud, what, aim }, i): Line => {
      const cost = costs[i];
      if (cost === undefined) throw new Error('a case was not measured');
      return {
        row: `bytes to storage per logged byte, ${baud.toLocaleString('en')} baud continuous ${what}, ${seconds} s`,
        lineside: `${cost.perByte.toFixed(2)} with the final checkpoint (${cost.windowPerByte.toFixed(2)} until then, ${cost.wcharPerByte.toFixed(2)} by write calls), ${cost.entries} entries`,
        against: '1.0',
        ratio: cost.perByte.toFixed(2),
        aim: `at most ${aim}`,
        verdict: judge(cost.perByte <= aim),
      };
    });
  },
};

async function measure(baud: number, writeBytes: number, seconds: number): Promise<Cost> {
  const bytes = (baud / BITS_PER_BYTE) * seconds;
  const driver = await PtyDriver.open();
  const lineside = await startLineside({ wrapper: AFTERWARDS });
  if (lineside.process.stdout === null) throw new Error('no pipe to the wrapped daemon');
  const output = text(lineside.process.stdout);
  await lineside.open(driver.slavePath, baud);
  const before = io(lineside.pid);
  await driver.pace(bytes, writeBytes, baud / BITS_PER_BYTE);
  await allStored(lineside);
  const until = io(lineside.pid);
  const entries = Number((await lineside.client.status()).counters?.rxChunks ?? 0);
  await lineside.close();
  const after = parseIo(await output);
  await driver.close();
  return {
    perByte: (after.writeBytes - before.writeBytes) / bytes,
    windowPerByte: (until.writeBytes - before.writeBytes) / bytes,
    wcharPerByte: (until.wchar - before.wchar) / bytes,
    entries,
  };
}

/** Bytes written to the device that holds the temporary directory, since the machine started. */
function deviceBytes(): number | undefined {
  const { dev } = statSync('/tmp');
  const name = `${(dev >> 8) & 0xfff}:${(dev & 0xff) | ((dev >> 12) & 0xfff00)}`;
  try {
    const sectors = readFileSync(`/sys/dev/block/${name}/stat`, 'utf8').trim().split(/\s+/)[6];
    return Number(sectors) * SECTOR_BYTES;
  } catch {
    return undefined;
  }
}
