/** fleet run: one command over many boxes, by their profiles. */
import { readFileSync } from 'node:fs';
import { Readable, Writable } from 'node:stream';
import { systemCode } from '../../shared/base/errors.ts';
import { replaceSynced } from '../../shared/base/files.ts';
import { instantOfMs } from '../../shared/base/instant.ts';
import { objectIn } from '../../shared/base/json.ts';
import { type Entry, type Given, option } from '../command.ts';
import { CliFailure, exitStatus, usageFailure } from '../failure.ts';
import { fileFailure } from '../input.ts';
import type { CliIo, StopSignal } from '../io.ts';
import { safeLines, safeText } from '../output/hex.ts';
import { counted, spanText, wholeNumber } from '../output/numbers.ts';
import { cut } from '../output/table.ts';
import type { Call } from '../shell.ts';
import { boxOptions, chosenBoxes } from './boxes.ts';
import { runFleet } from './fleet-run.ts';
import { targetsCommand } from './targets.ts';

/** Runs one command line as if it were given alone. */
export type RunLine = (argv: readonly string[], io: CliIo) => Promise<number>;

/** The commands of a box but `restore`, which replaces what makes a box this one; and what only reads. */
const allowed = [
  'backup',
  'config',
  'doctor',
  'restart',
  'support-bundle',
  'token',
  'update',
  'status',
  'alerts',
  'outbox',
];
/** A name of a box in the command's words. */
const boxMark = '{box}';
/** Of what a command writes, the end is kept. */
const maxOutputChars = 64 * 1_024;
const maxErrorChars = 4 * 1_024;
const maxBoxes = 10_000;

const number = wholeNumber(1, maxBoxes);
const options = [
  ...boxOptions,
  option('--canaries <n>', 'so many boxes first; if one of them fails, no other is begun (default: 1)', {
    parse: wholeNumber(0, maxBoxes),
  }),
  option('--wave <n>', 'boxes of a wave, which begins when the wave before has ended (default: all)', {
    parse: number,
  }),
  option('--parallel <n>', 'boxes at the same time (default: 8)', { parse: wholeNumber(1, 64) }),
  option('--stop-after <n>', 'after so many failures no further box is begun (default: 1)', { parse: number }),
  option('--report <file>', 'write what became of each box, as JSON, whenever one has ended'),
  option('--resume', 'leave out the boxes that are done in the report, which has to be of the same command'),
] as const;
type FleetOptions = Given<typeof options>;

export function fleetCommands(run: RunLine): readonly Entry[] {
  return [
    {
      command: 'fleet',
      help: 'many boxes by their profiles: one command over all, scrape configurations for Prometheus',
      examples: ['lineside fleet run --all -- doctor', 'lineside fleet targets --all -o lineside-boxes.yml'],
    },
    {
      command: 'fleet run',
      help: `run a command of each box: ${allowed.join(', ')}`,
      rest: { name: '<command...>', help: `the command after --; ${boxMark} is the name of the box` },
      options,
      notes: `A line is written for each box that has ended. Status 0: all are done. An update with --restart is done when the
box keeps it. restore and factory-reset are run for one box at a time.`,
      examples: [
        'lineside fleet run --all -- doctor',
        'lineside fleet run --tag line=3 -- backup {box}.backup --force',
        'lineside fleet run --all --wave 20 --report update.json -- update install lineside-1.3.0.update --restart',
        'lineside fleet run --all --report update.json --resume -- update install lineside-1.3.0.update --restart',
      ],
      on: 'here',
      what: 'run the command over the boxes',
      run: (call) => runOver(call, run),
    },
    targetsCommand,
  ];
}

/** What became of a box. */
interface Ended {
  readonly state: 'done' | 'failed';
  readonly exitStatus: number;
  readonly tookMs: number;
  readonly endedAt: string;
  readonly output: unknown;
  readonly error: unknown;
}

