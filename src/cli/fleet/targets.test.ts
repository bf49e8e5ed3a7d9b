/** What is written for each kind of profile; test/metrics/targets.test.ts shows that Prometheus scrapes by it. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, existsSync, readFileSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { after, it } from 'node:test';
import { createServer, type Server } from 'node:tls';
import { makeCa, signed } from '../../shared/base/certificates.fixture.ts';
import { run, testFiles } from '../drive.fixture.ts';

const { dir, at, file } = testFiles();
const env = { XDG_CONFIG_HOME: dir, HOME: dir };
const servers: Server[] = [];
makeCa(dir);
const ca = readFileSync(at('ca.pem'), 'utf8');
const { fingerprint256 } = new X509Certificate(ca);
after(() => {
  for (const server of servers) server.close();
});

/** A box that shows a certificate for these names; it answers no request. */
async function serve(name: string, names: string): Promise<readonly [host: string, ...trust: string[]]> {
  signed(dir, name, names);
  const cert = readFileSync(at(`${name}.pem`), 'utf8') + ca;
  const server = createServer({ cert, key: readFileSync(at(`${name}.key`)) }).listen(0, '127.0.0.1');
  servers.push(server);
  await once(server, 'listening');
  return ['127.0.0.1', '--http-port', String((server.address() as AddressInfo).port), '--fingerprint', fingerprint256];
}

async function add(name: string, host: string, ...more: string[]): Promise<void> {
  const { status, stderr } = await run(['profile', 'add', name, '--host', host, ...more], { env });
  assert.equal(status, 0, stderr);
}

const targets = (...words: string[]) => run(['fleet', 'targets', ...words], { env });

it('makes one job for boxes of one TLS setting, in the order of their names', async () => {
  const key = readFileSync(at('ca.key'), 'utf8');
  const token = file('token', 'secret-1\n');
  const both = file('both.pem', `the authority of the plant\n${key}${ca}`);
  for (const secret of [both, token]) chmodSync(secret, 0o600);
  await add('p3', 'p3.test:50052', '--ca', both, '--token-file', token, '--tags', 'line=3,line=4,job=x,cell.no=7');
  await add('p2', '2001:db8::2', '--ca', at('ca.pem'), '--http-port', '9443');
  await add('p4', '192.0.2.4', '--ca', at('ca.pem'), '--server-name', 'p4.test');
  await add('p1', 'p1.test', '--tags', 'line=3');
  await add('p5', '127.0.0.1', '--tags', 'line=3');
  const { status, stdout, stderr } = await targets('--all');
  assert.equal(status, 0, stderr);
  const [comment, ...rest] = stdout.split('\n');
  assert.match(comment ?? '', /^# /);
  const job = 'lineside';
  assert.deepEqual(JSON.parse(rest.join('\n')), {
    scrape_configs: [
      {
        job_name: 'lineside/p1',
        scheme: 'https',
        tls_config: {},
        static_configs: [{ targets: ['p1.test:8443'], labels: { job, instance: 'p1', tag_line: '3' } }],
      },
      {
        job_name: 'lineside/p2',
        scheme: 'https',
        tls_config: { ca },
        static_configs: [
          { targets: ['[2001:db8::2]:9443'], labels: { job, instance: 'p2' } },
          {
            targets: ['p3.test:8443'],
            labels: { job, instance: 'p3', tag_line: '3,4', tag_job: 'x', tag_cell_no: '7' },
          },
        ],
      },
      {
        job_name: 'lineside/p4',
        scheme: 'https',
        tls_config: { ca, server_name: 'p4.test' },
        static_configs: [{ targets: ['192.0.2.4:8443'], labels: { job, instance: 'p4' } }],
      },
      {
        job_name: 'lineside/p5',
        scheme: 'http',
        static_configs: [{ targets: ['127.0.0.1:8080'], labels: { job, instance: 'p5', tag_line: '3' } }],
      },
    ],
  });
  assert.equal((await targets('--boxes', file('list', 'p5\np4\np3\np2\np1\n'))).stdout, stdout);
  const some = await targets('--tag', 'line=3', '--tag', 'cell.no=7', '-o', at('some.yml'));
  assert.equal(some.stdout, `${at('some.yml')}: 1 box\n`);
  assert.deepEqual(readFileSync(at('some.yml'), 'utf8').match(/p\d\.test/g), ['p3.test']);
});

it('takes the CA, and the name if it is another one, from a box whose profile has a fingerprint', async () => {
  await add('q1', ...(await serve('q1', 'IP:127.0.0.1')));
  await add('q2', ...(await serve('q2', 'DNS:*.test,DNS:q2.test')));
  const { stdout, stderr } = await targets('--boxes', file('pinned', 'q1\nq2\n'));
  const { scrape_configs: jobs } = JSON.parse(stdout.replace(/^#.*/, '')) as {
    scrape_configs: { tls_config: object }[];
  };
  assert.deepEqual(
    jobs.map(({ tls_config: tls }) => tls),
    [{ ca }, { ca, server_name: 'q2.test' }],
    stderr,
  );
});

it('names each box that cannot be used and why, and writes nothing', async () => {
  const [host, ...pinned] = await serve('r1', 'DNS:r1.test');
  servers.at(-1)?.close();
  await add('r1', host, ...pinned);
  await add('r2', ...(await serve('r2', 'DNS:*.test')));
  await add('r3', 'r3.test', '--ca', file('none.pem', 'no certificate'));
  await add('r4', 'r4.test', '--ca', file('gone.pem', ca));
  rmSync(at('gone.pem'));
  const list = file('faulty', 'r4\nr3\np1\nr2\nr1\n');
  const { status, stdout, stderr } = await targets('--boxes', list, '-o', at('faulty.yml'));
  assert.deepEqual([status, stdout, existsSync(at('faulty.yml'))], [1, '', false]);
  assert.deepEqual(stderr.replace(/127\.0\.0\.1:\d+/, 'HOST').split('\n'), [
    'lineside: cannot write the targets: 4 of 5 boxes cannot be used. Nothing was written. To leave boxes out, name the others: --boxes FILE.',
    '  r1: cannot reach the service at HOST: connection refused',
    '  r2: its certificate has no name that Prometheus could compare',
    `  r3: cannot use ${at('none.pem')}: it holds no certificate (PEM)`,
    `  r4: cannot read ${at('gone.pem')}: there is no such file or directory`,
    '',
  ]);
});
