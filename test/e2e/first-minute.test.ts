/** What a newcomer does: scripts/run in a fresh checkout, a second terminal, Ctrl-C. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { until, within } from '../../src/shared/base/wait.fixture.ts';
import { brokerMissing } from '../kafka/broker.ts';
import { environment, ROOT, startProcess, temporaryDirectory } from './daemon.ts';
import { ownLog } from './hub.ts';
import { remember } from './run-cli.ts';

/** The first start compiles everything, on a machine that may be busy. */
const START_LIMIT_MS = 120_000;

/**
 * What a clone has, and the packages as after an earlier bootstrap: what is installed is linked, so that nothing is
 * downloaded and this checkout's build/ and .run/ are left alone.
 */
function freshCheckout(): string {
  const checkout = join(temporaryDirectory(), 'lineside');
  mkdirSync(join(checkout, 'node_modules'), { recursive: true });
  const own = readdirSync(ROOT).filter((name) => !['node_modules', 'build', '.git', '.run', '.cache'].includes(name));
  for (const name of own) {
    if (/^build\.|^tmp/.test(name)) continue;
    cpSync(join(ROOT, name), join(checkout, name), {
      recursive: true,
      filter: (path) => !path.endsWith('/src/shared/gen'),
    });
  }
  for (const name of readdirSync(join(ROOT, 'node_modules')))
    if (name !== '.lineside-stamp') symlinkSync(join(ROOT, 'node_modules', name), join(checkout, 'node_modules', name));
  // The broker's jars, which brokerMissing has brought.
  mkdirSync(join(checkout, '.cache'));
  if (brokerMissing === false) symlinkSync(join(ROOT, '.cache/kafka'), join(checkout, '.cache/kafka'));
  // As scripts/bootstrap writes it; a wrong one would only make it install again, into the copy.
  const stamp = 'printf "%s\\n" "$(sha256sum package-lock.json .npmrc | sha256sum)" >node_modules/.lineside-stamp';
  execFileSync('bash', ['-c', stamp], { cwd: checkout });
  return checkout;
}

/** Processes of the group, by their command lines; zombies that are not reaped yet count as ended. */
function alive(group: number): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
        const [state, , pgrp] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
        if (Number(pgrp) !== group || state === 'Z') return [];
        return [`${pid} ${readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')}`];
      } catch {
        // It ended meanwhile.
        return [];
      }
    });
}

test('scripts/run shows a talking line and reference data, and Ctrl-C leaves nothing behind', async () => {
  const checkout = freshCheckout();
  // The one thing that is not as a newcomer has it: another service may have the usual TCP ports here.
  const env = environment({
    LINESIDE_GRPC_LISTEN: '127.0.0.1:0,unix:grpc.sock',
    LINESIDE_HTTP_LISTEN: '127.0.0.1:0,unix:http.sock',
  });
  const kafkaPort = 20_000 + 2 * randomInt(5_000);
  const args = brokerMissing === false ? ['--kafka-port', String(kafkaPort)] : ['--kafka', 'none'];
  const run = startProcess('bash', [join(checkout, 'scripts/run'), ...args], env);
  const [out, err] = [remember(run.stdout), remember(run.stderr)];
  let over: unknown;
  const closed = once(run, 'close').then(([status]: unknown[]) => {
    over = status;
    return status;
  });
  await until(
    'the hint for what to type next',
    () => {
      assert.equal(over, undefined, `scripts/run ended:\n${out()}${err()}`);
      return /lineside is running on .*[\s\S]*scripts\/lineside send --crlf PING/.test(out());
    },
    START_LIMIT_MS,
  );
  // Its TCP ports may be another service's: the test's are.
  assert.match(out(), new RegExp(`gRPC client: unix:${checkout}/.run/run/grpc.sock,`));
  await until('bytes of the line', () => /RX.*\$SIM,\d{6},TEMP/.test(out()) || /RX[\s\S]*24 53 49 4d/.test(out()));

  const second = async (...args: string[]): Promise<string> => {
    const child = startProcess(join(checkout, 'scripts/lineside'), args, environment());
    if (child.stdout === null || child.stderr === null) throw new Error('no pipes');
    child.stdin?.end();
    const [shown, complaint, [status]] = await within(
      args.join(' '),
      Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]),
    );
    assert.equal(status, 0, complaint);
    return shown;
  };
  assert.match(await second('status'), /open .*sim0/);
  assert.match(await second('send', '--crlf', 'PING'), /^sent 6 bytes in 1 packet\n$/);
  await until('PONG in the log', async () => /PONG/.test(await second('log', '--last', '20', '--text')));
  await until('PONG in the first terminal', () => /PONG/.test(out()));

  await second('dict', 'create', 'tools', '--title', 'Tools of the site', '--scope', 'PUBLIC');
  await second('record', 'create', 'tools', 'T-1', '{"name": "Torque wrench", "newtonMetres": 40}');
  assert.match(await second('record', 'get', 'tools', 'T-1'), /Torque wrench/);
  if (brokerMissing === false) {
    await until(
      'the event at the broker',
      () => /EVENT refdata\.cuod\.events\.public .*"T-1"/.test(out()),
      START_LIMIT_MS,
    );
    await until('an empty outbox', async () => /^Waiting +nothing/m.test(await second('outbox')));
  } else {
    assert.match(await second('outbox'), /Kafka is not configured/);
    assert.doesNotMatch(await second('outbox'), /^Waiting +nothing/m, 'the event waits for a broker');
  }
  await until('the facts of the device', async () => /sim0/.test(await second('record', 'list', 'device.ports')));
  const token = readFileSync(join(checkout, '.run/token'), 'utf8').trim();
  const address = /hub ready .*listen="([\d.]+:\d+) /.exec(err())?.[1];
  const url = `http://${address}/api/v1/dictionaries/tools/records`;
  const answer = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
  assert.equal(answer.status, 200, 'with the token that it made, over TCP');
  assert.match(await answer.text(), /"newtonMetres":40/);
  assert.equal((await fetch(url)).status, 401);

  // As the terminal does it: to everything that runs in the foreground.
  const group = run.pid ?? 0;
  process.kill(-group, 'SIGINT');
  assert.equal(await within('the end after Ctrl-C', closed), 0);
  await until(`the end of all: ${alive(group).join('\n')}`, () => alive(group).length === 0);
  for (const socket of ['grpc.sock', 'http.sock'])
    assert.ok(!existsSync(join(checkout, '.run/run', socket)), `${socket} is gone`);
  assert.doesNotMatch(ownLog(err().split('\n')), / error /);
});
