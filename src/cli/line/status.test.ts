import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import Long from 'long';
import { until } from '../../shared/base/wait.fixture.ts';
import { runCli } from '../cli.ts';
import { run, start, testFiles } from '../drive.fixture.ts';
import { processIo } from '../io.ts';
import { cli, service, serviceForEach, socket } from './fake-service.fixture.ts';

serviceForEach(testFiles(), {
  portState: 3,
  requested: { portName: '/dev/x', baudRate: 9600, dataBits: 8 },
  log: { state: 1 },
  version: '9.9',
});

describe('status', () => {
  it('answers by its exit status whether all is well', async () => {
    assert.equal((await cli('status')).status, 0);
    service.patchStatus({ portState: 4, portError: 'unplugged' });
    const lost = await cli('status');
    assert.equal(lost.status, 1);
    assert.match(lost.stdout, /^Port +LOST \/dev\/x.*\n +unplugged\n/);
    service.setStatus({ portState: 1, log: { state: 2, error: 'disk full' } });
    const failing = await cli('status', '--json');
    const json = JSON.parse(failing.stdout) as {
      healthy: boolean;
      portState: string;
      requested: null;
      log: { state: string };
    };
    assert.deepEqual(
      [failing.status, json.healthy, json.portState, json.requested, json.log.state],
      [1, false, 'closed', null, 'failing'],
    );
  });

  it('keeps counters beyond 2^53 exact in JSON', async () => {
    service.patchStatus({ counters: { rxBytes: Long.MAX_UNSIGNED_VALUE, txBytes: Long.fromNumber(7) } });
    assert.match((await cli('status', '--json')).stdout, /"rxBytes":"18446744073709551615","txBytes":7,/);
  });

  it('refuses to watch without a pause', async () => {
    const { status, stderr } = await run(['status', '--watch', '0'], { socket });
    assert.deepEqual([status, /"0" is not a number of seconds from 0\.1 to 86400/.test(stderr)], [2, true], stderr);
  });

  it('watches until Ctrl-C, and ends with 0', async () => {
    const watching = start(['status', '--watch', '0.1', '--json'], { socket });
    await until('two answers', () => watching.stdout().split('\n').length > 2);
    watching.signal('SIGINT');
    const { status, stdout, stderr } = await watching.done;
    assert.deepEqual([status, stderr], [0, '']);
    for (const line of stdout.trim().split('\n'))
      assert.equal((JSON.parse(line) as { version: string }).version, '9.9');
  });
});

describe('a terminal', () => {
  it('gets colour, unless NO_COLOR is set, and lines that fit', async () => {
    service.log(1, 'x'.repeat(30));
    const tty = { columns: 60 };
    assert.ok((await run(['log'], { socket, tty })).stdout.includes('\x1b[32mRX'));
    const plain = (await run(['log'], { socket, tty, env: { NO_COLOR: '1' } })).stdout;
    assert.ok(!plain.includes('\x1b'));
    for (const line of plain.split('\n')) assert.ok(line.length <= 60, line);
    service.devices = [{ portName: '/dev/x', description: 'y'.repeat(90), hardwareId: '' }];
    for (const line of (await run(['devices'], { socket, tty })).stdout.split('\n')) assert.ok(line.length <= 60, line);
  });
});

describe('local commands', () => {
  it('stand in the help beside the others, and below them where they belong', async () => {
    const seen: unknown[] = [];
    const parts = {
      version: '1',
      localSocket: () => socket,
      localHttpSocket: () => socket,
      local: (
        program: Parameters<NonNullable<Parameters<typeof runCli>[2]['local']>>[0],
        shell: { setStatus(status: number): void },
      ) => {
        const config = program.commands.find((command) => command.name() === 'config');
        config
          ?.command('check')
          .option('--config <file>')
          .action((options: unknown) => {
            seen.push(options);
            shell.setStatus(2);
          });
      },
    };
    const status = await runCli(['config', 'check', '--config', 'a.toml'], processIo(), parts);
    assert.deepEqual([status, seen], [2, [{ config: 'a.toml' }]]);
  });
});
