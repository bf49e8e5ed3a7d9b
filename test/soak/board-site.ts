/**
 * A typical site around an emulated board, as `npm run bench -- box` has it around two processes: a device that is polled, a change
 * a minute, five subscribers of webhooks, a real broker, an open console.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { answer, busy, makeRecords, startSubscribers, subscribe } from '../bench/box/site.ts';
import { rowsBroker } from '../bench/broker.ts';
import { openPort } from '../e2e/faults.ts';
import { HubApi } from '../e2e/hub-api.ts';
import { drained, outbox } from '../e2e/hub-support.ts';
import { freePort } from '../free-port.ts';
import { type BootedBoard, memoryOf, UART } from '../image/board-life.ts';
import type { QemuBox } from '../image/box.ts';

/** This machine's loopback, as the emulated network shows it. */
const HOST = '10.0.2.2';
const CHANGE_MS = 60_000;
const SAMPLE_MS = 30_000;
const DEVICE_MS = 20;
/** Under emulation: 1,000 records are written and sent. */
const PREPARE_LIMIT_MS = 600_000;

/** Memory, processor time and writes to the card in so many minutes; of an emulated board, which is slower than a real one. */
export async function typicalSite({ box, client, token, authority }: BootedBoard, minutes: number): Promise<string> {
  const tls = { ca: authority, servername: 'localhost' };
  const http = { host: '127.0.0.1', port: box.ports.http, ...tls };
  const api = new HubApi(`${http.host}:${http.port}`, token, tls);
  const guest = await freePort();
  const broker = await rowsBroker(({ plain, controller }) => {
    const own = `PLAIN://127.0.0.1:${plain}`;
    return {
      listeners: `${own},GUEST://127.0.0.1:${guest},CONTROLLER://127.0.0.1:${controller}`,
      'advertised.listeners': `${own},GUEST://${HOST}:${guest}`,
      'listener.security.protocol.map': 'PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT,GUEST:PLAINTEXT',
    };
  });
  const subscribers = await startSubscribers(HOST);
  const over = new AbortController();
  try {
    await configure(box, `${HOST}:${guest}`, readFileSync(subscribers.caFile, 'utf8'));
    await client.serial.close({});
    await openPort(client, UART, { baudRate: 9_600 });
    await until('the broker is connected', async () => (await outbox(api)).broker.connected, PREPARE_LIMIT_MS);
    await makeRecords(api);
    await drained(api, PREPARE_LIMIT_MS);
    await subscribe(api, subscribers);
    answer(deviceOf(box, over.signal));
    const load = busy({ client, api, http, token }, CHANGE_MS, over.signal);
    // Noticed below.
    load.catch(() => undefined);
    const measured = measure(box, minutes, over.signal);
    // A load that fails ends the run.
    const shown = await Promise.race([measured, load.then(() => measured)]);
    over.abort();
    await load;
    assert.equal(await box.ssh('journalctl -k --grep "Out of memory" --no-pager -q || true'), '');
    assert.ok(subscribers.received() >= (minutes - 1) * 5, `${subscribers.received()} deliveries`);
    return `${minutes} min: ${shown}; ${subscribers.received()} deliveries`;
  } finally {
    over.abort();
    api.close();
    subscribers.close();
    await broker.kill();
  }
}

async function measure(box: QemuBox, minutes: number, signal: AbortSignal): Promise<string> {
  const samples: Awaited<ReturnType<typeof memoryOf>>[] = [];
  const before = await workOf(box);
  for (const end = performance.now() + minutes * 60_000; performance.now() < end && !signal.aborted; ) {
    await sleep(SAMPLE_MS, undefined, { signal });
    samples.push(await memoryOf(box));
  }
  const after = await workOf(box);
  const most = (of: (sample: (typeof samples)[number]) => number): number => Math.max(...samples.map(of));
  const both = most(({ lineMb, hubMb }) => lineMb + hubMb);
  const memory = `line at most ${most(({ lineMb }) => lineMb)}, hub ${most(({ hubMb }) => hubMb)}, both ${both} MB`;
  const available = `at least ${Math.min(...samples.map(({ availableMb }) => availableMb))} of ${samples[0]?.totalMb} MB available`;
  const rise = (of: keyof Work): number => (after[of] - before[of]) / (after.uptimeS - before.uptimeS);
  const percent = (of: keyof Work): string => (100 * rise(of)).toFixed(1);
  const daily = (of: keyof Work): string => ((86_400 * rise(of)) / 1e6).toFixed(0);
  const cpu = `line ${percent('lineCpuS')}, hub ${percent('hubCpuS')} % of an emulated core`;
  const written = `line ${daily('lineBytes')}, hub ${daily('hubBytes')}, all ${daily('cardBytes')} MB to the card a day`;
  return `${memory}; ${available}; ${cpu}; ${written}`;
}

interface Work {
  readonly uptimeS: number;
  readonly lineBytes: number;
  readonly lineCpuS: number;
  readonly hubBytes: number;
  readonly hubCpuS: number;
  /** Written by everybody, the journal of ext4 included. */
  readonly cardBytes: number;
}

/** Since the box was started. */
async function workOf(box: QemuBox): Promise<Work> {
  const ticks = "sed 's/.*) //' /proc/$p/stat | awk '{ print ($12 + $13) / 100 }'";
  const figures = await box.ssh(
    `cut -d' ' -f1 /proc/uptime; for u in lineside lineside-hub; do p=$(systemctl show -P MainPID $u); sed -n 's/^write_bytes: //p' /proc/$p/io; ${ticks}; done; sync; awk '{ print $7 * 512 }' /sys/block/mmcblk0/stat`,
  );
  const [uptimeS = 0, lineBytes = 0, lineCpuS = 0, hubBytes = 0, hubCpuS = 0, cardBytes = 0] = figures
    .split('\n')
    .map(Number);
  return { uptimeS, lineBytes, lineCpuS, hubBytes, hubCpuS, cardBytes };
}

/** As an operator would: the time (no time server is within reach), the broker and the subscribers of the site, then a restart. */
async function configure(box: QemuBox, bootstrap: string, authority: string): Promise<void> {
  const file = '/etc/lineside/lineside.toml';
  const kafka = `bootstrap = "${bootstrap}"\\ntopic_prefix = "bench.board"`;
  const webhooks = `ca_file = "/etc/lineside/subscribers.pem"\\nallow_cidrs = ["${HOST}/32"]`;
  await box.ssh(
    `date --set=@${Math.ceil(Date.now() / 1_000)}\ncat >/etc/lineside/subscribers.pem <<'END'\n${authority}END\n` +
      `sed -i 's|^\\[kafka\\]$|&\\n${kafka}|; s|^\\[webhooks\\]$|&\\n${webhooks}|' ${file}\nsystemctl restart lineside`,
  );
  await box.ready();
}

/** The device at the other end of the board's UART. */
function deviceOf(box: QemuBox, signal: AbortSignal) {
  return {
    write: (bytes: Uint8Array) => box.uartSend(bytes),
    onData(heard: (bytes: Uint8Array) => void): void {
      let had = box.uartReceived().length;
      const timer = setInterval(() => {
        const all = box.uartReceived();
        if (all.length > had) heard(all.subarray(had));
        had = all.length;
      }, DEVICE_MS);
      signal.addEventListener('abort', () => clearInterval(timer), { once: true });
    },
  };
}
