/**
 * box: administration of a box over the network, with a token of the role admin: what root's own commands do there. An upload is checked
 * by the box before anything is changed; what takes minutes goes on if this command ends.
 */
import { pause } from '../../shared/base/clock.ts';
import { instantOfMs } from '../../shared/base/instant.ts';
import { type Given, option } from '../command.ts';
import { Fields } from '../connection/answers.ts';
import { apiPath, type Hub } from '../connection/hub-client.ts';
import { tooSlow } from '../connection/service.ts';
import { CliFailure, exitStatus, usageFailure } from '../failure.ts';
import { wholeText } from '../input.ts';
import { changeLines, checkLines, checkSummary, slotLines } from '../output/box-reports.ts';
import { safeText } from '../output/hex.ts';
import type { JsonObject } from '../output/json.ts';
import { byteSize } from '../output/numbers.ts';
import { table } from '../output/table.ts';
import { refuseExisting, writeWhole } from '../output/whole-file.ts';
import type { Args, Call } from '../shell.ts';
import { hubCommands, several, type Target, timeText } from './hub-command.ts';
import { sendFile } from './upload.ts';

/** The helper of a Raspberry Pi starts a program, and may have another request before. */
const USUAL_S = 60;
/** Without a sign: a backup is made whole first, and a large log takes minutes on a slow card. */
const SILENT_S = 900;
const WORK_EVERY_MS = 1_000;
/** Each request starts a program on the box. */
const TRIAL_EVERY_MS = 10_000;
/** Three tries, and the start of the slot of before. */
const TRIAL_LIMIT_MS = 1_800_000;
/** The unit of an install ends after it has said that it is done; until then the box refuses to restart. */
const UNIT_END_MS = 30_000;
const MAX_TEXT_BYTES = 64 * 1_024;

const force = option('--force', 'replace the file if it exists');
const bundleOptions = [
  option('-o, --output <file>', 'where to (default: lineside-support-BOX-TIME.tar.gz here)'),
  force,
] as const;
const backupOptions = [option('--no-log', 'without the serial log'), force] as const;
const installOptions = [
  option('--restart', 'restart the box with the update, and wait until the box keeps it or returns to the other slot'),
] as const;
const restoreOptions = [
  option('--confirm <name>', 'the name of the box: what it has now is replaced', { required: true }),
] as const;
const changeOptions = [
  option('--dry-run', 'check, and print the effect; change nothing'),
  option('--if-hash <hash>', 'only if the file still has this hash (box config show --json)'),
] as const;
const undoOptions = [changeOptions[1]] as const;

