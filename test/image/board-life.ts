/** A new card on an emulated board: its first start, and what a board shows that QEMU's `virt` does not. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { newToken } from '../../src/shared/auth/tokens.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { serial } from '../../src/shared/proto/services.ts';
import type { Client } from '../e2e/daemon.ts';
import { openPort, RX } from '../e2e/faults.ts';
import { seeded } from '../soak/random.ts';
import { QemuBox } from './box.ts';
import { writeCard } from './card.ts';
import { type BoardOptions, board } from './machine.ts';
import { Load, pullPlugs } from './pulled-plug.ts';
import { grpcClient, HttpClient } from './remote.ts';

export const UART = '/dev/ttyAMA0';
/** QEMU's boards take cards of a power of two. */
const CARD_BYTES = 2 ** 31;
const MOST_PLUGS = 3;
/** The emulated controller comes up without USB at one start of six. */
const MOST_STARTS = 4;
const PLUG_LIMIT_MS = 90_000;
const BUS_LIMIT_MS = 600_000;
const PATIENCE_MS = 120_000;
const BREAK_MS = 150;
/** Under load, until the plug is pulled: an emulated board answers some requests in a second. */
const LIFE_MS = [5_000, 20_000] as const;
const ALL_BYTES = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));

export interface BootedBoard {
  readonly box: QemuBox;
  readonly client: Client;
  readonly http: HttpClient;
  readonly started: Started;
  /** For every role, and the authority (PEM) of the box's certificate. */
  readonly token: string;
  readonly authority: string;
  /** A new connection, after a start. */
  readonly connect: () => Pick<BootedBoard, 'client' | 'http'>;
}

/** From power-on until the box answers. */
interface Started {
  readonly seconds: number;
  /** Starts before it that had no USB. */
  readonly withoutUsb: number;
}

type Say = (line: string) => void;

/** `dir`: the box's own, empty. */
export async function firstBoot(dir: string, options: BoardOptions, say: Say): Promise<BootedBoard> {
  const card = join(dir, 'card.img');
  const token = newToken();
  const box = await QemuBox.create({ dir, card, machine: board(options) });
  const roles = '["operator", "admin", "writer", "reader"]';
  const setup = `[box]\nhostname = "pump-house-3"\n[ssh]\nkeys = ["${box.publicKey}"]\n[[token]]\nname = "laptop"\nroles = ${roles}\ntoken = "${token}"\n`;
  try {
    const started = await startBoard(box, say, () => writeCard(card, { 'setup.toml': setup }, CARD_BYTES));
    say(`${options.tree}: first boot to ready: ${started.seconds.toFixed(0)} s`);
    const authority = await box.ssh('cat /etc/lineside/tls/ca.crt');
    const connect = () => ({
      client: grpcClient(box, authority, token),
      http: new HttpClient(box, authority, token),
    });
    return { box, started, token, authority, connect, ...connect() };
  } catch (error) {
    await box.kill();
    throw error;
  }
}

/** Power on, until the box answers; again if there is no USB. `prepare`: before each power-on. */
export async function startBoard(box: QemuBox, say: Say, prepare: () => void = () => undefined): Promise<Started> {
  for (let withoutUsb = 0; ; withoutUsb++) {
    assert.ok(withoutUsb < MOST_STARTS, `${MOST_STARTS} starts without USB: ${box.shown().slice(-2000)}`);
    prepare();
    const from = performance.now();
    await box.start();
    if (await plugNetwork(box, say)) {
      await box.ready();
      return { seconds: (performance.now() - from) / 1000, withoutUsb };
    }
    say('no USB at this start: started again');
    await box.kill();
  }
}

/**
 * The emulated controller often loses a device that is there from power-on, and sometimes one that is plugged in: it is plugged
 * in once the kernel has the bus, and again if it gets no address. False: it never does. At some starts the kernel takes the
 * controller's interrupt for a fault and disables it: no plug helps then.
 */
async function plugNetwork(box: QemuBox, say: Say): Promise<boolean> {
  await until('the kernel has the USB bus', () => box.shown().includes('new USB bus registered'), BUS_LIMIT_MS);
  const adapter = { driver: 'usb-net', netdev: 'lan', bus: 'usb-bus.0', port: '1' };
  const isDisabled = (): boolean => box.shown().includes('Disabling IRQ');
  for (let plugged = 1; plugged <= MOST_PLUGS && !isDisabled(); plugged++) {
    const id = `network${plugged}`;
    const before = box.shown().length;
    await box.control('device_add', { ...adapter, id });
    const seen = (): string => box.shown().slice(before);
    await until(
      'the kernel has seen the adapter',
      () => isDisabled() || /register 'cdc_ether'|unable to enumerate USB device/.test(seen()),
      PLUG_LIMIT_MS,
    ).catch(() => undefined);
    if (seen().includes("register 'cdc_ether'")) return true;
    say(`network adapter: not seen when plugged in ${plugged} times`);
    await box.control('device_del', { id });
    await sleep(1000);
  }
  return false;
}

