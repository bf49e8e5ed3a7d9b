/** lineside support-bundle: what is in it, and that no secret and no data ever are. Every byte of every file is checked. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { mountSmall } from '../../src/shared/base/small-disk.fixture.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { MAIN, NODE, startProcess, temporaryDirectory, writeConfig } from './daemon.ts';
import { openPort } from './faults.ts';
import { startBoth } from './hub.ts';
import { apiOf, create, dictionary } from './hub-support.ts';
import { namedPty } from './pty.ts';
import { addToken, runCli } from './run-cli.ts';

interface Manifest {
  readonly files: readonly { readonly name: string; readonly bytes: number }[];
  readonly leftOut: readonly { readonly what: string; readonly why: string }[];
}

/** Unpacks it as the recipient does. */
function unpacked(file: string): { files: Record<string, string>; manifest: Manifest; all: Buffer } {
  const dir = temporaryDirectory();
  const { status, stderr } = spawnSync('tar', ['xzf', file, '-C', dir], { encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  const inside = join(dir, 'lineside-support');
  const files = Object.fromEntries(readdirSync(inside).map((name) => [name, readFileSync(join(inside, name), 'utf8')]));
  return { files, manifest: JSON.parse(files['manifest.json'] ?? '') as Manifest, all: gunzipSync(readFileSync(file)) };
}

function absent(all: Buffer, secrets: readonly string[]): void {
  for (const secret of secrets) {
    const forms = [
      secret,
      Buffer.from(secret).toString('base64'),
      Buffer.from(secret).toString('hex'),
      encodeURIComponent(secret),
    ];
    for (const form of forms) assert.ok(!all.includes(form), `${form} (of ${secret}) is in the bundle`);
  }
}

describe('a support bundle', () => {
  it('of a service at work has its state, and neither secrets nor records nor bytes of the line', async () => {
    const dir = temporaryDirectory();
    const pty = namedPty(dir);
    const secrets = {
      password: 'Broker pass-word "4711" \\x',
      environment: 'Environment-secret-4712',
      comment: 'Comment-secret-4713',
      key: 'Sealing-key-secret-4714-4714-4714',
    };
    const passwordFile = join(dir, 'kafka.password');
    writeFileSync(passwordFile, `${secrets.password}\n`, { mode: 0o600 });
    const config = {
      serial: { extra_ports: [pty.portName] },
      log: { commit_ms: 50 },
      kafka: {
        bootstrap: '127.0.0.1:1',
        security_protocol: 'sasl_plaintext',
        username: 'box',
        password_file: passwordFile,
      },
    };
    const service = await startBoth({ dir, config });
    writeFileSync(service.configFile, `# ${secrets.comment}\n${readFileSync(service.configFile, 'utf8')}`);
    const token = await addToken(service.configFile, 'ann', 'viewer');
    assert.match(token, /^lsd_/);
    const hash =
      (JSON.parse(readFileSync(join(dir, 'tokens.json'), 'utf8')) as { tokens: { sha256: string }[] }).tokens[0]
        ?.sha256 ?? '';
    await dictionary(apiOf(service), 'zebras');
    await create(
      apiOf(service),
      'zebras',
      'Business-key-4715',
      { stripes: 'Record-data-4716' },
      { changeReason: 'Reason-4717' },
    );
    await openPort(service.client, pty.portName);
    await pty.write(Buffer.from('Bytes-of-the-line-4718'));
    await until('they are logged', async () => Number((await service.client.line.getStatus({})).log?.headId ?? 0) > 0);

    const output = join(dir, 'out.tar.gz');
    const env = { LINESIDE_TOKEN: secrets.environment, BROKER_PASSWORD: secrets.key };
    const made = await runCli(['support-bundle', '--config', service.configFile, '--output', output], { env });
    assert.equal(made.status, 0, made.stderr);
    assert.equal(statSync(output).mode & 0o777, 0o600);
    const { files, manifest, all } = unpacked(output);
    for (const name of [
      'doctor.txt',
      'doctor.json',
      'configuration.txt',
      'environment.txt',
      'versions.json',
      'service.json',
      'line-status.json',
      'metrics.txt',
      'readyz.json',
      'machine.json',
      'ports.json',
      'databases.json',
    ])
      assert.ok(
        (files[name] ?? '').length > 10,
        `${name}: ${Object.keys(files).join(' ')} ${JSON.stringify(manifest.leftOut)}`,
      );
    assert.match(files['doctor.txt'] ?? '', /the line answers, version/);
    assert.match(files['configuration.txt'] ?? '', /^kafka\.bootstrap = "127\.0\.0\.1:1" {2}\(from file\)$/m);
    assert.match(files['metrics.txt'] ?? '', /^lineside_/m);
    assert.match(files['line-status.json'] ?? '', /"headId"/);
    assert.match(files['databases.json'] ?? '', /"last_outbox_id": [1-9]/);
    // The manifest knows every other file, to the byte.
    assert.deepEqual(
      manifest.files.map(({ name, bytes }) => `${name} ${bytes}`).sort(),
      Object.entries(files)
        .filter(([name]) => name !== 'manifest.json')
        .map(([name, text]) => `${name} ${Buffer.byteLength(text)}`)
        .sort(),
    );
    assert.ok(manifest.leftOut.some(({ what }) => what === 'the journal'));
    absent(all, [
      ...Object.values(secrets),
      token,
      hash,
      'Business-key-4715',
      'Record-data-4716',
      'Reason-4717',
      'zebras',
      'Bytes-of-the-line-4718',
    ]);

    await service.stop();
  });

  it('of a box where nothing runs and nothing can be read is made all the same', async () => {
    const dir = temporaryDirectory();
    const config = join(dir, 'lineside.toml');
    writeFileSync(config, 'password = "Not-even-toml-4720\n[[[');
    const output = join(dir, 'out.tar.gz');
    const made = await runCli(['support-bundle', '--config', config, '--output', output, '--json']);
    assert.equal(made.status, 0, made.stderr);
    assert.equal((JSON.parse(made.stdout) as { output: unknown }).output, output);
    const { files, manifest, all } = unpacked(output);
    assert.match(files['doctor.txt'] ?? '', /is no TOML/);
    assert.ok(manifest.leftOut.some(({ what }) => what === 'configuration'));
    absent(all, ['Not-even-toml-4720']);
  });

  it('leaves nothing behind on a full disk or a read-only one, and says why', async (t) => {
    const dir = temporaryDirectory();
    const config = writeConfig(dir);
    for (const [options, why] of [
      ['size=4k', /no support bundle was written: .* cannot be written: the disk is full/],
      ['ro,size=4k', /cannot be written: it is mounted read-only/],
    ] as const) {
      const place = join(dir, options.slice(0, 2));
      if (!mountSmall(t, place, options)) return;
      const { status, stderr } = await runCli([
        'support-bundle',
        '--config',
        config,
        '--output',
        join(place, 'out.tar.gz'),
      ]);
      assert.equal(status, 1);
      assert.match(stderr, why);
      assert.deepEqual(readdirSync(place), []);
    }
  });

  for (const signal of ['SIGINT', 'SIGKILL'] as const) {
    it(`that is ended by ${signal} leaves no file and no process`, async () => {
      const dir = temporaryDirectory();
      mkdirSync(join(dir, 'run'));
      // A service that does not answer delays the collection.
      const server = createServer(() => undefined).listen(join(dir, 'run/http.sock'));
      const config = writeConfig(dir);
      const child = startProcess(NODE, [
        MAIN,
        'support-bundle',
        '--config',
        config,
        '--output',
        join(dir, 'out.tar.gz'),
      ]);
      const closed = once(child, 'close');
      await until('the process that collects', () => collecting(dir));
      child.kill(signal);
      const [status] = (await closed) as [number | null];
      if (signal === 'SIGINT') assert.equal(status, 130);
      await until('the process to end', () => !collecting(dir));
      server.close();
      assert.deepEqual(
        readdirSync(dir).filter((name) => /support|out/.test(name)),
        [],
      );
    });
  }
});

/** Whether a process collects for this directory. */
function collecting(dir: string): boolean {
  return readdirSync('/proc').some((pid) => {
    try {
      const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
      return words.includes('doctor-work') && words.includes(dir);
    } catch {
      return false;
    }
  });
}
