/**
 * The whole box, line and hub together: at a typical site, at the same with rarer commits, and with nothing to do. All at
 * the same time, each on a disk of its own: they take a few per cent of a core, and each is charged for its own.
 */
import { spawnSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { rowsBroker } from '../broker.ts';
import { CARD_BYTES, deviceBytes } from '../card.ts';
import { io, processSeconds, type Resident, residentOf, switches } from '../processes.ts';
import { judge, type Line, type Row, shown } from '../table.ts';
import { type Site, startSite, startSubscribers } from './site.ts';

const CPU_AIM = 3;
const MEMORY_AIM_MB = 180;
const SAMPLE_MS = 10_000;
const DAY_S = 86_400;

const boxes = [
  { what: 'typical site, log.commit_ms 1,000', name: 'box1000', commitMs: 1_000, isBusy: true, aimMb: 500 },
  { what: 'typical site, log.commit_ms 5,000', name: 'box5000', commitMs: 5_000, isBusy: true, aimMb: 300 },
  { what: 'idle: port open, broker connected', name: 'boxidle', commitMs: 1_000, isBusy: false, aimMb: 0 },
] as const;

type Box = (typeof boxes)[number];

/** Of one process. */
interface Figures {
  readonly cpu: number;
  readonly written: number;
  readonly voluntary: number;
  readonly forced: number;
}

type Cost = Awaited<ReturnType<typeof measure>>;

const site: Row = {
  name: 'site',
  whyMissed:
    'Memory: each process is a Node, 42 MB before any code of lineside runs, and the pages of programs that both ' +
    'share are counted twice here. The sum with these pages counted once is beside it.',
  async run({ quick, say }) {
    const [minutes, changeMs, settleMs] = quick ? [1, 6_000, 20_000] : [10, 60_000, 60_000];
    const broker = await rowsBroker();
    const subscribers = await startSubscribers();
    const running = await Promise.all(
      boxes.map(async (box) => ({ box, site: await startSite({ ...box, bootstrap: broker.plain, subscribers }) })),
    );
    const over = new AbortController();
    try {
      const load = Promise.all(
        running.filter(({ box }) => box.isBusy).map(({ site }) => site.busy(changeMs, over.signal)),
      );
      // Noticed below, at the end of the settling.
      load.catch(() => undefined);
      await sleep(settleMs);
      const before = subscribers.received();
      say('measuring');
      const measured = Promise.all(running.map(({ site }) => measure(site, minutes * 60)));
      // A load that fails ends the run.
      const costs = await Promise.race([measured, load.then(() => measured)]);
      say(`${subscribers.received() - before} deliveries`);
      over.abort();
      await load;
      const how = `${minutes} min${quick ? ', a change every 6 s instead of every minute' : ''}`;
      return running.flatMap(({ box, site }, n) => {
        const cost = costs[n];
        return cost === undefined ? [] : linesOf(box, site, cost, how);
      });
    } finally {
      over.abort();
      for (const one of running) await one.site.close();
      subscribers.close();
      await broker.kill();
    }
  },
};

async function measure({ both, dir }: Site, seconds: number) {
  const pids = [both.linePid, both.pid()] as const;
  /** Of line and hub, when the sum was at its highest. */
  let memory: readonly Resident[] = [];
  const begin = performance.now();
  const [line, hub] = [figuresOf(pids[0]), figuresOf(pids[1])];
  const disk = diskBytes(dir);
  while (performance.now() - begin < seconds * 1_000) {
    const now = pids.map(residentOf);
    if (sum(now) > sum(memory)) memory = now;
    await sleep(Math.min(SAMPLE_MS, Math.max(0, begin + seconds * 1_000 - performance.now())));
  }
  const took = (performance.now() - begin) / 1_000;
  const [lineNow, hubNow] = [figuresOf(pids[0]), figuresOf(pids[1])];
  return { seconds: took, memory, line: less(lineNow, line), hub: less(hubNow, hub), disk: diskBytes(dir) - disk };
}

function sum(resident: readonly Resident[]): number {
  return resident.reduce((total, { all }) => total + all, 0);
}

/** The pages of Node's program and libraries are in memory once for both: those of the process that has more of them. */
function sharedOnce(resident: readonly Resident[]): number {
  const files = Math.max(...resident.map(({ all, anonymous }) => all - anonymous));
  return resident.reduce((total, { anonymous }) => total + anonymous, files);
}

function figuresOf(pid: number): Figures {
  return { cpu: processSeconds(pid), written: io(pid).writeBytes, ...switches(pid) };
}

function less(now: Figures, before: Figures): Figures {
  return {
    cpu: now.cpu - before.cpu,
    written: now.written - before.written,
    voluntary: now.voluntary - before.voluntary,
    forced: now.forced - before.forced,
  };
}

/** What the page cache still holds is written first. */
function diskBytes(dir: string): number {
  spawnSync('sync', ['-f', dir]);
  return deviceBytes(dir);
}

function linesOf({ what, isBusy, aimMb }: Box, { hasOwnDisk }: Site, cost: Cost, how: string): readonly Line[] {
  const { seconds, line, hub, disk, memory } = cost;
  const row = (figure: string): string => `${what}, ${how}: ${figure}`;
  const percent = (one: number): number => (one / seconds) * 100;
  const mbADay = (bytes: number): number => (bytes / seconds) * (DAY_S / 1e6);
  const perSecond = ({ voluntary, forced }: Figures): string =>
    `${(voluntary / seconds).toFixed(1)} + ${(forced / seconds).toFixed(1)}`;
  const [cpu, written, resident] = [percent(line.cpu + hub.cpu), mbADay(line.written + hub.written), sum(memory)];
  const total = hasOwnDisk ? mbADay(disk) : written;
  const life = total === 0 ? 'no wear' : `${(CARD_BYTES / 1e6 / total / 365).toFixed(0)} years`;
  const journal = hasOwnDisk
    ? `the disk, ext4's journal included: ${total.toFixed(1)} MB`
    : "ext4's journal not included";
  const parts = (one: number, other: number, unit: string): string =>
    `line ${one.toFixed(2)} ${unit}, hub ${other.toFixed(2)} ${unit}`;
  return [
    {
      row: row('CPU, of one core'),
      lineside: parts(percent(line.cpu), percent(hub.cpu), '%'),
      against: '',
      ratio: `${cpu.toFixed(2)} %`,
      aim: isBusy ? `at most ${CPU_AIM} %` : 'shown',
      verdict: isBusy ? judge(cpu <= CPU_AIM) : 'shown',
    },
    {
      row: row('resident memory (RSS of both, highest of a sample every 10 s)'),
      lineside: memory
        .map(
          ({ all, anonymous }, n) =>
            `${n === 0 ? 'line' : 'hub'} ${all.toFixed(1)} MB, ${anonymous.toFixed(1)} of it anonymous`,
        )
        .join('; '),
      against: `pages that both share counted once: ${sharedOnce(memory).toFixed(1)} MB`,
      ratio: `${resident.toFixed(1)} MB`,
      aim: `at most ${MEMORY_AIM_MB} MB`,
      verdict: judge(resident <= MEMORY_AIM_MB),
    },
    {
      row: row('bytes to the card a day (write_bytes)'),
      lineside: parts(mbADay(line.written), mbADay(hub.written), 'MB'),
      against: `${journal}; a card that bears ${CARD_BYTES / 1e12} TB: ${life}`,
      ratio: `${written.toFixed(1)} MB`,
      aim: `at most ${aimMb} MB`,
      verdict: judge(written <= aimMb),
    },
    {
      row: row('context switches a second, voluntary + not'),
      lineside: `line ${perSecond(line)}, hub ${perSecond(hub)}`,
      against: '',
      ...shown('', 'shown'),
    },
  ];
}

export const rows: readonly Row[] = [site];