export const administrationCommands = hubCommands([
  {
    command: 'box',
    help: 'administration over the network, with a token of the role admin: updates, backups, tokens, configuration',
    examples: [
      'lineside box doctor --profile press-04',
      'lineside --profile press-04 update install lineside-1.3.0.update',
    ],
    notes: `With --profile or --host, the word "box" may be left out: lineside --profile press-04 update install FILE.
The private keys and the tokens of a box leave it on no network, and are not replaced over one.`,
  },
  { command: 'box token', help: 'bearer tokens of the box', examples: ['lineside box token list --profile press-04'] },
  {
    command: 'box token add',
    help: 'add a token and print it once; the box keeps only its hash',
    arguments: [{ name: '<name>', help: 'name of the token: who uses it', field: 'name' }],
    options: [
      option('--role <role>', 'what it may do, such as operator or reader; repeatable', {
        parse: several((text) => text),
        field: 'roles',
        required: true,
      }),
    ],
    examples: ['lineside box token add ops --role operator --role reader --profile press-04'],
    what: 'add the token <name>',
    timeoutSeconds: USUAL_S,
    request: 'POST admin/tokens',
    item: 'the token',
    done: (item) =>
      `${safeText(item.text('name'))} (${item.texts('roles').map(safeText).join(', ')}) may use this token. It is shown this once:\n${safeText(item.text('token'))}`,
  },
  {
    command: 'box token list',
    help: 'names, roles and ages; no secrets are kept',
    examples: ['lineside box token list --profile press-04'],
    what: 'list the tokens',
    timeoutSeconds: USUAL_S,
    request: 'GET admin/tokens',
    answer: listTokens,
  },
  {
    command: 'box token revoke',
    help: 'end a token at once; never the last one with the role admin',
    arguments: [{ name: '<name>', help: 'name of the token' }],
    examples: ['lineside box token revoke ops --profile press-04'],
    what: 'revoke the token <name>',
    timeoutSeconds: USUAL_S,
    request: 'DELETE admin/tokens/<name>',
    done: '<name> is revoked',
  },
  {
    command: 'box config',
    help: 'the configuration file of the box',
    examples: ['lineside box config show --profile press-04'],
  },
  {
    command: 'box config show',
    help: 'print the configuration file; what may be a secret is replaced by <hidden N>',
    examples: ['lineside box config show --profile press-04 > press-04.toml'],
    what: 'read the configuration',
    timeoutSeconds: USUAL_S,
    request: 'GET admin/configuration',
    answer: showConfiguration,
  },
  {
    command: 'box config change',
    help: 'check a new text, put it in place of the configuration file, and reload the service',
    arguments: [{ name: '<file>', help: 'the new text; - for standard input' }],
    options: changeOptions,
    examples: [
      'lineside box config show --profile press-04 > press-04.toml',
      'lineside box config change press-04.toml --profile press-04',
    ],
    what: 'change the configuration',
    timeoutSeconds: USUAL_S,
    answer: changeConfiguration,
  },
  {
    command: 'box config undo',
    help: 'put the configuration file of before the last change back, and reload the service',
    options: undoOptions,
    examples: ['lineside box config undo --profile press-04'],
    what: 'put the configuration back',
    timeoutSeconds: USUAL_S,
    answer: undoConfiguration,
  },
  {
    command: 'box update',
    help: 'the whole system of the card, in two slots with a way back',
    examples: ['lineside box update status --profile press-04'],
  },
  {
    command: 'box update status',
    help: 'which slot runs, which is good, and whether one is on trial',
    examples: ['lineside box update status --profile press-04'],
    what: 'read the state of the update',
    timeoutSeconds: USUAL_S,
    request: 'GET admin/update',
    answer: async (call, [, path]) => {
      const state = await (await call.hub()).get(path);
      return call.print(state, slotText(new Fields(state, 'the state')));
    },
  },
  {
    command: 'box update install',
    help: 'upload a signed bundle, have it verified, and install it into the slot that does not run',
    arguments: [{ name: '<file>', help: 'the signed bundle' }],
    options: installOptions,
    examples: ['lineside box update install lineside-1.3.0.update --restart --profile press-04'],
    what: 'install <file>',
    timeoutSeconds: SILENT_S,
    answer: installUpdate,
  },
  {
    command: 'box update try',
    help: 'restart the box with the update that waits in the other slot, and wait until the box keeps it',
    examples: ['lineside box update try --profile press-04'],
    what: 'try the update',
    // The helper has a minute for it, and half a minute for a request before.
    timeoutSeconds: 2 * USUAL_S,
    answer: async (call) => tryUpdate(call, await call.hub()),
  },
  {
    command: 'box backup',
    help: 'make a backup, without private keys and secrets, and write it to a file here',
    arguments: [{ name: '<file>', help: 'where to; it appears when it is complete' }],
    options: backupOptions,
    examples: ['lineside box backup press-04.backup --profile press-04'],
    what: 'write the backup to <file>',
    timeoutSeconds: SILENT_S,
    answer: (call: Call<Given<typeof backupOptions>>, _, __, { file = '' }) =>
      saveFile(call, `${apiPath('admin', 'backup')}${call.options.log === false ? '?log=false' : ''}`, file),
  },
  {
    command: 'box restore',
    help: 'upload a backup and put it in the place of what the box has; its tokens, keys and secrets stay',
    arguments: [{ name: '<file>', help: 'the backup' }],
    options: restoreOptions,
    examples: ['lineside box restore press-04.backup --confirm press-04 --profile press-04'],
    what: 'restore <file>',
    timeoutSeconds: SILENT_S,
    answer: restoreBackup,
  },
  {
    command: 'box doctor',
    help: 'check everything that the service needs; status 1 if something failed',
    examples: ['lineside box doctor --profile press-04'],
    what: 'have the box checked',
    timeoutSeconds: 2 * USUAL_S,
    request: 'GET admin/doctor',
    answer: runDoctor,
  },
  {
    command: 'box support-bundle',
    help: 'collect what support needs, without secrets and without data, into a file here',
    options: bundleOptions,
    examples: ['lineside box support-bundle --profile press-04'],
    what: 'write the support bundle',
    timeoutSeconds: SILENT_S,
    answer: (call: Call<Given<typeof bundleOptions>>) =>
      saveFile(call, apiPath('admin', 'support-bundle'), bundleName(call)),
  },
  {
    command: 'box restart',
    help: 'restart the service: the port is closed for some seconds',
    examples: ['lineside box restart --profile press-04'],
    what: 'restart the service',
    timeoutSeconds: USUAL_S,
    request: 'POST admin/restart',
    done: 'the service restarts now',
  },
]);

