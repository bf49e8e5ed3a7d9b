/**
 * A box on an emulated machine, started from a card as the firmware would: the kernel and the initramfs that slot.txt names.
 * Its one UART (PL011, /dev/ttyAMA0) is the field line and every byte on it is recorded from power-on; kernel messages go
 * to a console of their own, which exists in these tests alone. A reset ends the emulator: start() is the next power-on.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { createConnection, type Socket } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { within } from '../../src/shared/base/wait.fixture.ts';
import { freePort } from '../free-port.ts';
import { copyFromCard, readFromCard } from './card.ts';
import { type Machine, virt } from './machine.ts';
import { type UartAct, uartActs } from './uart.ts';
import { UsbAdapter } from './usb-adapter.ts';

/** Under emulation, on two cores that other tests share: a quiet machine takes a quarter of it. */
const BOOT_LIMIT_MS = 600_000;
const COMMAND_LIMIT_MS = 120_000;
const START_TIMES = `systemd-analyze time; systemd-analyze blame | head -n 8; for unit in lineside-setup lineside lineside-hub; do
  echo $unit $(systemctl show --property=InactiveExitTimestampMonotonic,ActiveEnterTimestampMonotonic --value $unit | sed 's/.\\{6\\}$/ s/')
done`;

interface BoxOptions {
  /** An empty directory of the box's own. */
  readonly dir: string;
  /** See writeCard. */
  readonly card: string;
  /** More for QEMU, such as another -drive; it replaces the card's own where it has id=card. */
  readonly extra?: readonly string[];
  /** `virt` unless another is given. */
  readonly machine?: Machine;
}

/** How a run of the emulator ended. */
type Ended = 'reset' | 'off' | 'killed';
type Ports = Readonly<Record<'grpc' | 'http' | 'ssh', number>>;

export class QemuBox {
  readonly dir: string;
  readonly card: string;
  readonly ports: Ports;
  readonly publicKey: string;
  readonly #options: BoxOptions;
  #boots = 0;
  #consoleFrom = 0;
  #child: ChildProcess | undefined;
  #ended: Promise<Ended> | undefined;
  #uart: Socket | undefined;
  #usb: UsbAdapter | undefined;
  #control: Control | undefined;

  private constructor(options: BoxOptions, ports: Ports, publicKey: string) {
    this.#options = options;
    this.dir = options.dir;
    this.card = options.card;
    this.ports = ports;
    this.publicKey = publicKey;
  }

  /** The key for the card's setup.toml is made with it; the card may be written afterwards, before start(). */
  static async create(options: BoxOptions): Promise<QemuBox> {
    mkdirSync(options.dir, { recursive: true });
    const key = join(options.dir, 'key');
    if (!existsSync(key)) execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', 'test', '-f', key]);
    const ports = { grpc: await freePort(), http: await freePort(), ssh: await freePort() };
    return new QemuBox(options, ports, readFileSync(`${key}.pub`, 'utf8').trim());
  }