async function runOver(call: Call<FleetOptions>, run: RunLine): Promise<number> {
  const { options: given, io, rest: words } = call;
  demandAllowed(words);
  const chosen = (await chosenBoxes(call)).map(([name]) => name);
  const report = new Report(given.report, given.resume === true, words);
  const boxes = chosen.filter((box) => !report.isDone(box));
  if (boxes.length < chosen.length)
    await call.err.write(`${counted(chosen.length - boxes.length, 'box', 'boxes')} of the report are done already\n`);
  const view = new View(call, boxes);
  const { canaries = 1, parallel = 8, stopAfter = 1, wave = boxes.length } = given;
  const broken = new AbortController();
  const over = async (box: string): Promise<boolean> => {
    const startMs = io.clock.monoMs();
    await view.begun(box);
    const captured = new Captured(io, call.stop, (note) => view.note(box, note));
    const status = await run(lineOf(words, box, call.json), captured.io);
    const { output, error } = captured.texts(call.json);
    const state = status === exitStatus.ok ? 'done' : 'failed';
    const tookMs = Math.round(io.clock.monoMs() - startMs);
    const ended: Ended = { state, exitStatus: status, tookMs, endedAt: instantOfMs(io.clock.wallMs()), output, error };
    report.add(box, ended);
    await view.ended(box, ended);
    return state === 'done';
  };
  const plan = { boxes, canaries, waveSize: Math.max(1, wave), parallel, stopAfter };
  await runFleet(plan, AbortSignal.any([call.stop, broken.signal]), (box) =>
    over(box).catch((error: unknown) => {
      // The report cannot be written, or nobody reads the output: what runs goes on to its end, and no further box is begun.
      broken.abort(error);
      return false;
    }),
  );
  broken.signal.throwIfAborted();
  await view.close();
  call.stop.throwIfAborted();
  return view.failed === 0 && view.waiting === 0 ? exitStatus.ok : exitStatus.refused;
}

function demandAllowed(words: readonly string[]): void {
  const [first = '', second = ''] = words;
  const word = first === 'box' ? second : first;
  if (!allowed.includes(word))
    throw usageFailure(`"${safeText(word)}" is not run over many boxes`, `Known are ${allowed.join(', ')}.`);
  if (words.some((one) => /^--(profile|host|socket)(=|$)/.test(one)))
    throw usageFailure('the command names a box itself', 'Leave --profile, --host and --socket out.');
  if (word === 'backup' && !words.some((one) => one.includes(boxMark)))
    throw usageFailure('every box would write the same file', `Write ${boxMark} in its name: ${boxMark}.backup.`);
}

function lineOf(words: readonly string[], box: string, isJson: boolean): readonly string[] {
  const own = words.map((word) => word.replaceAll(boxMark, box));
  return ['--profile', box, ...own, ...(isJson && !own.includes('--json') ? ['--json'] : [])];
}

/** The streams of one command of many. */
class Captured {
  readonly io: CliIo;
  #output = '';
  #error = '';