/** They come in one answer. */
async function listTokens(call: Call<object>, [, path]: Target): Promise<number> {
  const tokens = new Fields(await (await call.hub()).get(path), 'the list').objects('items');
  const rows = tokens.map((raw) => {
    const token = new Fields(raw, 'the token');
    const shown = [token.text('name'), token.texts('roles').join(',')].map(safeText);
    return [...shown, timeText(token.text('createdAt'))];
  });
  return call.print(tokens, table(['NAME', 'ROLES', 'CREATED'], rows, call.out.width));
}

// Configuration.

async function showConfiguration(call: Call<object>, [, path]: Target): Promise<number> {
  const shown = await (await call.hub()).get(path);
  return call.print(shown, new Fields(shown, 'the configuration').text('text'));
}

async function changeConfiguration(
  call: Call<Given<typeof changeOptions>>,
  _: Target,
  __: JsonObject,
  { file = '' }: Args,
): Promise<number> {
  const { dryRun = false, ifHash } = call.options;
  const refuse = (why: string): CliFailure => new CliFailure('refused', 'TOO_LARGE', `${safeText(file)}: ${why}`);
  const text = await wholeText(call, file, MAX_TEXT_BYTES, `${MAX_TEXT_BYTES} bytes`, refuse);
  const hub = await call.hub();
  const body = { hash: ifHash ?? (await currentHash(hub)), text };
  const answer = dryRun
    ? await hub.write('POST', apiPath('admin', 'configuration', 'check'), body, {})
    : await hub.write('PUT', apiPath('admin', 'configuration'), body, {});
  return printChange(call, answer, dryRun);
}

async function undoConfiguration(call: Call<Given<typeof undoOptions>>): Promise<number> {
  const hub = await call.hub();
  const hash = call.options.ifHash ?? (await currentHash(hub));
  return printChange(call, await hub.write('POST', apiPath('admin', 'configuration', 'undo'), { hash }, {}), false);
}

async function currentHash(hub: Hub): Promise<string> {
  return new Fields(await hub.get(apiPath('admin', 'configuration')), 'the configuration').text('hash');
}

async function printChange(call: Call<object>, answer: JsonObject, isDry: boolean): Promise<number> {
  const change = new Fields(answer, 'the change');
  const faults = change.objects('faults').map((raw) => {
    const fault = new Fields(raw, 'the fault');
    return {
      path: fault.text('path'),
      line: raw['line'] == null ? undefined : fault.number('line'),
      message: fault.text('message'),
    };
  });
  if (!call.json)
    for (const warning of change.texts('warnings')) await call.err.write(`lineside: warning: ${safeText(warning)}\n`);
  const shown = {
    file: change.text('file'),
    isChanged: change.truth('isChanged'),
    faults,
    live: change.texts('live'),
    hub: change.texts('hub'),
    restart: change.texts('restart'),
    unused: change.texts('unused'),
  };
  const lines = changeLines(shown, isDry, change.truth('isReloaded')).map(safeText);
  await call.print(answer, lines.join('\n'));
  return faults.length === 0 ? exitStatus.ok : exitStatus.usage;
}

// Updates and restores.