  /** Power on. Returns when the emulator runs, not when the box is ready. `extra`: more for QEMU, this once. */
  async start(extra: readonly string[] = []): Promise<void> {
    assert.ok(this.#child === undefined, 'the box is on');
    this.#boots += 1;
    this.#consoleFrom = existsSync(this.#console) ? statSync(this.#console).size : 0;
    const prefix = /^os_prefix=(.*)\/ *$/m.exec(readFromCard(this.card, 'slot.txt').toString('latin1'))?.[1];
    assert.ok(prefix !== undefined, 'slot.txt names no slot');
    const [kernel, initrd] = [join(this.dir, 'vmlinuz'), join(this.dir, 'initrd')];
    copyFromCard(this.card, `${prefix}/vmlinuz`, kernel);
    copyFromCard(this.card, `${prefix}/initrd`, initrd);
    const commandLine = readFromCard(this.card, `${prefix}/cmdline.txt`).toString('latin1').trim();
    const machine = this.#machine;
    for (const name of ['uart', 'qmp', 'usb']) rmSync(join(this.dir, name), { force: true });
    const system = ['-kernel', kernel, '-initrd', initrd, '-append', `${commandLine} ${machine.words}`];
    const emulator = [...machine.emulator(), ...this.#emulated(machine, prefix, extra), ...system];
    const child = spawn('nice', ['-n', '-5', ...emulator], { stdio: ['ignore', 'ignore', 'pipe'] });
    this.#child = child;
    const complaints: Buffer[] = [];
    child.stderr?.on('data', (bytes: Buffer) => complaints.push(bytes));
    let reason: string | undefined;
    this.#ended = new Promise((settle) => {
      child.once('exit', (_code, signal) => {
        this.#child = undefined;
        this.#uart?.destroy();
        this.#usb?.pull();
        settle(signal !== null ? 'killed' : reason === 'guest-reset' ? 'reset' : 'off');
      });
    });
    // The emulator waits for the line's other end before the first instruction.
    this.#uart = await this.#connect('uart');
    this.#uart.on('error', () => undefined);
    this.#control = controlled(await this.#connect('qmp'), ({ event, data }) => {
      if (event === 'SHUTDOWN') reason = data?.['reason'] as string;
    });
    await this.control('qmp_capabilities');
    assert.ok(this.#child !== undefined, `the emulator did not start: ${Buffer.concat(complaints).toString()}`);
  }

  #emulated(machine: Machine, slot: string, once: readonly string[]): string[] {
    const forward = (host: number, guest: number): string => `hostfwd=tcp:127.0.0.1:${host}-:${guest}`;
    const { grpc, http, ssh } = this.ports;
    const extra = [...(this.#options.extra ?? []), ...once];
    // A killed emulator loses nothing that it has handed to this machine: to flush it here as well shows nothing more.
    const card = `file=${this.card},format=raw,cache=unsafe`;
    const drive = extra.some((one) => one.includes('id=card')) ? undefined : card;
    const parts = [
      '-accel tcg,thread=multi,tb-size=512 -display none -nodefaults -no-reboot',
      `-chardev socket,id=uart,path=${this.dir}/uart,server=on,wait=on,logfile=${this.#uartRecord},logappend=on`,
      `-chardev file,id=console,path=${this.#console},append=on`,
      `-netdev user,id=lan,${forward(grpc, 50_051)},${forward(http, 8443)},${forward(ssh, 22)}`,
      `-qmp unix:${this.dir}/qmp,server=on,wait=off -D ${this.#log} -msg timestamp=on`,
    ];
    const options = machine.options({ dir: this.dir, card: this.card, slot, drive });
    return [...parts.flatMap((part) => part.split(' ')), ...options, ...extra];
  }

  /** Everything that came out of the UART since the card was new. */
  get #uartRecord(): string {
    return join(this.dir, 'uart.record');
  }

  get #console(): string {
    return join(this.dir, 'console.log');
  }

  uartReceived(): Buffer {
    return existsSync(this.#uartRecord) ? readFileSync(this.#uartRecord) : Buffer.alloc(0);
  }

  uartSend(bytes: Uint8Array): void {
    assert.ok(this.#uart !== undefined, 'the box is off');
    this.#uart.write(bytes);
  }

  /** Asks the emulator (QMP). */
  async control(execute: string, given: Readonly<Record<string, unknown>> = {}): Promise<unknown> {
    assert.ok(this.#control !== undefined, 'the box was never on');
    return this.#control(execute, given);
  }

  /** Records what is done to the UART. */
  async watchUart(enable: boolean): Promise<void> {
    await this.control('trace-event-set-state', { name: 'pl011_write', enable });
  }

  uartActs(): UartAct[] {
    return uartActs(this.#log, this.#machine.uartHz);
  }

  get #machine(): Machine {
    return this.#options.machine ?? virt;
  }

  get #log(): string {
    return join(this.dir, 'qemu.log');
  }

  /** What the kernel and systemd have shown since power-on. */
  shown(): string {
    return existsSync(this.#console) ? readFileSync(this.#console, 'latin1').slice(this.#consoleFrom) : '';
  }

  #lastShown(): string {
    return this.shown().slice(-2000);
  }

  async plugUsb(): Promise<UsbAdapter> {
    this.#usb = new UsbAdapter(await this.#connect('usb'));
    return this.#usb;
  }

  /** The plug is pulled. */
  async kill(): Promise<void> {
    this.#child?.kill('SIGKILL');
    await this.#ended;
  }

  /** Until the box has reset itself or is off. */
  async ended(limitMs = BOOT_LIMIT_MS): Promise<Ended> {
    assert.ok(this.#ended !== undefined, 'the box was never on');
    return within('the box to end', this.#ended, limitMs).catch((error: unknown) =>
      assert.fail(`${String(error)}\n${this.#lastShown()}`),
    );
  }

  /** gRPC and HTTP answer with TLS, which only lineside itself does. */
  async ready(): Promise<void> {
    const from = performance.now();
    for (const port of [this.ports.grpc, this.ports.http]) {
      while (!(await answersTls(port))) {
        assert.ok(this.#child !== undefined, `the box is off:\n${this.#lastShown()}`);
        assert.ok(performance.now() - from < BOOT_LIMIT_MS, `the box is not ready:\n${this.#lastShown()}`);
        await sleep(1000);
      }
    }
  }

  /** Runs a script as root over SSH, which has to succeed; its output without the last newline. */
  async ssh(script: string, limitMs = COMMAND_LIMIT_MS): Promise<string> {
    const { status, stdout, stderr } = await this.trySsh(script, limitMs);
    assert.equal(status, 0, `${script}: ${stderr}${stdout}`);
    return stdout.replace(/\n$/, '');
  }

  async trySsh(
    script: string,
    limitMs = COMMAND_LIMIT_MS,
  ): Promise<{ readonly status: number | null; readonly stdout: string; readonly stderr: string }> {
    const child = spawn('ssh', [...this.#sshOptions(), 'technician@127.0.0.1', 'sudo', 'sh', '-s'], {
      timeout: limitMs,
    });
    const [stdout, stderr]: [Buffer[], Buffer[]] = [[], []];
    child.stdout.on('data', (bytes: Buffer) => stdout.push(bytes));
    child.stderr.on('data', (bytes: Buffer) => stderr.push(bytes));
    child.stdin.on('error', () => undefined);
    child.stdin.end(`${script}\n`);
    const status = await new Promise<number | null>((settle) => child.once('close', settle));
    return { status, stdout: Buffer.concat(stdout).toString(), stderr: Buffer.concat(stderr).toString() };
  }

  /** Once the start is complete: how long it took, the units that took the longest, and when three units began and were up. */
  async startTimes(): Promise<string> {
    await this.until('the end of the start', 'systemctl is-system-running --wait');
    return this.ssh(START_TIMES);
  }

  /** Repeats the script until it succeeds. */
  async until(what: string, script: string): Promise<string> {
    const from = performance.now();
    for (;;) {
      const { status, stdout, stderr } = await this.trySsh(script);
      if (status === 0) return stdout.replace(/\n$/, '');
      assert.ok(
        performance.now() - from < BOOT_LIMIT_MS,
        `not within ${BOOT_LIMIT_MS} ms: ${what}: ${stderr}${stdout}`,
      );
      await sleep(1000);
    }
  }

  #sshOptions(): string[] {
    const options = [
      'StrictHostKeyChecking=accept-new',
      `UserKnownHostsFile=${this.dir}/known_hosts`,
      'LogLevel=ERROR',
      'BatchMode=yes',
      'ConnectTimeout=60',
      'ServerAliveInterval=20',
      // A handshake takes emulated seconds: one for each start.
      'ControlMaster=auto',
      `ControlPath=${this.dir}/ssh.${this.#boots}`,
      'ControlPersist=60',
    ];
    return ['-i', join(this.dir, 'key'), '-p', `${this.ports.ssh}`, ...options.flatMap((one) => ['-o', one])];
  }

  async #connect(name: string): Promise<Socket> {
    const path = join(this.dir, name);
    for (let tries = 0; ; tries++) {
      const socket = createConnection(path);
      const isOpen = await new Promise<boolean>((settle) => {
        socket.once('connect', () => settle(true));
        socket.once('error', () => settle(false));
      });
      if (isOpen) return socket;
      assert.ok(tries < 100 && this.#child !== undefined, `${path} does not open`);
      await sleep(100);
    }
  }
}

interface QmpLine {
  readonly event?: string;
  readonly data?: Readonly<Record<string, unknown>>;
  readonly return?: unknown;
  readonly error?: unknown;
}

type Control = (execute: string, given: Readonly<Record<string, unknown>>) => Promise<unknown>;

/** The emulator's control socket (QMP, one JSON object a line): its events, and how to ask it. */
function controlled(socket: Socket, onEvent: (line: QmpLine) => void): Control {
  const asked: PromiseWithResolvers<unknown>[] = [];
  const fail = (): void => {
    for (const { reject } of asked.splice(0)) reject(new Error('the emulator has ended'));
  };
  socket.on('error', fail).on('close', fail);
  createInterface({ input: socket }).on('line', (text) => {
    const line = JSON.parse(text) as QmpLine;
    if (line.event !== undefined) onEvent(line);
    if (line.return !== undefined) asked.shift()?.resolve(line.return);
    if (line.error !== undefined) asked.shift()?.reject(new Error(text));
  });
  return (execute, given) => {
    const answer = Promise.withResolvers<unknown>();
    asked.push(answer);
    socket.write(`${JSON.stringify({ execute, arguments: given })}\n`);
    return answer.promise;
  };
}

/** The emulator itself accepts connections: only a finished handshake proves that a server is there. */
function answersTls(port: number): Promise<boolean> {
  return new Promise((settle) => {
    const socket = connectTls({
      host: '127.0.0.1',
      port,
      rejectUnauthorized: false,
      ALPNProtocols: ['h2', 'http/1.1'],
    });
    const end = (answer: boolean): void => {
      socket.destroy();
      settle(answer);
    };
    socket.setTimeout(20_000, () => end(false));
    socket.once('secureConnect', () => end(true));
    socket.once('error', () => end(false));
    socket.once('close', () => end(false));
  });
}
