/** Lines at their own speed: 12 Mbaud with a subscriber, 115,200 baud without one. */
import { cpuOf } from '../processes.ts';
import { expectedDigest, Receiver } from '../receiver.ts';
import { allStored, skipped, startLineside, startSer2nets } from '../stations.ts';
import { judge, type Line, type Row, shown, times } from '../table.ts';

/** Start bit, 8 data bits, stop bit. */
const BITS_PER_BYTE = 10;
const FAST_BAUD = 12_000_000;
const FAST_WRITE_BYTES = 64;
const FAST_CPU_AIM = 0.22;
const USUAL_BAUD = 115_200;
const USUAL_WRITE_BYTES = 16;
const USUAL_CPU_AIM = 1.2;
/** Beyond the length of the run, for what is still under way. */
const LIMIT_MS = 20_000;

export const fast: Row = {
  name: '12mbaud',
  async run({ quick }) {
    const seconds = quick ? 10 : 60;
    const bytes = (FAST_BAUD / BITS_PER_BYTE) * seconds;
    const { daemon, driver, pid, receive, close } = await startLineside(FAST_BAUD);
    const receiver = new Receiver();
    await receive(receiver.take);
    const { cpu, result } = await cpuOf(pid, async () => {
      const [driven] = await Promise.all([
        driver.pace(bytes, FAST_WRITE_BYTES, FAST_BAUD / BITS_PER_BYTE),
        receiver.all(bytes, seconds * 1_000 + LIMIT_MS),
      ]);
      return driven;
    });
    await allStored(daemon);
    const { entries } = receiver;
    const equal = receiver.digest() === expectedDigest(bytes);
    await close();
    const share = cpu / ((result.endNs - result.startNs) / 1e9);
    return [
      {
        row: `12 Mbaud in 64-byte writes, ${seconds} s, logged, one subscriber`,
        lineside: `${(share * 100).toFixed(1)} % of one core, ${equal ? 'SHA-256 equal' : 'BYTES LOST'}, ${(bytes / entries).toFixed(0)} bytes an entry`,
        against: `the line rate (driver at most ${result.worstLateMs.toFixed(0)} ms late)`,
        ratio: '',
        aim: `no loss, at most ${FAST_CPU_AIM * 100} %`,
        verdict: judge(equal && share <= FAST_CPU_AIM),
      },
    ];
  },
};

export const usual: Row = {
  name: '115200',
  whyMissed:
    "Each write of 16 bytes is an event of its own, 720 a second, and costs 60 us: Node's stream, the timer of " +
    'the chunk, the entry. ser2net does this in C. To read less often would delay every chunk.',
  async run({ quick }) {
    const seconds = quick ? 10 : 60;
    const bytes = (USUAL_BAUD / BITS_PER_BYTE) * seconds;
    const lineside = await startLineside(USUAL_BAUD);
    const { ser2net, missing } = await startSer2nets(USUAL_BAUD);
    for (const peer of ser2net) await peer.receive(() => {});
    // All at once: they take a few percent each, and so the machine is the same for all.
    const shares = await Promise.all(
      [lineside, ...ser2net].map(async ({ pid, driver }) => {
        const { cpu } = await cpuOf(pid, () => driver.pace(bytes, USUAL_WRITE_BYTES, USUAL_BAUD / BITS_PER_BYTE));
        return cpu / seconds;
      }),
    );
    await allStored(lineside.daemon);
    for (const station of [lineside, ...ser2net]) await station.close();
    const [own = Number.NaN, ...others] = shares;
    const row = `115,200 baud in 16-byte writes, ${seconds} s, logged, no subscriber: CPU`;
    const lines = ser2net.map((peer, i): Line => {
      const other = others[i] ?? Number.NaN;
      const ratio = own / other;
      const judged = { ratio: times(ratio), aim: `at most ${USUAL_CPU_AIM} x`, verdict: judge(ratio <= USUAL_CPU_AIM) };
      return {
        row,
        lineside: `${(own * 100).toFixed(2)} % of one core`,
        against: `${peer.name}, trace file, a client: ${(other * 100).toFixed(2)} %`,
        ...(i === 0 ? judged : shown(times(ratio))),
      };
    });
    return [...skipped(row, missing), ...lines];
  },
};
