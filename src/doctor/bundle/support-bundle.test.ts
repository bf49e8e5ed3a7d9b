/** A support bundle of pieces that were planted: what fails or hangs is left out and named, and all that is in it was redacted. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { newToken } from '../../shared/auth/tokens.ts';
import { systemClock } from '../../shared/base/clock.ts';
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import { Redactor } from '../../shared/base/redactor.ts';
import { temporaryDirectory } from '../../shared/base/temporary.fixture.ts';
import { type CheckContext, readContext } from '../check-context.ts';
import { inChild } from '../commands.ts';
import { type Collector, collectors, isPart } from './bundle-parts.ts';
import { targetOf } from './bundle-target.ts';
import { collectBundle } from './support-bundle.ts';

function collector(what: string, collect: Collector['collect']): Collector {
  return { what, limitMs: 60_000, collect };
}

async function bundled(dir: string, all: readonly Collector[], env = {}): Promise<(name: string) => string> {
  const config = join(dir, 'lineside.toml');
  writeFileSync(
    config,
    `[data]\ndir = "${dir}"\n[auth]\ntokens_file = "${dir}/tokens.json"\n[tls]\nkey_file = "${dir}/tls.key"\n`,
  );
  const target = targetOf(join(dir, 'b.tar.gz'), true, 0);
  await collectBundle({ named: config, env, clock: systemClock, version: '1.0', target, all });
  assert.equal(spawnSync('tar', ['xzf', target.output, '-C', dir]).status, 0);
  return (name) => readFileSync(join(dir, 'lineside-support', name), 'utf8');
}

describe('a bundle', () => {
  it('has what could be had, and names what could not', async (t) => {
    const read = await bundled(temporaryDirectory(t), [
      collector('good', async () => [{ name: 'good.txt', content: 'all is well\n' }]),
      collector('bad', () => Promise.reject(Object.assign(new Error('x'), { code: 'EIO' }))),
      collector('odd', () => Promise.reject(new Error('password=Hunter2-4721'))),
      { what: 'stuck', limitMs: 1, collect: () => new Promise(() => undefined) },
    ]);
    assert.equal(read('good.txt'), 'all is well\n');
    const { leftOut, files } = JSON.parse(read('manifest.json')) as { leftOut: unknown; files: unknown };
    assert.deepEqual(leftOut, [
      { what: 'bad', why: 'EIO' },
      { what: 'odd', why: 'password=[removed]' },
      { what: 'stuck', why: 'it did not end within 0.001 s' },
    ]);
    assert.deepEqual(files, [{ name: 'good.txt', bytes: 12 }]);
  });

  it('knows the secrets of the box, and takes them out in whatever company they are', async (t) => {
    const dir = temporaryDirectory(t);
    const token = newToken();
    const key = '-----BEGIN PRIVATE KEY-----\nTUlHSEFnRUFNQk1HQnlxR1NNNDlBZ0VH\n-----END PRIVATE KEY-----\n';
    writeFileSync(join(dir, 'tls.key'), key);
    writeFileSync(join(dir, 'webhooks.key'), Buffer.from('00ff80fe'.repeat(8), 'hex'));
    writeFileSync(
      join(dir, 'tokens.json'),
      JSON.stringify({ tokens: [{ name: 'a', roles: ['viewer'], sha256: 'ab'.repeat(32), createdAt: '' }] }),
    );
    const secrets = [
      'TUlHSEFnRUFNQk1HQnlxR1NNNDlBZ0VH',
      Buffer.from('00ff80fe'.repeat(8), 'hex').toString('base64'),
      'ab'.repeat(32),
      token,
      'Environment-4722',
      'Environment-"4723"',
    ];
    const content = secrets.map((secret) => `in the middle ${secret} of a line\n`).join('') + `data.dir is ${dir}\n`;
    const pieces = [
      { name: 'a.txt', content },
      { name: 'b.json', content: { deep: [{ text: content }] } },
    ];
    const read = await bundled(dir, [collector('planted', async () => pieces)], {
      MY_PASSWORD: 'Environment-4722',
      X_TOKEN: 'Environment-"4723"',
      PWD: dir,
    });
    for (const name of ['a.txt', 'b.json', 'manifest.json']) {
      for (const secret of secrets) {
        assert.ok(!read(name).includes(secret), `${secret} in ${name}`);
        assert.ok(!read(name).includes(JSON.stringify(secret).slice(1, -1)), `${secret} in ${name}`);
      }
    }
    assert.match(read('a.txt'), /^in the middle \[removed\] of a line$/m);
    assert.ok(read('a.txt').includes(`data.dir is ${dir}\n`), 'where the caller stood is no secret');
  });

  it('has the variables that lineside knows, and of others their number', async (t) => {
    const dir = temporaryDirectory(t);
    const configuration = collectors.find(({ what }) => what === 'configuration');
    assert.ok(configuration);
    const read = await bundled(
      dir,
      [configuration, collector('log', async () => [{ name: 'a.txt', content: 'a Sauce-4724 b' }])],
      {
        LINESIDE_DEVICE_ID: 'box-7',
        LINESIDE_KAFKA_USERNAME: 'Station-4725',
        LINESIDE_TOKEN: 'Token-4726',
        LINESIDE_SAUCE: 'Sauce-4724',
      },
    );
    assert.equal(
      read('environment.txt'),
      'LINESIDE_DEVICE_ID=box-7\nLINESIDE_KAFKA_USERNAME=[removed]\n# 2 more, which lineside does not know\n',
    );
    assert.match(read('configuration.txt'), /^kafka\.username = "?\[removed\]"?/m);
    assert.equal(read('a.txt'), 'a [removed] b');
  });

  it('takes the journal without its secrets, and says where there is none', async (t) => {
    const dir = temporaryDirectory(t);
    const before = process.env['PATH'];
    t.after(() => {
      process.env['PATH'] = before;
    });
    const context: CheckContext = {
      ...(await readContext({ named: join(dir, 'none'), env: {}, clock: systemClock, version: '' })),
      isUnits: true,
    };
    const journal = collectors.find(({ what }) => what === 'the journal');
    assert.ok(journal);
    process.env['PATH'] = dir;
    assert.deepEqual(await journal.collect(context), [{ what: 'the journal', why: 'journalctl: missing' }]);
    process.env['PATH'] = `${dir}${delimiter}${before ?? ''}`;
    const said = [
      '2026-11-22T13:00:00+0000 box lineside[1]: info ready',
      `box lineside[1]: warn refused token=${newToken()} x`,
      'box sshd: Authorization: Basic SHVudGVyMi00NzI0',
    ];
    writeFileSync(join(dir, 'journalctl'), `#!/bin/sh\ncat <<'EOF'\n${said.join('\n')}\nEOF\n`, { mode: 0o755 });
    const [part] = await journal.collect(context);
    assert.ok(part !== undefined && isPart(part) && typeof part.content === 'string');
    const text = new Redactor().text(part.content);
    assert.equal(
      text,
      `${said[0]}\nbox lineside[1]: warn refused token=[removed]\nbox sshd: Authorization: [removed]\n`,
    );
  });
});

describe('the process that does the work', () => {
  const started = async (t: TestContext, code: string) => {
    const dir = temporaryDirectory(t);
    const before = process.argv[1] ?? '';
    t.after(() => {
      process.argv[1] = before;
    });
    process.argv[1] = join(dir, 'child.mjs');
    writeFileSync(process.argv[1], code);
    const lines: unknown[] = [];
    let firstLine = (): void => undefined;
    const spoke = new Promise<void>((resolve) => (firstLine = resolve));
    const clock = new FakeClock();
    const onLine = (value: object): void => {
      lines.push(value);
      firstLine();
    };
    return { clock, lines, spoke, ended: inChild({ clock, work: { named: undefined }, limitMs: 1_000, onLine }) };
  };

  it('is abandoned at its limit, also if it ignores every signal', async (t) => {
    const stubborn = `process.on('SIGTERM', () => {}); console.log(JSON.stringify({ pid: process.pid })); for (;;);`;
    const { clock, lines, spoke, ended } = await started(t, stubborn);
    await spoke;
    clock.advance(1_000);
    assert.equal(await ended, 'late');
    assert.equal(typeof (lines[0] as { pid: unknown }).pid, 'number');
  });

  it('is ended once it has said everything, whatever it still waits for', async (t) => {
    const { lines, ended } = await started(
      t,
      `console.log('{"a":1}\\nnoise\\n{"end":true}'); setInterval(() => {}, 1000);`,
    );
    assert.equal(await ended, 'done');
    assert.deepEqual(lines, [{ a: 1 }]);
  });

  it('that breaks off is distinguished from one that is done', async (t) => {
    const { ended } = await started(t, `console.log('{"a":1}'); process.kill(process.pid, 'SIGSEGV');`);
    assert.equal(await ended, 'it ended (SIGSEGV)');
  });
});