async function installUpdate(
  call: Call<Given<typeof installOptions>>,
  _: Target,
  __: JsonObject,
  { file = '' }: Args,
): Promise<number> {
  const hub = await call.hub();
  const bundle = new Fields(await uploaded(call, apiPath('admin', 'update', 'bundle'), file), 'the bundle');
  const [version, slot] = [safeText(bundle.text('version')), safeText(bundle.text('slot'))];
  await report(call, `lineside ${version} of ${timeText(bundle.text('builtAt'))} goes into slot ${slot}`);
  await work(call, hub, 'update', () =>
    hub.write('POST', apiPath('admin', 'update', 'install'), { sha256: bundle.text('sha256') }, {}),
  );
  if (call.options.restart === true) return tryUpdate(call, hub);
  return call.print(
    { version, slot, kept: false },
    `lineside ${version} is in slot ${slot} and is tried at the next start: lineside box update try`,
  );
}

async function restoreBackup(
  call: Call<Given<typeof restoreOptions>>,
  _: Target,
  __: JsonObject,
  { file = '' }: Args,
): Promise<number> {
  const hub = await call.hub();
  const found = new Fields(await uploaded(call, apiPath('admin', 'restore', 'backup'), file), 'the backup');
  await report(
    call,
    `the backup is of ${safeText(found.text('deviceId'))}, made at ${timeText(found.text('createdAt'))}`,
  );
  const body = { sha256: found.text('sha256'), confirm: call.options.confirm };
  const deviceId = await work(call, hub, 'restore', () => hub.write('POST', apiPath('admin', 'restore'), body, {}));
  return call.print({ deviceId, createdAt: found.text('createdAt') }, `the box is ${safeText(deviceId)} again`);
}

function uploaded(call: Call<object>, path: string, file: string): Promise<JsonObject> {
  if (file === '-') throw usageFailure('an upload is a file', 'Its size is needed before its first byte.');
  const undone = 'Nothing was changed on the box.';
  const headers = { 'content-type': 'application/octet-stream' };
  return sendFile(call, { method: 'PUT', path, headers, file, what: 'upload', undone, inDoubt: undone });
}

/** Begins the work of a unit of the box, and waits for its outcome, for which the service may have to start again. */
async function work(
  call: Call<object>,
  hub: Hub,
  name: 'update' | 'restore',
  begin: () => Promise<unknown>,
): Promise<string> {
  const read = async (): Promise<Fields | undefined> =>
    new Fields(await hub.get(apiPath('admin', 'work')), 'the work').objectOr(name, undefined);
  const before = (await read())?.text('begunAt');
  await begin();
  let step = '';
  const ended = await untilKnown(call, call.timeoutMs, WORK_EVERY_MS, async (goesOn) => {
    const now = await read();
    // The state of the work before, until the unit has written its own.
    if (now === undefined || now.text('begunAt') === before) return undefined;
    const at = `${now.text('step')}: ${now.number('percent')} %`;
    if (now.text('state') !== 'running') return now;
    if (at !== step) goesOn();
    if (at !== step && now.text('step') !== '') await report(call, safeText(at));
    step = at;
    return undefined;
  });
  if (ended.text('state') === 'done') return ended.text('result');
  const why = ended.text('error') || 'it ended without an outcome';
  throw new CliFailure('refused', 'FAILED', safeText(why), { next: safeText(ended.text('hint')) });
}

/** Restarts the box, and waits until it keeps the update. */
async function tryUpdate(call: Call<object>, hub: Hub): Promise<number> {
  const path = apiPath('admin', 'update');
  const slot = new Fields(await hub.get(path), 'the state').textOr('trying', undefined);
  await begunTrial(call, hub, slot === undefined ? 0 : UNIT_END_MS);
  await report(call, 'the box restarts with the update');
  const state = await untilKnown(call, TRIAL_LIMIT_MS, TRIAL_EVERY_MS, async () => {
    const now = new Fields(await hub.get(path), 'the state');
    const isKept = now.text('good') === slot && now.text('running') === slot && !now.truth('onTrial');
    return isKept || now.textOr('failed', undefined) === slot ? now : undefined;
  });
  const version = safeText(state.text('version'));
  if (state.text('good') === slot)
    return call.print({ version, slot, kept: true }, `the box keeps lineside ${version} in slot ${slot}`);
  const why = `the update in slot ${slot} did not become healthy: the box returned to slot ${safeText(state.text('good'))}`;
  throw new CliFailure('refused', 'ROLLED_BACK', why, { next: 'Look into a support bundle of the box.' });
}

