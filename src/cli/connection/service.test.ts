import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { chmod } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:net';
import { PassThrough } from 'node:stream';
import { afterEach, describe, it } from 'node:test';
import { LinesideError } from '../../shared/base/errors.ts';
import { runCli } from '../cli.ts';
import { cleanEnv, type Outcome, run, testFiles } from '../drive.fixture.ts';
import { processIo } from '../io.ts';
import { FakeService } from '../line/fake-service.fixture.ts';

const { dir, at, file } = testFiles();
let service = new FakeService();
afterEach(() => service.stop());

function fails(outcome: Outcome, status: number, text: RegExp): void {
  assert.equal(outcome.status, status, outcome.stderr);
  assert.match(outcome.stderr, /^lineside: .+: .+\. .+\n$/);
  assert.match(outcome.stderr, text);
}

describe('on the box', () => {
  it('names what is wrong with the socket', async () => {
    fails(
      await run(['status'], { socket: at('none.sock') }),
      3,
      /there is no such socket\. .*systemctl status lineside/,
    );
    const hub = createHttpServer((_, response) => response.end('{}')).listen(at('http.sock'));
    fails(await run(['status'], { socket: at('http.sock') }), 3, /it answers, but not in gRPC\. Check --socket/);
    hub.close();
    fails(await run(['status', '--socket', file('stale.sock', '')]), 3, /refused|running/);
    const json = await run(['status', '--json', '--socket', at('none.sock')]);
    const parsed = JSON.parse(json.stderr) as { error: { code: string; exitStatus: number } };
    assert.deepEqual([parsed.error.code, parsed.error.exitStatus], ['ENOENT', 3]);
  });

  it('says so when the socket is not for this user', async () => {
    if (process.getuid?.() !== 0) return;
    const server = createServer().listen(at('locked.sock'));
    await chmod(at('locked.sock'), 0o600);
    await chmod(dir, 0o711);
    const script = `const {unreachable}=await import(${JSON.stringify(new URL('./diagnose.ts', import.meta.url).href)});
      const {lineFace}=await import(${JSON.stringify(new URL('./endpoint.ts', import.meta.url).href)});
      process.setuid(65534);
      const failure=await unreachable({endpoint:{kind:'unix',path:${JSON.stringify(at('locked.sock'))}},face:lineFace},'');
      console.log(failure.code,failure.message);`;
    const text = execFileSync(process.execPath, ['--input-type=module', '-e', script], {
      encoding: 'utf8',
    });
    server.close();
    assert.equal(text, 'EACCES permission denied on the socket\n');
  });

  it('takes the socket from the configuration, and refuses a bad one as a usage error', async () => {
    service = new FakeService();
    await service.listen(`unix:${at('own.sock')}`);
    const asked: (string | undefined)[] = [];
    const io = { ...processIo(), env: {} };
    const parts = {
      version: '1.2.3',
      localSocket: (_section: string, file: string | undefined): string => {
        asked.push(file);
        if (file === 'bad.toml') throw new LinesideError('CONFIG_INVALID', 'grpc.listen: bad', { hint: 'Correct it.' });
        return at('own.sock');
      },
    };
    const quiet = { ...io, stdout: devNull(), stderr: devNull() };
    assert.equal(await runCli(['settings'], quiet, parts), 0);
    assert.equal(await runCli(['settings', '--config', 'good.toml'], quiet, parts), 0);
    assert.equal(await runCli(['settings', '--config', 'bad.toml'], quiet, parts), 2);
    assert.deepEqual(asked, [undefined, 'good.toml', 'bad.toml']);
  });
});

function devNull() {
  const stream = new PassThrough();
  stream.resume();
  return stream;
}

describe('the output', () => {
  it('ends quietly when the reader of its output has gone', async () => {
    service = new FakeService();
    await service.listen(`unix:${at('pipe.sock')}`);
    for (let n = 0; n < 2000; n += 1) service.log(1, Buffer.alloc(100, n));
    const script = `const {runCli}=await import(${JSON.stringify(new URL('../cli.ts', import.meta.url).href)});
      const {processIo}=await import(${JSON.stringify(new URL('../io.ts', import.meta.url).href)});
      process.exitCode=await runCli(process.argv.slice(1),processIo(),{version:'0',localSocket:()=>${JSON.stringify(at('pipe.sock'))}});`;
    const command =
      'node="$1"; shift; { "$node" --input-type=module -e "$SCRIPT" -- log --from-start; echo "status $?" >&2; } | head -n 1';
    const env = cleanEnv({ SCRIPT: script });
    const result = await new Promise<{ stdout: string; stderr: string }>((resolve, reject) =>
      execFile('sh', ['-c', command, 'sh', process.execPath], { env }, (error, stdout, stderr) =>
        error ? reject(error) : resolve({ stdout, stderr }),
      ),
    );
    assert.match(result.stdout, /^\S+ \S+ RX /);
    assert.equal(result.stderr, 'status 0\n');
  });
});
