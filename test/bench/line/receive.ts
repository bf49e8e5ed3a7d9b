/** The receive path at full speed: PTY to StreamLog, logged. */
import { receiveLog } from '../grpc-lean.ts';
import { cpuOf } from '../processes.ts';
import { CONTENT_BYTES } from '../pty-driver.ts';
import { expectedDigest, Receiver } from '../receiver.ts';
import { allStored, type Station, skipped, startBare, startLineside, startSer2nets } from '../stations.ts';
import { atLeast, inTurns, type Line, medians, type Row } from '../table.ts';

const BAUD = 12_000_000;
/** Every read is an entry: the least that a server can do. */
const GAP_MS = 0;
/** What the kernel's line discipline takes at once. */
const WRITE_BYTES = 4_096;
const LIMIT_MS = 120_000;
const ROW = 'receive path, PTY to StreamLog, logged; SHA-256 equal, also read back';
/** At least so many times the peer's bytes/s. */
const AIMS: Readonly<Record<string, number>> = { 'ser2net as shipped': 2, 'ser2net tuned': 0.5, 'bare grpc-js': 0.8 };

type Run = Awaited<ReturnType<typeof flood>>;

export const receive: Row = {
  name: 'receive',
  whyMissed:
    'Every byte is stored as well. The thread that commits to the card uses nearly as much processor time as the ' +
    'thread that reads and sends (2.6 and 3.1 s in one profile), and the two cores also run the device and the ' +
    'reader. The reading thread spends a third of its time in system calls, 17 % on garbage and 9 % on handing ' +
    'the bytes to the other thread.',
  async run({ quick, say }) {
    const bytes = (quick ? 20 : 100) * CONTENT_BYTES;
    const rounds = quick ? 1 : 3;
    const lineside = await startLineside(BAUD);
    const { ser2net, missing } = await startSer2nets(BAUD);
    const peers = [...ser2net, await startBare(GAP_MS)];
    const contenders = await Promise.all(
      [lineside, ...peers].map(async (station) => {
        const receiver = new Receiver();
        await station.receive(receiver.take);
        const settled = station === lineside ? () => allStored(lineside.daemon) : undefined;
        return [station.name, () => flood(station, receiver, bytes, settled)] as const;
      }),
    );
    // The first round of each warms its compiler up.
    const runs = await inTurns({ rounds, warmUp: true }, Object.fromEntries(contenders), (name, run) =>
      say(`${name}: ${show(run)}`),
    );
    await storedIsEqual(lineside.address, bytes * (rounds + 1));
    const own = medians(runs[lineside.name]);
    const lines = peers.map(({ name }): Line => {
      const other = medians(runs[name]);
      return {
        row: ROW,
        lineside: show(own),
        against: `${name}: ${show(other)}`,
        ...atLeast(own.megabytesPerSecond / other.megabytesPerSecond, AIMS[name] ?? 1, ' the bytes/s'),
      };
    });
    for (const station of [lineside, ...peers]) await station.close();
    return [...skipped(ROW, missing), ...lines];
  },
};

async function flood({ name, pid, driver }: Station, receiver: Receiver, bytes: number, settled?: () => Promise<void>) {
  const { cpu, result: seconds } = await cpuOf(pid, async () => {
    const from = performance.now();
    await Promise.all([receiver.all(bytes, LIMIT_MS), driver.flood(bytes, WRITE_BYTES)]);
    const took = (receiver.endedAt - from) / 1_000;
    await settled?.();
    return took;
  });
  if (receiver.digest() !== expectedDigest(bytes))
    throw new Error(`${name}: the SHA-256 of what arrived is not that of what was sent`);
  return { megabytesPerSecond: bytes / seconds / 1e6, cpuPer100Megabytes: (cpu * 1e8) / bytes };
}

async function storedIsEqual(address: string, bytes: number): Promise<void> {
  const stored = new Receiver();
  const stream = receiveLog(address, true, stored.take);
  await stored.all(bytes, LIMIT_MS);
  await stream.close();
  if (stored.digest() !== expectedDigest(bytes))
    throw new Error('the SHA-256 of the stored log is not that of what was sent');
}

const show = (run: Run): string =>
  `${run.megabytesPerSecond.toFixed(1)} MB/s, ${run.cpuPer100Megabytes.toFixed(2)} CPU s per 100 MB`;
