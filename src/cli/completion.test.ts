/** Completion against real services (gRPC and HTTP) and in the real shells, as far as they are installed. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync } from 'node:fs';
import { describe, it } from 'node:test';
import { addLocalCommands } from '../local-commands.ts';
import { completionScripts } from './completion.ts';
import { cleanEnv, run, testFiles } from './drive.fixture.ts';
import { httpSocket, hub, hubForEach } from './hub/fake-hub.fixture.ts';
import { FakeService } from './line/fake-service.fixture.ts';

const files = testFiles();
const { at, file } = files;
hubForEach(files);
/** With the start of the command, less than the second that a person waits for. */
const LIMIT_MS = 1000;

async function offers(line: string, options: Parameters<typeof run>[1] = {}): Promise<readonly string[]> {
  const argv = ['__complete', ...line.split(' ')];
  const { status, stdout, stderr } = await run(argv, { local: addLocalCommands, httpSocket, ...options });
  assert.deepEqual([status, stderr], [0, ''], line);
  return stdout.split('\n').slice(0, -1);
}
const values = async (line: string, options?: Parameters<typeof run>[1]): Promise<readonly string[]> =>
  (await offers(line, options)).map((offer) => offer.split('\t')[0] ?? '');

describe('completion', () => {
  it('offers commands with their descriptions, subcommands, options and choices', async () => {
    assert.ok((await offers('')).includes('devices\tlist the serial ports of the box; * marks the open one'));
    assert.deepEqual(await values('outbox dead-letters re'), ['requeue']);
    assert.deepEqual(await values('help log '), ['export']);
    assert.deepEqual(await values('open x --par'), ['--parity']);
    assert.deepEqual(await values('open x --parity e'), ['even']);
    assert.deepEqual(await values('open x --parity=e'), ['--parity=even']);
    assert.deepEqual(await values('completion '), ['bash', 'zsh', 'fish']);
    assert.deepEqual(await values('log --dir rx ex'), ['export']);
    assert.ok((await values('log --h')).includes('--help'));
  });

  it('leaves files to the shell, and offers nothing where any value is allowed', async () => {
    assert.deepEqual(await offers('log export --output '), [':files']);
    assert.deepEqual(await offers('log export -o /etc/host'), [':files']);
    assert.deepEqual(await offers('restore '), [':files']);
    assert.deepEqual(await offers('open x --baud '), []);
    assert.deepEqual(await offers('nosuch '), []);
  });

  it('offers the ports of the line on the socket, of --socket and of LINESIDE_HOST', async () => {
    const service = new FakeService();
    service.devices = [
      { portName: '/dev/ttyUSB0', description: 'FT232R', hardwareId: '' },
      { portName: '/dev/ttyAMA0', description: '', hardwareId: '' },
      { portName: '/dev/tty\x1b[31m', description: '', hardwareId: '' },
    ];
    const socket = at('line.sock');
    await service.listen(`unix:${socket}`);
    assert.deepEqual(await offers('open ', { socket }), ['/dev/ttyUSB0\tFT232R', '/dev/ttyAMA0']);
    assert.deepEqual(await values(`open --socket ${socket} /dev/ttyU`), ['/dev/ttyUSB0']);
    service.stop();
    const port = await service.listen('127.0.0.1:0');
    const env = { LINESIDE_HOST: `127.0.0.1:${port}` };
    assert.deepEqual(await values('open /dev/ttyA', { env }), ['/dev/ttyAMA0']);
    service.stop();
  });

  it('offers dictionaries, and the keys of the one that is named', async () => {
    hub.answers['GET dictionaries'] = [{ name: 'pumps' }, { name: 'valves' }];
    await run(['record', 'create', 'pumps', 'P 1:a', '{}'], { httpSocket });
    assert.deepEqual(await values('dict show '), ['pumps', 'valves']);
    assert.deepEqual(await values('webhook add --dictionary v'), ['valves']);
    assert.deepEqual(await values('record get --at 2d pumps P'), ['P 1:a']);
    assert.deepEqual(await values('dict create '), []);
  });

  it('offers nothing, prints no error and ends within a second when the service does not answer', async () => {
    const service = new FakeService();
    service.stuck = true;
    const socket = at('stuck.sock');
    await service.listen(`unix:${socket}`);
    for (const options of [{ socket }, { env: { LINESIDE_HOST: '192.0.2.1:1', LINESIDE_CA: '/none' } }, {}]) {
      const began = performance.now();
      assert.deepEqual(await values('open ', options), []);
      assert.ok(performance.now() - began < LIMIT_MS);
    }
    hub.override = () => undefined;
    assert.deepEqual(await values('dict show '), []);
    service.stop();
  });
});

const installed = (shell: string): boolean => spawnSync('sh', ['-c', `command -v ${shell}`]).status === 0;

describe('the scripts', () => {
  for (const shell of ['bash', 'zsh', 'fish'] as const) {
    it(`${shell} takes the script`, { skip: !installed(shell) && `${shell} is not installed` }, () => {
      execFileSync(shell, ['-n', file(`lineside.${shell}`, completionScripts[shell])]);
    });
  }

  // A stand-in that prints its words: which of them the script passes, and how it quotes the answers.
  it('bash passes the words before the cursor, and quotes what it inserts', () => {
    const stub = file(
      'lineside',
      '#!/bin/sh\nshift\nprintf "%s\\n" "$*" >>"$0.asked"\nprintf "P 1:a\\tnote\\nP 1:b\\nP\\$x\\n"\n',
    );
    chmodSync(stub, 0o755);
    const replies = (line: string): string => {
      const script = `${completionScripts.bash}
        COMP_LINE=${JSON.stringify(line)} COMP_POINT=\${#COMP_LINE}
        COMP_WORDS=(${line
          .split(/(?<=[: ])|(?=[: ])/)
          .filter((part) => part.trim() !== '')
          .map((part) => `'${part}'`)
          .join(' ')} ${line.endsWith(' ') ? "''" : ''})
        COMP_CWORD=$((\${#COMP_WORDS[@]} - 1))
        compopt() { :; }
        _lineside; printf '%s\\n' "\${COMPREPLY[@]}"`;
      return execFileSync('bash', ['-c', script], { encoding: 'utf8', env: cleanEnv() });
    };
    assert.equal(replies(`${stub} record get pumps `), 'P\\ 1:a\nP\\ 1:b\nP\\$x\n');
    assert.equal(execFileSync('cat', [`${stub}.asked`], { encoding: 'utf8' }), 'record get pumps \n');
    assert.equal(replies(`${stub} open x --host box:`).split('\n').length, 4);
    assert.match(execFileSync('cat', [`${stub}.asked`], { encoding: 'utf8' }), /^open x --host box:$/m);
  });
});
