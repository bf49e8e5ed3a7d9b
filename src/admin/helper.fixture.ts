/** The helper with programs that note how they were called, and its callers. */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { addToken } from '../shared/auth/token-file.ts';
import { systemClock } from '../shared/base/clock.ts';
import { recordingLogger } from '../shared/base/logger.fixture.ts';
import { temporaryDirectory } from '../shared/base/temporary.fixture.ts';
import { until } from '../shared/base/wait.fixture.ts';
import { type AdminOptions, AdminService } from './admin-service.ts';
import { READY_LINE } from './verbs.ts';

export type Json = Readonly<Record<string, unknown>>;

/**
 * Waits while there is a file "wait"; says what the file "says" holds; fails with what "fails" holds. With a file "ends", units end at
 * once; with "inactive", none is active.
 */
const PROGRAM = (dir: string) => `#!/bin/sh
case "$*" in *' is-active '*) [ ! -e '${dir}/inactive' ]; exit;; esac
echo $$ >'${dir}/pid'
words=$(printf '%s\\037' "$@")
cat >'${dir}/input'
echo "$words" >>'${dir}/calls'
while [ -e '${dir}/wait' ]; do sleep 0.01; done
for last; do :; done
[ ! -e '${dir}/link' ] || ln -s '${dir}/link' "$last"
while [ -e '${dir}/fills' ]; do echo more >>"$last"; done
[ ! -e '${dir}/file' ] || cp '${dir}/file' "$last"
[ ! -e '${dir}/ends' ] || rm -f '${dir}'/state/*.bundle '${dir}'/state/*.backup
cat '${dir}/says' 2>/dev/null || echo '[]'
[ ! -e '${dir}/fails' ] || { cat '${dir}/fails' >&2; exit 1; }
`;

export async function startHelper(t: TestContext, options: Partial<AdminOptions> = {}) {
  const dir = temporaryDirectory(t);
  const at = (name: string): string => join(dir, name);
  // Of a helper that was killed.
  mkdirSync(at('state/files/.file.new'), { recursive: true });
  const tokensFile = at('tokens.json');
  const token = (name: string, ...of: string[]) => addToken(tokensFile, name, of, new Date(0));
  const admin = token('chief', 'admin');
  writeFileSync(at('program'), PROGRAM(dir), { mode: 0o755 });
  const { logger, lines } = recordingLogger();
  const service = new AdminService({
    programs: { lineside: [at('program'), 'lineside'], systemctl: [at('program'), 'systemctl'] },
    configFile: undefined,
    tokensFile,
    group: 0,
    stateDir: at('state'),
    boxName: () => 'press-04',
    env: process.env,
    clock: systemClock,
    logger,
    ...options,
  });
  const path = at('admin.sock');
  const ended = service.serve({ path });
  t.after(async () => {
    rmSync(at('wait'), { force: true });
    service.stop();
    await ended;
  });
  await until('the socket', () => existsSync(path));
  const calls = (): string[][] =>
    existsSync(at('calls'))
      ? readFileSync(at('calls'), 'utf8')
          .trimEnd()
          .split('\n')
          .map((line) => line.split('\x1f').slice(0, -1))
      : [];
  const audit = (): Json[] =>
    readFileSync(at('state/audit.jsonl'), 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Json);
  const ask = (verb: string, args: unknown = {}, by: unknown = admin): Promise<Json> =>
    exchange(path, `${JSON.stringify({ verb, token: by, args })}\n`).then(({ answer }) => answer);
  const upload = (verb: string, content: Buffer, args: unknown = { bytes: content.length }): Promise<Json> =>
    uploaded(path, `${JSON.stringify({ verb, token: admin, args })}\n`, content);
  return { dir, at, path, tokensFile, token, admin, calls, audit, ask, upload, lines, ended };
}

/** Sends the content once the helper is ready for it; its last line. */
async function uploaded(path: string, request: string, content: Buffer): Promise<Json> {
  const socket = begin(path, request);
  let text = '';
  for await (const piece of socket) {
    if (text === '' && String(piece) === READY_LINE) socket.write(content);
    text += String(piece);
  }
  return JSON.parse(text.replace(READY_LINE, '')) as Json;
}

/** Sends what it is given, and answers the first line and what follows it. */
export function exchange(path: string, request: string | Buffer): Promise<{ answer: Json; rest: Buffer }> {
  return answered(begin(path, request));
}

export function begin(path: string, request: string | Buffer): Socket {
  const socket = connect(path);
  socket.on('error', () => undefined);
  socket.write(request);
  return socket;
}

export async function answered(socket: Socket): Promise<{ answer: Json; rest: Buffer }> {
  const pieces: Buffer[] = [];
  for await (const piece of socket) pieces.push(piece as Buffer);
  const all = Buffer.concat(pieces);
  const end = all.indexOf('\n');
  return { answer: JSON.parse(all.toString('utf8', 0, end)) as Json, rest: all.subarray(end + 1) };
}

export function codeOf({ error }: Json): string {
  return (error as { code?: string } | undefined)?.code ?? '';
}
