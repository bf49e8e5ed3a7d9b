import assert from 'node:assert/strict';
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterEach, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { until } from '../../shared/base/wait.fixture.ts';
import { cleanEnv, drivesTerminal, run, start, testFiles } from '../drive.fixture.ts';
import { service, serviceForEach, socket } from './fake-service.fixture.ts';
import { keysToSend, LineSplitter } from './monitor.ts';

serviceForEach(testFiles(), {
  portState: 3,
  requested: { portName: '/dev/x', baudRate: 9600, dataBits: 8 },
  log: { logId: 'log-1' },
});
const terminals: Terminal[] = [];
afterEach(() => {
  for (const terminal of terminals.splice(0)) terminal.abandon();
});

/** A monitor on a real pseudo-terminal. */
class Terminal {
  readonly #child: ChildProcessWithoutNullStreams;
  #screen = '';
  #host = '';

  constructor(...options: string[]) {
    const source = (name: string): string => JSON.stringify(new URL(name, import.meta.url).href);
    const script = `const {runCli}=await import(${source('../cli.ts')});const {processIo}=await import(${source('../io.ts')});
      process.on('SIGUSR2',()=>{throw new Error('a defect')});
      process.exitCode=await runCli(process.argv.slice(1),processIo(),{version:'0',localSocket:()=>${JSON.stringify(socket)}});`;
    const node = [process.execPath, '--import', import.meta.resolve('tsx'), '--input-type=module', '-e', script, '--'];
    const host = fileURLToPath(new URL('../terminal-host.py', import.meta.url));
    this.#child = spawn('python3', [host, ...node, 'monitor', ...options], { env: cleanEnv() });
    terminals.push(this);
    this.#child.stdout.on('data', (part: Buffer) => {
      this.#screen += part.toString('latin1');
    });
    this.#child.stderr.on('data', (part: Buffer) => {
      this.#host += part.toString();
    });
  }

  async ready(): Promise<void> {
    await this.shows('Ctrl-] leaves');
    await until('the session stands', () => service.sessions > 0);
  }

  get screen(): string {
    return this.#screen;
  }

  async shows(text: string): Promise<void> {
    const shown = until(`the screen shows ${JSON.stringify(text)}`, () => this.#screen.includes(text));
    await shown.catch((error: Error) => assert.fail(`${error.message}, not ${JSON.stringify(this.#screen)}`));
  }

  type(keys: string): void {
    this.#child.stdin.write(Buffer.from(keys, 'latin1'));
  }

  kill(signal: NodeJS.Signals): void {
    process.kill(Number(/pid (\d+)/.exec(this.#host)?.[1]), signal);
  }

  /** A failed test leaves no process behind: the terminal hangs up. */
  abandon(): void {
    this.#child.kill('SIGKILL');
  }

  /** "status 0 restored" */
  async end(): Promise<string> {
    if (this.#child.exitCode === null) await once(this.#child, 'close');
    return this.#host.trim().split('\n').at(-1) ?? '';
  }
}

const sent = (): string => Buffer.concat(service.sent.map(({ payload }) => payload)).toString('latin1');

describe('monitor on a terminal', () => {
  it('sends keys, Ctrl-C among them, shows the line, and leaves on Ctrl-] with the terminal restored', async () => {
    const terminal = new Terminal();
    await terminal.ready();
    terminal.type('AT\r\x03');
    await until('the keys arrived', () => sent() === 'AT\r\x03');
    service.log(1, 'OK\r\n');
    // The terminal adds a CR to each LF.
    await terminal.shows('OK\r\r\n');
    terminal.type('last\x1dnever');
    assert.equal(await terminal.end(), 'status 0 restored');
    assert.equal(sent(), 'AT\r\x03last');
    assert.doesNotMatch(terminal.screen, /AT/);
  });

  it('lets nothing from the line drive the terminal', async () => {
    const terminal = new Terminal('--echo', '--enter', 'crlf');
    await terminal.ready();
    service.log(1, Buffer.from('\x1b]0;owned\x07\x1b[2J\x9b31m\x00', 'latin1'));
    await terminal.shows('^[]0;owned^G^[[2J\\x9b31m^@');
    terminal.type('x\r');
    await terminal.shows('x\r\r\n');
    await until('the keys arrived', () => sent() === 'x\r\n');
    terminal.type('\x1d');
    assert.equal(await terminal.end(), 'status 0 restored');
    assert.ok(!drivesTerminal(terminal.screen.replace(/[\r\n]/g, '')));
  });

  it('says that the connection is lost, drops keys meanwhile, and resumes', async () => {
    const terminal = new Terminal();
    await terminal.ready();
    service.stop();
    await terminal.shows('[lineside: connection lost');
    terminal.type('lost');
    await terminal.shows('[lineside: not sent: there is no connection]');
    service.log(1, 'meanwhile ');
    await service.listen(`unix:${socket}`);
    await terminal.shows('[lineside: connected again]');
    await terminal.shows('meanwhile');
    terminal.type('back');
    await until('the keys arrived', () => sent() === 'back');
    service.patchStatus({ portState: 4, portError: 'unplugged' });
    await terminal.shows('[lineside: the port is lost: unplugged]');
    service.patchStatus({ portState: 3, portError: '' });
    await terminal.shows('[lineside: the port is open again]');
    terminal.type('\x1d');
    assert.equal(await terminal.end(), 'status 0 restored');
  });

  it('restores the terminal when it is killed, and when it crashes', async () => {
    const killed = new Terminal();
    const crashed = new Terminal('--hex');
    await Promise.all([killed.shows('Ctrl-] leaves'), crashed.shows('Ctrl-] leaves')]);
    await until('both stand', () => service.sessions === 2);
    service.log(1, 'A');
    await crashed.shows('41');
    killed.kill('SIGTERM');
    crashed.kill('SIGUSR2');
    assert.equal(await killed.end(), 'status 143 restored');
    assert.match(await crashed.end(), /^status (1|7) restored$/);
  });
});

describe('monitor with other input', () => {
  it('sends lines and shows what comes until the wait is over', async () => {
    const running = start(['monitor', '--enter', 'crlf', '--wait', '1'], { socket, stdin: 'ATI\nAT+CSQ\r\nlast' });
    await until('all lines arrived', () => sent() === 'ATI\r\nAT+CSQ\r\nlast\r\n');
    service.log(1, 'answer\r\n');
    const { status, stdout, stderr } = await running.done;
    assert.deepEqual([status, stdout, stderr], [0, 'answer\r\n', '']);
    assert.equal(service.sent.length, 3);
  });

  it('fills packets where the port has a packet size, and says what was left over', async () => {
    service.patchStatus({ requested: { portName: '/dev/x', packetSize: 4 } });
    const outcome = await run(['monitor', '--wait', '0'], { socket, stdin: 'abcdef\n' });
    assert.deepEqual(
      service.sent.map(({ payload }) => payload.toString()),
      ['abcd'],
    );
    assert.match(outcome.stderr, /3 bytes did not fill a packet/);
  });

  it('says that no port is open, and what the service refused', async () => {
    service.answer = { status: 4, error: 'the port is lost' };
    const refused = await run(['monitor', '--wait', '0'], { socket, stdin: 'x\n' });
    assert.deepEqual([refused.status, refused.stderr], [1, '[lineside: not sent: the port is lost]\n']);
    service.setStatus({ portState: 1 });
    const closed = await run(['monitor'], { socket, stdin: '' });
    assert.equal(closed.status, 6);
    assert.match(closed.stderr, /no port is open\. Open one: lineside open PORT/);
    assert.equal((await run(['monitor', '--hex', '--raw'], { socket })).status, 2);
  });
});

describe('keys and lines', () => {
  it('translates Enter and stops at Ctrl-]', () => {
    const keys = (text: string, enter: string) => {
      const { bytes, leave } = keysToSend(Buffer.from(text, 'latin1'), Buffer.from(enter));
      return [bytes.toString('latin1'), leave];
    };
    assert.deepEqual(keys('a\rb\r', '\r\n'), ['a\r\nb\r\n', false]);
    assert.deepEqual(keys('\x1d', '\r'), ['', true]);
    assert.deepEqual(keys('ab\x1dcd', '\n'), ['ab', true]);
    assert.deepEqual(keys('\x03\x1b[A', '\r'), ['\x03\x1b[A', false]);
  });

  it('finds the same lines however the input is cut', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom('a', 'b\n', 'c\r\n', '\n', 'd\r')), (parts) => {
        const lines = new LineSplitter();
        const found = [...parts.flatMap((part) => lines.push(Buffer.from(part))), ...lines.end()].map(String);
        const whole = new LineSplitter();
        assert.deepEqual(found, [...whole.push(Buffer.from(parts.join(''))), ...whole.end()].map(String));
      }),
    );
  });
});
