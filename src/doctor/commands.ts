/** `lineside doctor` and `lineside support-bundle`. Their child processes alone load the checks. */
import { spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { type Command, Option } from 'commander';
import type { LocalShell } from '../cli/cli.ts';
import { exitStatus, signalStatus } from '../cli/failure.ts';
import type { CliIo } from '../cli/io.ts';
import { checkLines, checkSummary } from '../cli/output/box-reports.ts';
import { type Colour, colourHelp, colourTimes, painted, wantsColour } from '../cli/output/colour.ts';
import type { Clock } from '../shared/base/clock.ts';
import { LinesideError, messageOf } from '../shared/base/errors.ts';
import { objectIn } from '../shared/base/json.ts';
import {
  type BundleReport,
  type BundleTarget,
  bundleLimitMs,
  checkTarget,
  describeBundle,
  targetOf,
} from './bundle/bundle-target.ts';
import { type Checked, type CheckName, failed, worst } from './check.ts';

const doctorHelp = `
Checks everything that the service needs. For each check it reports the result, and the remedy if the check failed.
Nothing is changed, no port is opened, and no secret is shown. Run as root it sees most.

Exit status: 0 nothing failed (warnings included), 1 something failed, 2 the command line is wrong.

Examples:
  sudo lineside doctor
  lineside doctor --json | jq '.checks[] | select(.state == "failed")'
`;

const bundleHelp = `
One file for the person who helps you: the doctor's findings, versions, states, figures, the last of the journal. Passwords, tokens
and keys are taken out of everything, and neither records nor a byte of the serial line are ever in it; manifest.json, its
first file, lists what is in it and what was left out. Look through it before you send it (tar xzf FILE).

Exit status: 0 it was written, 1 it was not (nothing is left behind), 2 the command line is wrong.

Examples:
  sudo lineside support-bundle
  sudo lineside support-bundle --output /media/stick/box7.tar.gz
`;

export function addDoctorCommands(program: Command, shell: LocalShell): void {
  // --version prints it and is commander's own; the number is behind this call without an argument.
  const version = program.version() ?? '';
  const config = 'configuration (default /etc/lineside/lineside.toml)';
  program
    .command('doctor')
    .description('check everything that the service needs, and say how to repair each fault')
    .option('--config <file>', config)
    .option('--json', 'print JSON for scripts')
    .addOption(new Option('--color <when>', colourHelp).choices(colourTimes))
    .addHelpText('after', doctorHelp)
    .action((options: DoctorOptions) => doctor(shell, version, options));
  program
    .command('support-bundle')
    .description('write what a helper needs into one file, without secrets and without data')
    .option('--config <file>', config)
    .option('--output <file>', 'where to (default: lineside-support-TIME.tar.gz in this directory)')
    .option('--force', 'replace a file that is there')
    .option('--json', 'print JSON for scripts: the file, its size, what is in it and what is not')
    .addHelpText('after', bundleHelp)
    .action((options: BundleOptions) => supportBundle(shell, options));
  program
    .command('doctor-work', { hidden: true })
    .argument('<work>')
    .action((work: string) => doWork(shell.io, version, JSON.parse(work) as Work));
}

interface Options {
  readonly config?: string;
  readonly json?: boolean;
}

interface DoctorOptions extends Options {
  readonly color?: (typeof colourTimes)[number];
}

/** The task of the child: the checks, or, with a target, a bundle. */
interface Work {
  readonly named: string | undefined;
  readonly target?: BundleTarget;
}

async function doWork(io: CliIo, version: string, { named, target }: Work): Promise<void> {
  // The child does not outlive its parent, even if a thread hangs.
  io.stdin.once('end', () => process.kill(process.pid, 'SIGKILL')).resume();
  const say = (value: unknown): void => void io.stdout.write(`${JSON.stringify(value)}\n`);
  const options = { named, env: io.env, clock: io.clock, version };
  if (target === undefined) {
    const { checks, runChecks } = await import('./run-checks.ts');
    const { readContext } = await import('./check-context.ts');
    say({ titles: checks.map(({ name, title }) => ({ name, title })) });
    await runChecks(await readContext(options), say);
  } else {
    const { collectBundle } = await import('./bundle/support-bundle.ts');
    try {
      say({ report: await collectBundle({ ...options, target }) });
    } catch (error) {
      say({ error: messageOf(error), hint: error instanceof LinesideError ? error.hint : '' });
    }
  }
  say({ end: true });
}

const stateColours: Readonly<Record<string, Colour>> = { ok: 'green', warning: 'yellow', failed: 'red' };

function paintedState(word: string): string {
  const colour = stateColours[word];
  return colour === undefined ? word : painted(colour, word);
}

/** For all checks together. */
const doctorLimitMs = 50_000;

async function doctor(shell: LocalShell, version: string, options: DoctorOptions): Promise<void> {
  const { config: named, json = false, color } = options;
  const { io } = shell;
  const colour = wantsColour(io.stdout, io.env, color);
  let titles: readonly CheckName[] = [];
  const done: Checked[] = [];
  const width = (): number => Math.max(...titles.map(({ title }) => title.length)) + 2;
  const show = (checked: Checked): void => {
    done.push(checked);
    const lines = checkLines(checked, width());
    if (!json) io.stdout.write(colour ? lines.replace(/^\w+/gm, paintedState) : lines);
  };
  const onLine = (value: object): void => {
    if ('titles' in value) titles = value.titles as readonly CheckName[];
    else show(value as Checked);
  };
  const how = await inChild({ clock: io.clock, work: { named }, limitMs: doctorLimitMs, onLine });
  if (titles.length === 0) titles = [{ name: 'doctor', title: 'doctor' }];
  const why = how === 'late' ? `this did not end within ${doctorLimitMs / 1000} s` : how;
  for (const one of titles.filter(({ name }) => how !== 'done' && !done.some((known) => known.name === name))) {
    const finding = failed(
      why,
      'Something it asks hangs or breaks off (a disk, a mount of the network), or the processor is overloaded.',
    );
    show({ ...one, state: 'failed', findings: [finding], tookMs: doctorLimitMs });
  }
  const state = worst(done);
  io.stdout.write(json ? `${JSON.stringify({ version, state, checks: done }, null, 2)}\n` : checkSummary(done));
  shell.setStatus(state === 'failed' ? exitStatus.refused : exitStatus.ok);
}

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

interface BundleOptions extends Options {
  readonly output?: string;
  readonly force?: boolean;
}

async function supportBundle(shell: LocalShell, options: BundleOptions): Promise<void> {
  const { io } = shell;
  const { config: named, output, force = false, json = false } = options;
  const target = targetOf(output, force, io.clock.wallMs());
  checkTarget(target);
  let report: BundleReport | undefined;
  let trouble = { error: '', hint: '' };
  io.stderr.write('collecting, up to two minutes ...\n');
  const stop = new AbortController();
  const unhook = signals.map((signal) => io.onSignal(signal, () => stop.abort(signal)));
  const how = await inChild({
    clock: io.clock,
    work: { named, target },
    limitMs: bundleLimitMs,
    stop: stop.signal,
    onLine: (value) => {
      if ('report' in value) report = value.report as BundleReport;
      if ('error' in value) trouble = value as typeof trouble;
    },
  });
  for (const off of unhook) off();
  if (report === undefined) rmSync(target.temporary, { force: true });
  if (stop.signal.aborted) return shell.setStatus(signalStatus(String(stop.signal.reason)));
  if (report === undefined) {
    const why = how === 'late' ? `it did not end within ${bundleLimitMs / 1000} s` : how;
    throw new LinesideError('STORAGE_FAILED', `no support bundle was written: ${trouble.error || why}`, {
      hint: trouble.hint,
    });
  }
  io.stdout.write(json ? `${JSON.stringify(report)}\n` : describeBundle(report));
}

// The work in a child process: a hang in the kernel (a dead network mount, a disk) blocks the child alone, and the command
// ends at its limit. The child writes its findings as lines of JSON, the last of them {"end":true}.

/** A name look-up or file read that hangs takes a thread each. */
const threads = '24';

interface ChildOptions {
  readonly clock: Clock;
  readonly work: Work;
  readonly limitMs: number;
  readonly onLine: (value: object) => void;
  readonly stop?: AbortSignal;
}

/** 'done', 'late', or why the child failed. Never rejects. The child was killed then, unless it hangs in the kernel. */
export function inChild({ clock, work, limitMs, onLine, stop }: ChildOptions): Promise<string> {
  return new Promise((resolve) => {
    const program = process.argv[1] ?? '';
    const child = spawn(process.execPath, [...process.execArgv, program, 'doctor-work', JSON.stringify(work)], {
      // Standard input ends with this process in any case, and the child with it.
      stdio: ['pipe', 'pipe', 'ignore'],
      env: { ...process.env, UV_THREADPOOL_SIZE: threads },
    });
    const lines = createInterface({ input: child.stdout });
    const give = (how: string): void => {
      limit.cancel();
      child.kill('SIGKILL');
      lines.close();
      child.stdout.destroy();
      child.stdin.destroy();
      child.unref();
      resolve(how);
    };
    const limit = clock.timer(limitMs, () => give('late'));
    child.stdin.on('error', () => undefined);
    stop?.addEventListener('abort', () => give('stopped'), { once: true });
    lines.on('line', (line) => {
      const value = objectIn(line);
      if (value !== undefined && 'end' in value) give('done');
      else if (value !== undefined) onLine(value);
    });
    child.once('error', () => give('it could not be started'));
    child.once('close', (status, signal) => give(`it ended (${signal ?? `status ${status ?? ''}`})`));
  });
}
