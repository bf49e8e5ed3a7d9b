/** Lines at their own speed: 12 Mbaud with a subscriber, 115,200 baud with nobody looking. */
import { allStored, cpuOf, linesideContender, ser2netContenders, skipped } from '../contenders.ts';
import { expectedDigest } from '../receiver.ts';
import { judge, type Line, type Row, times } from '../table.ts';

/** Start bit, 8 data bits, stop bit. */
const BITS_PER_BYTE = 10;
const FAST_BAUD = 12_000_000;
const FAST_WRITE_BYTES = 64;
const FAST_CPU_AIM = 0.3;
const USUAL_BAUD = 115_200;
const USUAL_WRITE_BYTES = 16;
const USUAL_CPU_AIM = 1.5;
/** Beyond the length of the run, for what is still under way. */
const LIMIT_MS = 20_000;

export const fast: Row = {
  name: '12mbaud',
  async run({ quick }) {
    const seconds = quick ? 10 : 60;
    const bytes = (FAST_BAUD / BITS_PER_BYTE) * seconds;
    const lineside = await linesideContender({ baud: FAST_BAUD, subscribed: true });
    const { cpu, result } = await cpuOf(lineside.pid, async () => {
      const [driven] = await Promise.all([
        lineside.driver.pace(bytes, FAST_WRITE_BYTES, FAST_BAUD / BITS_PER_BYTE),
        lineside.receiver.all(bytes, seconds * 1_000 + LIMIT_MS),
      ]);
      return driven;
    });
    await allStored(lineside.lineside);
    const { entries } = lineside.receiver;
    const equal = lineside.receiver.digest() === expectedDigest(bytes);
    await lineside.close();
    const share = cpu / ((result.endNs - result.startNs) / 1e9);
    return [
      {
        row: `12 Mbaud in 64-byte writes, ${seconds} s, logged, one subscriber`,
        lineside: `${(share * 100).toFixed(1)} % of one core, ${equal ? 'SHA-256 equal' : 'BYTES LOST'}, ${(bytes / entries).toFixed(0)} bytes an entry`,
        against: `the line rate (driver at most ${result.worstLateMs.toFixed(0)} ms late)`,
        ratio: '',
        aim: 'no loss, under 30 %',
        verdict: judge(equal && share < FAST_CPU_AIM),
      },
    ];
  },
};

export const usual: Row = {
  name: '115200',
  async run({ quick }) {
    const seconds = quick ? 10 : 60;
    const bytes = (USUAL_BAUD / BITS_PER_BYTE) * seconds;
    const lineside = await linesideContender({ baud: USUAL_BAUD, subscribed: false });
    const { ser2net: peers, missing } = await ser2netContenders(USUAL_BAUD);
    // All at once: they take a few percent each, and so the machine is the same for all.
    const shares = await Promise.all(
      [lineside, ...peers].map(async ({ pid, driver }) => {
        const { cpu } = await cpuOf(pid, () => driver.pace(bytes, USUAL_WRITE_BYTES, USUAL_BAUD / BITS_PER_BYTE));
        return cpu / seconds;
      }),
    );
    await allStored(lineside.lineside);
    for (const contender of [lineside, ...peers]) await contender.close();
    const [own = Number.NaN, ...others] = shares;
    const row = `115,200 baud in 16-byte writes, ${seconds} s, logged, no subscriber: CPU`;
    const lines = peers.map((peer, i): Line => {
      const ratio = own / (others[i] ?? Number.NaN);
      return {
        row,
        lineside: `${(own * 100).toFixed(2)} % of one core`,
        against: `${peer.name}, trace file, a client: ${((others[i] ?? 0) * 100).toFixed(2)} %`,
        ratio: times(ratio),
        aim: i === 0 ? `at most ${USUAL_CPU_AIM} x` : 'shown beside it',
        verdict: i === 0 ? judge(ratio <= USUAL_CPU_AIM) : 'shown',
      };
    });
    return [...skipped(row, missing), ...lines];
  },
};
