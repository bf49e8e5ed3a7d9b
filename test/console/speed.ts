/** npm run bench -- console: what the page costs while the line talks, in Chromium with the built product. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Browser } from 'puppeteer-core';
import { Skipped } from '../bench/processes.ts';
import { PtyDriver } from '../bench/pty-driver.ts';
import { judge, type Line, type Row } from '../bench/table.ts';
import { temporaryDirectory } from '../e2e/daemon.ts';
import { openPort } from '../e2e/faults.ts';
import { browserMissing, closePages, type Opened } from './browser.ts';
import { startProduct } from './product.ts';

const SETTLE_MS = 3_000;
/** What the display of a laptop shows is 60. */
const FRAMES_AIM = 50;
const CPU_AIM = 25;
const LONGEST_AIM_MS = 250;
/** The page keeps 5,000 rows or 8 MB of entries, whichever is less, beside Chromium's own. */
const HEAP_AIM_MB = 64;

const device = { baud: 115_200, rate: 11_520, write: 16, seconds: 60, isFlood: false, asLines: false };
const flood = { baud: 12_000_000, rate: 1e6, write: 4_096, seconds: 180, isFlood: true, asLines: false };
const loads = [
  { ...device, name: 'device', what: '115,200 baud in 16-byte writes' },
  { ...device, name: 'lines', what: '115,200 baud of text, as lines', asLines: true },
  { ...flood, name: 'flood', what: '1 MB/s in 4,096-byte writes' },
  { ...flood, name: 'flood-lines', what: '1 MB/s of text, as lines', asLines: true },
];

type Load = (typeof loads)[number];

export const rows: readonly Row[] = loads.map((load) => ({
  name: load.name,
  async run({ quick, say }) {
    if (browserMissing !== false) throw new Skipped(browserMissing);
    const seconds = quick ? 15 : load.seconds;
    const driver = await PtyDriver.open();
    const product = await startProduct({ serial: { extra_ports: ['/dev/pts/*'] } });
    try {
      await openPort(product.box.client, driver.slavePath, { baudRate: load.baud });
      const opened = await product.enter('technician', '#/line');
      await opened.sees('Live', '#feed');
      if (load.asLines) await opened.choose('Show', 'lines');
      const bytes = load.rate * (seconds + (2 * SETTLE_MS) / 1_000);
      const sent = driver.pace(bytes, load.write, load.rate, load.asLines ? textFile() : undefined);
      await sleep(SETTLE_MS);
      const found = await measure(opened, seconds);
      say(JSON.stringify(found));
      await sent;
      await opened.sees('Live', '#feed');
      return linesOf(load, seconds, found);
    } finally {
      await closePages();
      await product.box.stop();
      await driver.close();
    }
  },
}));

/** What a device with a value every few milliseconds says. */
function textFile(): string {
  const path = join(temporaryDirectory(), 'lines');
  const lines = Array.from({ length: 10_000 }, (_, n) => `$GPTXT,${n},TEMP,${(21 + Math.sin(n)).toFixed(3)},C\r\n`);
  writeFileSync(path, lines.join(''));
  return path;
}

async function measure(opened: Opened, seconds: number) {
  const browser = opened.page.browser();
  const before = await rendererSeconds(browser);
  // Not one call for the whole time: the browser's driver gives up on a call that takes minutes.
  await opened.page.evaluate(beginFrames);
  const startMs = performance.now();
  await sleep(seconds * 1_000);
  const { count, longestMs } = await opened.page.evaluate(endFrames);
  const perSecond = (count * 1_000) / (performance.now() - startMs);
  const cpu = (await rendererSeconds(browser)) - before;
  const session = await opened.page.createCDPSession();
  await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  return { perSecond, longestMs, cpuPercent: (cpu / seconds) * 100, heapMb: usedSize / 1e6 };
}

/** Of the processes that run pages: script, layout and painting. */
async function rendererSeconds(browser: Browser): Promise<number> {
  const session = await browser.target().createCDPSession();
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  await session.detach();
  return processInfo.filter(({ type }) => type === 'renderer').reduce((sum, { cpuTime }) => sum + cpuTime, 0);
}

interface Frames {
  count: number;
  longestMs: number;
  isCounting: boolean;
}

/** Runs in the page, which counts from now on. */
function beginFrames(): void {
  const frames: Frames = { count: 0, longestMs: 0, isCounting: true };
  let last = performance.now();
  const frame = (): void => {
    const now = performance.now();
    frames.count += 1;
    frames.longestMs = Math.max(frames.longestMs, now - last);
    last = now;
    if (frames.isCounting) requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
  Object.assign(globalThis, { frames });
}

/** Runs in the page. */
function endFrames(): Frames {
  const { frames } = globalThis as typeof globalThis & { readonly frames: Frames };
  frames.isCounting = false;
  return frames;
}

function linesOf(load: Load, seconds: number, found: Awaited<ReturnType<typeof measure>>): readonly Line[] {
  const { perSecond, longestMs, cpuPercent, heapMb } = found;
  const figure = (name: string, ratio: string, aim: string, ok: boolean): Line => {
    return { row: `${load.what}, ${seconds} s: ${name}`, lineside: ratio, against: '', ratio, aim, verdict: judge(ok) };
  };
  return load.isFlood
    ? [
        figure(
          'longest frame',
          `${longestMs.toFixed(0)} ms`,
          `at most ${LONGEST_AIM_MS} ms`,
          longestMs <= LONGEST_AIM_MS,
        ),
        figure(
          'heap of the page afterwards',
          `${heapMb.toFixed(1)} MB`,
          `at most ${HEAP_AIM_MB} MB`,
          heapMb <= HEAP_AIM_MB,
        ),
      ]
    : [
        figure('frames a second', perSecond.toFixed(0), `at least ${FRAMES_AIM}`, perSecond >= FRAMES_AIM),
        figure(
          'CPU of the page',
          `${cpuPercent.toFixed(1)} % of a core`,
          `at most ${CPU_AIM} %`,
          cpuPercent <= CPU_AIM,
        ),
      ];
}