  constructor(io: CliIo, stop: AbortSignal, note: (line: string) => void) {
    const sink = (take: (text: string) => void): Writable =>
      new Writable({
        write: (piece: Buffer, _, done) => {
          take(piece.toString('utf8'));
          done();
        },
      });
    this.io = {
      ...io,
      stdin: Readable.from([]),
      stdout: sink((text) => (this.#output = (this.#output + text).slice(-maxOutputChars))),
      stderr: sink((text) => {
        this.#error = (this.#error + text).slice(-maxErrorChars);
        note(text);
      }),
      onSignal: (signal: StopSignal, heard) => {
        if (signal !== 'SIGINT') return () => undefined;
        if (stop.aborted) queueMicrotask(heard);
        stop.addEventListener('abort', heard, { once: true });
        return () => stop.removeEventListener('abort', heard);
      },
    };
  }

  texts(isJson: boolean): { readonly output: unknown; readonly error: unknown } {
    const read = (text: string): unknown => (isJson ? (objectIn(text) ?? text) : text);
    return { output: read(this.#output), error: read(this.#error) };
  }
}

/** The file of --report: whole after each box. */
class Report {
  readonly #file: string | undefined;
  readonly #command: readonly string[];
  #boxes: Record<string, Partial<Ended>> = {};

  constructor(file: string | undefined, isResumed: boolean, command: readonly string[]) {
    this.#file = file;
    this.#command = command;
    if (file === undefined && isResumed) throw usageFailure('there is no report to resume from', 'Give --report FILE.');
    const before = file === undefined ? undefined : readReport(file);
    if (before === undefined) return;
    const what = `cannot use ${safeText(file ?? '')}`;
    if (!isResumed)
      throw new CliFailure('refused', 'EXISTS', 'it exists already', { what, next: 'Take another name, or --resume.' });
    if (JSON.stringify(before.command) !== JSON.stringify(command))
      throw new CliFailure('refused', 'OTHER_REPORT', 'it is the report of another command', { what });
    this.#boxes = before.boxes;
  }

  isDone(box: string): boolean {
    return Object.hasOwn(this.#boxes, box) && this.#boxes[box]?.state === 'done';
  }

  add(box: string, ended: Ended): void {
    this.#boxes = { ...this.#boxes, [box]: ended };
    if (this.#file === undefined) return;
    try {
      replaceSynced(this.#file, `${JSON.stringify({ command: this.#command, boxes: this.#boxes }, null, 2)}\n`);
    } catch (error) {
      throw fileFailure('write', this.#file, error);
    }
  }
}

function readReport(
  file: string,
): { readonly command: unknown; readonly boxes: Record<string, Partial<Ended>> } | undefined {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined;
    throw fileFailure('read', file, error);
  }
  const { command, boxes } = (objectIn(text) ?? {}) as { command?: unknown; boxes?: unknown };
  const isReport = Array.isArray(command) && typeof boxes === 'object' && boxes !== null;
  if (!isReport)
    throw new CliFailure('refused', 'BAD_REPORT', 'it is no report of lineside fleet', {
      what: `cannot use ${safeText(file)}`,
    });
  return { command, boxes: boxes as Record<string, Partial<Ended>> };
}

const linesOf = (text: unknown): readonly string[] => String(text).trim().split('\n');

/** A failure is one line with its reasons below it, and what the command told of its progress above it. */
const failureOf = (error: unknown): string | undefined => linesOf(error).find((line) => line.startsWith('lineside: '));

/** A line for each box that has ended; on a terminal also one of what runs. */
class View {
  readonly #call: Call<FleetOptions>;
  readonly #width: number;
  readonly #running = new Map<string, string>();
  waiting: number;
  failed = 0;
  #done = 0;

  constructor(call: Call<FleetOptions>, boxes: readonly string[]) {
    this.#call = call;
    this.waiting = boxes.length;
    this.#width = Math.max(0, ...boxes.map((box) => box.length));
  }

  async begun(box: string): Promise<void> {
    this.waiting -= 1;
    this.#running.set(box, '');
    await this.#draw();
  }

  note(box: string, text: string): void {
    this.#running.set(
      box,
      text
        .trim()
        .split(/[\r\n]/)
        .at(-1) ?? '',
    );
    // A closed terminal is noticed at the next line.
    void this.#draw().catch(() => undefined);
  }

  async ended(box: string, ended: Ended): Promise<void> {
    const { state, tookMs, output, error } = ended;
    this.#running.delete(box);
    if (state === 'done') this.#done += 1;
    else this.failed += 1;
    const { out, err, json } = this.#call;
    if (json) return out.write(`${JSON.stringify({ box, ...ended })}\n`);
    if (err.isTerminal) await err.write('\r\x1b[K');
    // A command that has found something, such as an alert, fails without an error.
    const told = linesOf(output).at(-1) || (linesOf(error).at(-1) ?? '');
    const line = (state === 'done' ? undefined : failureOf(error)) ?? told;
    await out.write(
      `${box.padEnd(this.#width)}  ${state.padEnd(6)}  ${spanText(tookMs).padEnd(8)}  ${safeText(line)}\n`,
    );
    await this.#draw();
  }

  async close(): Promise<void> {
    const { err, json } = this.#call;
    if (json) return;
    const parts = [`${this.#done} done`, `${this.failed} failed`, `${this.waiting} not begun`];
    await err.write(`${err.isTerminal ? '\r\x1b[K' : ''}${parts.join(', ')}\n`);
  }

  async #draw(): Promise<void> {
    const { err, json } = this.#call;
    if (json || !err.isTerminal || this.#running.size === 0) return;
    const notes = [...this.#running].map(([box, note]) => (note === '' ? box : `${box} (${note})`));
    const counts = `${this.#done} done, ${this.failed} failed, ${this.waiting} wait; `;
    await err.write(`\r${cut(safeLines(counts + notes.join(', ')), err.width - 1)}\x1b[K`);
  }
}