/** Bytes both ways and a break both ways, each exactly; before it the box has put nothing on the line. */
export async function tryFieldLine({ box, client }: Pick<BootedBoard, 'box' | 'client'>): Promise<void> {
  assert.deepEqual(box.uartReceived(), Buffer.alloc(0), 'bytes on the field line before the first send');
  await openPort(client, UART);
  const { status } = await client.serial.sendPacket({ payload: ALL_BYTES });
  assert.equal(status, serial.StatusCode.OK);
  await until('the packet on the wire', () => box.uartReceived().length >= ALL_BYTES.length, PATIENCE_MS);
  assert.deepEqual(box.uartReceived(), ALL_BYTES);
  box.uartSend(ALL_BYTES);
  await until('the answer in the log', async () => (await received(client)).length >= ALL_BYTES.length, PATIENCE_MS);
  assert.deepEqual(await received(client), ALL_BYTES);
  const breaks = async (): Promise<number> => (await client.line.getStatus({})).kernel?.brk ?? 0;
  const before = await breaks();
  await box.control('chardev-send-break', { id: 'uart' });
  await until('the break is counted', async () => (await breaks()) === before + 1, PATIENCE_MS);
  await box.watchUart(true);
  await client.line.sendBreak({ durationMs: BREAK_MS });
  await box.watchUart(false);
  const acts = box.uartActs().filter(({ what }) => what.startsWith('break'));
  assert.deepEqual(
    acts.map(({ what }) => what),
    ['break', 'break ends'],
  );
  const lasted = (acts[1]?.atMs ?? 0) - (acts[0]?.atMs ?? 0);
  assert.ok(lasted > BREAK_MS - 10, `a break of ${lasted} ms`);
}

/** Pulls the plug under load so often; what was there after the starts. */
export async function pullBoardPlugs(
  { box, connect }: Pick<BootedBoard, 'box' | 'connect'>,
  pulls: number,
  seed: number,
  say: Say,
): Promise<string> {
  const random = seeded(seed);
  const load = new Load(random);
  let connection = connect();
  let withoutUsb = 0;
  await load.begin(connection.client, connection.http, UART);
  const boots = await pullPlugs(box, load, pulls, {
    connection: () => connection,
    lifeMs: () => random.between(...LIFE_MS),
    async powerOn(pull) {
      const started = await startBoard(box, say);
      withoutUsb += started.withoutUsb;
      say(`plug ${pull} of ${pulls}: ready after ${started.seconds.toFixed(0)} s`);
      connection = connect();
      return started.seconds;
    },
  });
  connection.client.close();
  connection.http.close();
  const { logRaw } = load.ledger.figures;
  assert.ok(logRaw > pulls && load.records > pulls, 'there was no load');
  const ready = `ready after ${Math.min(...boots).toFixed(0)} to ${Math.max(...boots).toFixed(0)} s`;
  return `${logRaw} entries and ${load.records} records answered, none missing, none twice; ${ready}; starts without USB: ${withoutUsb}`;
}

/** Everything received that the log holds. */
async function received(client: Client): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const { entries } of client.line.readLog({ dirs: [RX] }))
    for (const { entry } of entries) parts.push(Uint8Array.from(entry?.rawData ?? []));
  return Buffer.concat(parts);
}

/** The text of the box's screen, a line for each row, once the picture was found to show just that. */
export async function screenText(box: QemuBox): Promise<string> {
  const [rows = 0, columns = 0] = (await box.ssh('stty size </dev/tty1')).split(' ').map(Number);
  const file = join(box.dir, 'screen.ppm');
  const read = (): Promise<string> => box.ssh('cat /dev/vcs1');
  let text = await read();
  for (;;) {
    await box.control('screendump', { filename: file });
    const now = await read();
    // Else it was written meanwhile.
    if (now === text) break;
    text = now;
  }
  assertShows(readFileSync(file), text, { rows, columns });
  return Array.from({ length: rows }, (_, row) => text.slice(row * columns, (row + 1) * columns).trimEnd()).join('\n');
}

/** Each character looks the same wherever it stands, and no two look alike: so the picture is that of the text. */
function assertShows(
  ppm: Buffer,
  text: string,
  { rows, columns }: { readonly rows: number; readonly columns: number },
) {
  const [head, width = '', height = ''] = /^P6\n(\d+) (\d+)\n255\n/.exec(ppm.toString('latin1', 0, 64)) ?? [];
  assert.ok(head !== undefined, 'no picture');
  const [cellWidth, cellHeight] = [Math.floor(Number(width) / columns), Math.floor(Number(height) / rows)];
  const looks = new Map<string, string>();
  for (let cell = 0; cell < rows * columns; cell++) {
    const [x, y] = [(cell % columns) * cellWidth, Math.floor(cell / columns) * cellHeight];
    const lines = Array.from({ length: cellHeight }, (_, line): string => {
      const at: number = head.length + 3 * ((y + line) * Number(width) + x);
      return ppm.toString('hex', at, at + 3 * cellWidth);
    });
    const look: string = lines.join();
    const char = text[cell] ?? ' ';
    assert.equal(
      looks.get(char) ?? look,
      look,
      `${JSON.stringify(char)} in row ${Math.floor(cell / columns)} is not shown`,
    );
    looks.set(char, look);
  }
  assert.ok(looks.size > 20, 'next to nothing is shown');
  assert.equal(new Set(looks.values()).size, looks.size, 'two characters look alike');
}

interface Memory {
  readonly totalMb: number;
  readonly availableMb: number;
  readonly lineMb: number;
  readonly hubMb: number;
}

/** Resident memory of both services, and what the kernel has left. */
export async function memoryOf(box: QemuBox): Promise<Memory> {
  const figures = await box.ssh(
    "awk '/^Mem(Total|Available)/ { print $2 }' /proc/meminfo; for u in lineside lineside-hub; do awk '/^VmRSS/ { print $2 }' /proc/$(systemctl show -P MainPID $u)/status; done",
  );
  const [totalMb = 0, availableMb = 0, lineMb = 0, hubMb = 0] = figures
    .split('\n')
    .map((kib) => Math.round(Number(kib) / 1024));
  return { totalMb, availableMb, lineMb, hubMb };
}