async function begunTrial(call: Call<object>, hub: Hub, limitMs: number): Promise<void> {
  const { clock } = call.io;
  for (const untilMs = clock.monoMs() + limitMs; ; ) {
    try {
      await hub.write('POST', apiPath('admin', 'update', 'try'), {}, {});
      return;
    } catch (error) {
      const isEarly = error instanceof CliFailure && error.code === 'CONFLICT';
      if (!isEarly || clock.monoMs() >= untilMs) throw error;
    }
    await pause(clock, WORK_EVERY_MS, call.stop);
    call.stop.throwIfAborted();
  }
}

/** Asks until there is an answer, for `limitMs` after each sign that the work goes on. A box that restarts cannot be reached for a while, and refuses what it is not ready for. */
async function untilKnown<T>(
  call: Call<object>,
  limitMs: number,
  everyMs: number,
  ask: (goesOn: () => void) => Promise<T | undefined>,
): Promise<T> {
  const { clock } = call.io;
  let untilMs = clock.monoMs() + limitMs;
  const goesOn = (): void => {
    untilMs = clock.monoMs() + limitMs;
  };
  for (;;) {
    try {
      const known = await ask(goesOn);
      if (known !== undefined) return known;
      if (clock.monoMs() >= untilMs) throw tooSlow(limitMs);
    } catch (error) {
      const isPassing = error instanceof CliFailure && (error.outcome === 'unreachable' || error.outcome === 'refused');
      if (!isPassing || clock.monoMs() >= untilMs) throw error;
    }
    await pause(clock, everyMs, call.stop);
    call.stop.throwIfAborted();
  }
}

async function report(call: Call<object>, line: string): Promise<void> {
  if (!call.json) await call.err.write(`${line}\n`);
}

function slotText(state: Fields): string {
  const text = (name: string): string => safeText(state.text(name));
  const orNull = (name: string): string | null => (state.textOr(name, undefined) === undefined ? null : text(name));
  const lines = slotLines({
    version: text('version'),
    running: text('running'),
    good: text('good'),
    onTrial: state.truth('onTrial'),
    trying: orNull('trying'),
    failed: orNull('failed'),
    triesLeft: state.number('triesLeft'),
  });
  return lines.join('\n');
}

// Checks, and files of the box.

async function runDoctor(call: Call<object>, [, path]: Target): Promise<number> {
  const answer = await (await call.hub()).get(path);
  const checks = new Fields(answer, 'the report').objects('checks').map((raw) => {
    const check = new Fields(raw, 'the check');
    const findings = check.objects('findings').map((one) => {
      const finding = new Fields(one, 'the finding');
      return { state: finding.text('state'), found: finding.text('found'), todo: finding.text('todo') };
    });
    return { title: check.text('title'), state: check.text('state'), findings };
  });
  const width = Math.max(0, ...checks.map(({ title }) => title.length)) + 2;
  await call.print(answer, checks.map((one) => checkLines(one, width)).join('') + checkSummary(checks));
  return checks.some(({ state }) => state === 'failed') ? exitStatus.refused : exitStatus.ok;
}

function bundleName(call: Call<Given<typeof bundleOptions>>): string {
  const { output, profile, host } = call.options;
  if (output !== undefined) return output;
  const time = instantOfMs(call.io.clock.wallMs()).slice(0, 19).replaceAll(/[-:]/g, '').replace('T', '-');
  const box = (profile ?? host ?? 'box').replaceAll(/[^\w.-]/g, '-');
  return `lineside-support-${box}-${time}Z.tar.gz`;
}

/** Writes an answer to a file. --timeout is how long the box may give no sign. */
async function saveFile(call: Call<{ force?: true }>, path: string, file: string): Promise<number> {
  if (call.options.force !== true) await refuseExisting(file);
  const { io, timeoutMs } = call;
  const silent = new AbortController();
  const watch = () => io.clock.timer(timeoutMs, () => silent.abort(tooSlow(timeoutMs)));
  let timer = watch();
  let bytes = 0;
  try {
    const hub = await call.hub();
    await hub.download(path, silent.signal, (pieces) => writeWhole(file, counted(pieces)));
  } finally {
    timer.cancel();
  }
  return call.print({ file, bytes }, `${safeText(file)}: ${byteSize(bytes)}`);

  async function* counted(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const piece of pieces) {
      timer.cancel();
      timer = watch();
      bytes += piece.length;
      yield piece;
    }
  }
}
