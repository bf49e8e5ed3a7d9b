/** `lineside serve` and its hub: two processes that fail independently, and stop together. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { until, within } from '../../src/shared/base/wait.fixture.ts';
import { type Client, launch, runDaemonToEnd, startDaemon, temporaryDirectory, writeConfig } from './daemon.ts';
import { RX } from './faults.ts';
import { isAlive, ownLog, startBoth, startHub } from './hub.ts';

test('deprecations inside the libraries are not written to the log', async () => {
  const warn = (type: string): string => `setInterval(() => process.emitWarning('of ${type}', '${type}'), 50).unref();`;
  const script = warn('DeprecationWarning') + warn('Warning');
  const line = await startDaemon({ nodeOptions: [`--import=data:text/javascript,${encodeURIComponent(script)}`] });
  const seen = line.logLines.length;
  await line.waitFor(/of Warning/, seen);
  await line.waitFor(/of Warning/, line.logLines.length);
  assert.ok(
    !line.logLines.slice(seen).some((text) => text.includes('of DeprecationWarning')),
    line.logLines.join('\n'),
  );
  assert.equal(await line.stop(), 0);
});

test('each process has its name in ps and top; SIGTERM stops the hub, then the line; nothing is left', async () => {
  const both = await startBoth();
  const names = (pid: number): string[] =>
    readdirSync(`/proc/${pid}/task`).map((task) => readFileSync(`/proc/${pid}/task/${task}/comm`, 'utf8').trim());
  assert.equal(names(both.linePid)[0], 'lineside-line');
  assert.equal(names(both.pid())[0], 'lineside-hub');
  assert.ok(names(both.linePid).includes('lineside-log'), names(both.linePid).join(' '));
  assert.match(readFileSync(`/proc/${both.pid()}/cmdline`, 'utf8'), /serve\0--role\0hub/);
  const hub = both.pid();
  assert.equal(await both.stop(), 0);
  assert.ok(!isAlive(hub));
  const order = both.logLines.flatMap((line) => / info ((?:hub )?(?:stopping|stopped))/.exec(line)?.[1] ?? []);
  assert.deepEqual(order, ['stopping', 'hub stopping', 'hub stopped', 'stopped']);
  assert.doesNotMatch(ownLog(both.logLines), / (warn|error) /);
});

test('an orphan that does not end when asked is killed', async () => {
  const both = await startBoth({ config: { outbox: { stop_grace_ms: 0 } } });
  const orphan = both.pid();
  process.kill(orphan, 'SIGSTOP');
  process.kill(both.linePid, 'SIGKILL');
  both.client.close();
  await until('the line is gone', () => !isAlive(both.linePid));
  const next = await startBoth({ dir: both.dir });
  assert.ok(!isAlive(orphan));
  assert.match(next.logLines.join('\n'), /warn it does not stop: killing it pid=\d+/);
  assert.equal(await next.stop(), 0);
});

test('a hub that hangs is killed when the service is stopped, and the line stops as ever', async () => {
  const both = await startBoth({ config: { outbox: { stop_grace_ms: 0 } } });
  process.kill(both.pid(), 'SIGSTOP');
  assert.equal(await both.stop(), 0);
  assert.ok(!isAlive(both.pid()));
  assert.match(both.logLines.join('\n'), /warn the hub does not stop: killing it pid=\d+\n.* info stopped/);
});

test('a second service ends with the number of the first, whose port, log and hub it does not touch', async () => {
  const first = await startBoth({ config: { serial: { simulate: true } } });
  const link = join(first.dir, 'run/sim0');
  const port = readlinkSync(link);
  const id = await lastId(first.client);
  // With the same data; with data of its own beside the same runtime directory.
  const own = temporaryDirectory();
  writeConfig(own, { data: { runtime_dir: join(first.dir, 'run') }, serial: { simulate: true } });
  for (const [dir, role, pid] of [
    [first.dir, 'both', first.linePid],
    [first.dir, 'line', first.linePid],
    [first.dir, 'hub', first.pid()],
    [own, 'both', first.linePid],
    [own, 'line', first.linePid],
  ] as const) {
    const { status, log } = await runDaemonToEnd({ dir, role });
    assert.equal(status, 1);
    const refused = `^\\S+ error (hub )?cannot start error="lineside is already running \\(process ${pid}\\)" hint="It uses .*"$`;
    assert.match(log, new RegExp(refused));
  }
  assert.equal(readlinkSync(link), port);
  const { devices } = await first.client.serial.listDevices({});
  assert.ok(devices?.some(({ portName }) => portName === link));
  assert.equal(await lastId(first.client), id + 1);
  assert.ok(isAlive(first.pid()));
  assert.equal(await first.stop(), 0);
  assert.deepEqual(
    ['data/hub', 'data/line', 'run/line-runtime'].map((name) => readFileSync(join(first.dir, `${name}.lock`), 'utf8')),
    ['', '', ''],
  );
});

async function lastId(client: Client): Promise<number> {
  await client.serial.logRaw({ dir: RX, rawData: Buffer.from('x') });
  const { log } = await client.line.getStatus({});
  return Number(log?.lastId ?? 0);
}

test('a hub that no service started is left alone by the next service', async () => {
  const hub = await startHub();
  const service = launch({ dir: hub.dir, role: 'both' });
  await service.waitFor(/hub cannot start error="lineside is already running /);
  service.child.kill('SIGTERM');
  assert.equal(await within('the end of the service', service.ended), 0);
  assert.ok(isAlive(hub.pid()));
  assert.equal(await hub.stop(), 0);
});

test('a hub that cannot start never stops the line, and comes when its cause is gone', async () => {
  const dir = temporaryDirectory();
  const configFile = writeConfig(dir);
  const path = join(dir, 'data/refdata.db');
  const first = await startHub({ dir });
  await first.stop();
  const whole = readFileSync(path);
  writeFileSync(path, 'not a database '.repeat(1_000));
  const started = launch({ dir, role: 'both' });
  await started.waitFor(/ info ready /);
  await started.waitFor(/hub cannot start .*damaged/);
  await started.waitFor(/warn the hub ended and is started again how="exit status 1"/);
  assert.match(readFileSync(path, 'utf8'), /^not a database/, 'left as it was');
  writeFileSync(path, whole);
  await started.waitFor(/ info hub ready /);
  started.child.kill('SIGTERM');
  assert.equal(await within('the end', started.ended), 0);
  assert.ok(existsSync(configFile));
});

test("what is wrong in the hub's part of the configuration, or no role, is found before anything starts", async () => {
  const config = { kafka: { security_protocol: 'sasl_ssl', username: 'u', password_file: '/nonexistent/password' } };
  for (const role of ['both', 'hub'] as const) {
    const { status, log } = await runDaemonToEnd({ config, role });
    assert.equal(status, 2);
    assert.match(log, /kafka.password_file: cannot read/);
    assert.doesNotMatch(log, / info /);
  }
  const noRole = await runDaemonToEnd({ role: 'bath' as 'both' });
  assert.equal(noRole.status, 2);
  assert.match(noRole.log, /no such role: "bath" \(roles: line, hub\)/);
  const line = await startDaemon({ config });
  assert.equal(await line.stop(), 0, 'which is no concern of the line alone');
});
