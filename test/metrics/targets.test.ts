/**
 * `lineside fleet targets` and a real Prometheus: each box is scraped with its own CA, and one that shows another certificate is not.
 * Debian 12's Prometheus knows neither scrape_config_files nor a CA inside of a file: it is given the same jobs with the CAs as files.
 */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { run } from '../../src/cli/drive.fixture.ts';
import { makeCa, signed } from '../../src/shared/base/certificates.fixture.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { startProcess, temporaryDirectory, writeConfig } from '../e2e/daemon.ts';
import { type Hub, startHub } from '../e2e/hub.ts';
import { addToken } from '../e2e/run-cli.ts';
import { freePort } from '../free-port.ts';
import { promtool, skip } from './promtool.ts';

const dir = temporaryDirectory();
const at = (name: string): string => join(dir, name);
const env = { XDG_CONFIG_HOME: dir, HOME: dir };
const targets = at('lineside-boxes.yml');

/** NAME.pem, with its authority behind it, which is a new one. */
function certify(name: string, names: string): void {
  makeCa(dir, `${name}-ca`);
  signed(dir, name, names, { ca: `${name}-ca` });
  writeFileSync(
    at(`${name}.pem`),
    readFileSync(at(`${name}.pem`), 'utf8') + readFileSync(at(`${name}-ca.pem`), 'utf8'),
  );
}

async function startBox(name: string, port: number): Promise<Hub> {
  const box = temporaryDirectory();
  const tls = { cert_file: at(`${name}.pem`), key_file: at(`${name}.key`) };
  const configFile = writeConfig(box, { http: { listen: [`0.0.0.0:${port}`] }, tls });
  // Without a token no box serves the network.
  await addToken(configFile, 'ada', 'viewer');
  return startHub({ dir: box });
}

async function cli(...words: string[]): Promise<void> {
  const { status, stderr } = await run(words, { env });
  assert.equal(status, 0, stderr);
}

/** Of Prometheus' API. */
interface Answer {
  readonly data: {
    readonly result?: readonly { readonly metric: object; readonly value: readonly [seconds: number, text: string] }[];
    readonly activeTargets?: readonly { readonly labels: Record<string, string>; readonly lastError: string }[];
  };
}

interface Job {
  readonly tls_config: { ca?: string; ca_file?: string; server_name?: string };
}

/** The file that Prometheus starts with. */
function prometheusFile(): string {
  const scrape = 'global: { scrape_interval: 1s, scrape_timeout: 1s }\n';
  const file = at('prometheus.yml');
  writeFileSync(file, `${scrape}scrape_config_files: [lineside-boxes.yml]\n`);
  const checked = promtool(['check', 'config', file]);
  if (/field scrape_config_files not found/.test(checked.output)) {
    const jobs = jobsIn(readFileSync(targets, 'utf8'));
    for (const [n, { tls_config: tls }] of jobs.entries()) {
      writeFileSync(at(`${n}.crt`), tls.ca ?? '');
      delete tls.ca;
      tls.ca_file = `${n}.crt`;
    }
    writeFileSync(file, `${scrape}scrape_configs: ${JSON.stringify(jobs)}\n`);
    Object.assign(checked, promtool(['check', 'config', file]));
  }
  assert.equal(checked.status, 0, checked.output);
  return file;
}

function jobsIn(text: string): Job[] {
  return (JSON.parse(text.replace(/^#.*\n/, '')) as { scrape_configs: Job[] }).scrape_configs;
}

test('Prometheus scrapes each box with its own CA, and none that shows another certificate', { skip }, async () => {
  certify('one', 'DNS:one.test,IP:127.0.0.1');
  certify('two', 'DNS:two.test,DNS:localhost');
  const [portOne, portTwo, portOwn] = [await freePort(), await freePort(), await freePort()];
  const [, two] = [await startBox('one', portOne), await startBox('two', portTwo)];
  const { fingerprint256 } = new X509Certificate(readFileSync(at('two-ca.pem')));
  const box = ['--host', '127.0.0.1', '--http-port'];
  await cli('profile', 'add', 'press-1', ...box, String(portOne), '--ca', at('one-ca.pem'), '--tags', 'line=3');
  await cli('profile', 'add', 'press-2', ...box, String(portTwo), '--fingerprint', fingerprint256);
  await cli('fleet', 'targets', '--all', '-o', targets);
  const written = readFileSync(targets, 'utf8');
  assert.deepEqual(
    jobsIn(written).map(({ tls_config: tls }) => [tls.ca, tls.server_name]),
    [
      [readFileSync(at('one-ca.pem'), 'utf8'), undefined],
      [readFileSync(at('two-ca.pem'), 'utf8'), 'two.test'],
    ],
  );

  const address = `127.0.0.1:${portOwn}`;
  const storage = `--storage.tsdb.path=${at('tsdb')}`;
  startProcess('prometheus', [`--config.file=${prometheusFile()}`, storage, `--web.listen-address=${address}`]);
  const api = async (path: string): Promise<Answer> => {
    const answer = await fetch(`http://${address}/api/v1/${path}`).catch(() => undefined);
    return answer?.status === 200 ? ((await answer.json()) as Answer) : { data: {} };
  };
  const boxes = [
    { __name__: 'up', instance: 'press-1', job: 'lineside', tag_line: '3' },
    { __name__: 'up', instance: 'press-2', job: 'lineside' },
  ];
  await untilUp('1', '1');
  await until('the metrics of both', async () => {
    return (await api('query?query=lineside_info{job="lineside"}')).data.result?.length === 2;
  });

  await two.stop();
  certify('two', 'DNS:two.test,DNS:localhost');
  await startBox('two', portTwo);
  await until('its certificate is refused', async () => {
    const { activeTargets = [] } = (await api('targets')).data;
    const refused = activeTargets.filter(({ lastError }) => /x509: certificate signed by unknown/.test(lastError));
    return refused.length === 1 && refused[0]?.labels['instance'] === 'press-2';
  });
  await untilUp('1', '0');
  const again = await run(['fleet', 'targets', '--all', '-o', targets], { env });
  assert.equal(again.status, 1);
  assert.match(
    again.stderr,
    /^lineside: cannot write the targets: 1 of 2 boxes cannot be used\. Nothing was written\..*\n  press-2: .*fingerprint/,
  );
  assert.equal(readFileSync(targets, 'utf8'), written);

  /** Until `up` of the boxes, in their order, is this. */
  async function untilUp(...values: string[]): Promise<void> {
    await until(`up is ${values.join(' and ')}`, async () => {
      const { result = [] } = (await api('query?query=up')).data;
      const found = result.map(({ metric, value }) => [metric, value[1]]);
      const wanted = boxes.map((box, n) => [box, values[n]]);
      return (
        wanted.length === found.length && wanted.every((one) => found.some((other) => isDeepStrictEqual(one, other)))
      );
    });
  }
});
