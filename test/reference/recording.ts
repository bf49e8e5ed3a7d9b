/**
 * Records the first minutes on the simulated line as an animated SVG: real commands in a real terminal (a PTY by script(1)),
 * their output at the pace at which it came. scripts/pictures runs this file.
 */
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { cleanUp, environment, MAIN, NODE, ROOT, startProcess, temporaryDirectory } from '../e2e/daemon.ts';
import { type Both, startBoth } from '../e2e/hub.ts';

/** As the reader types them; the tutorial has the same. */
const commands = [
  'scripts/lineside status',
  'scripts/lineside log --follow',
  'scripts/lineside send --crlf PING',
  'scripts/lineside log --last 20',
  `scripts/lineside dict create tools --title 'Tools of the site' --scope PUBLIC`,
  `scripts/lineside record create tools T-1 '{"name": "Torque wrench", "newtonMetres": 40}'`,
  'scripts/lineside record history tools T-1',
] as const;

const COLUMNS = 110;
const ROWS = 26;
const ROW_PX = 18;
const CHAR_PX = 7.8;
const PAD_PX = 14;
const FOLLOWED_S = 4;
const SETTLED_MS = 3_500;
/** Time to read a command before its output, an output before the next command, the end before it begins again. */
const [TYPED_MS, READ_MS, LAST_MS] = [900, 2_200, 5_000];
/** Output comes as it came, but never later than this after the command or the output before. */
const LONGEST_GAP_MS = 1_000;

interface Row {
  readonly atMs: number;
  readonly text: string;
  readonly isCommand: boolean;
}

/** Output with the time since the piece before. */
type Piece = readonly [gapMs: number, text: string];

async function typed(command: string, { dir, socket }: Both): Promise<Piece[]> {
  // A log of more rows than the terminal has would wait for a key.
  const env = environment({
    LINESIDE_SOCKET: join(dir, 'run', 'grpc.sock'),
    LINESIDE_HTTP_SOCKET: socket,
    PAGER: 'cat',
  });
  const program = command.replace('scripts/lineside', `"${NODE}" "${MAIN}"`);
  const limited = command.endsWith('--follow') ? `timeout --foreground -s INT ${FOLLOWED_S} ${program}` : program;
  const child = startProcess('script', ['-qec', `stty cols ${COLUMNS} rows ${ROWS}; ${limited}`, '/dev/null'], env);
  const pieces: Piece[] = [];
  let last = performance.now();
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    const now = performance.now();
    pieces.push([Math.min(LONGEST_GAP_MS, now - last), asInTutorial(text, dir)]);
    last = now;
  });
  await once(child, 'close');
  return pieces;
}

/** Without colours; the directory has the name that it has in the tutorial. */
function asInTutorial(text: string, dir: string): string {
  const plain = text.replaceAll(/\u001b\[[\d;?]*[a-zA-Z]|\r|\^C/g, '');
  return plain.replaceAll(dir, '/home/me/lineside/.run');
}

function rowsOf(atMs: number, text: string, isCommand: boolean): Row[] {
  return text
    .replace(/\n$/, '')
    .split('\n')
    .flatMap((line) => line.match(new RegExp(`.{1,${COLUMNS}}`, 'gu')) ?? [''])
    .map((part) => ({ atMs, text: part, isCommand }));
}

async function record(box: Both): Promise<{ rows: Row[]; lengthMs: number }> {
  const rows: Row[] = [];
  let atMs = 300;
  for (const command of commands) {
    rows.push(...rowsOf(atMs, `$ ${command}`, true));
    atMs += TYPED_MS;
    for (const [gapMs, text] of await typed(command, box)) {
      atMs += gapMs;
      rows.push(...rowsOf(atMs, text, false));
    }
    atMs += READ_MS;
  }
  return { rows, lengthMs: atMs + LAST_MS };
}

/** Rows appear at their times; the whole moves up when the screen is full. */
function drawn({ rows, lengthMs }: { rows: readonly Row[]; lengthMs: number }): string {
  const [width, height] = [COLUMNS * CHAR_PX + 2 * PAD_PX, ROWS * ROW_PX + 2 * PAD_PX];
  const percent = (ms: number): string => ((100 * ms) / lengthMs).toFixed(2);
  const times = [...new Set(rows.map(({ atMs }) => atMs))];
  const hiddenRows = (at: number): number => Math.max(0, rows.filter(({ atMs }) => atMs <= at).length - ROWS);
  const shift = (at: number): string => `transform: translateY(${-hiddenRows(at) * ROW_PX}px)`;
  const steps = times.map((at) => `${percent(at)}% { ${shift(at)} }`).join(' ');
  const shows = times.map(
    (at, n) =>
      `@keyframes r${n} { 0% { opacity: 0 } ${percent(at)}%, 100% { opacity: 1 } } .r${n} { animation-name: r${n} }`,
  );
  const texts = rows.map(({ atMs, text, isCommand }, n) => {
    const y = PAD_PX + (n + 0.75) * ROW_PX;
    return `<text class="r${times.indexOf(atMs)}${isCommand ? ' c' : ''}" x="${PAD_PX}" y="${y}">${escaped(text)}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img">
<title>The first minutes with lineside in a terminal</title>
<style>
text { font: 13px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #d5dde3; white-space: pre }
.c { fill: #8fd6a5 }
text, #all { animation: ${lengthMs / 1000}s step-end infinite }
#all { animation-name: all }
@keyframes all { 0% { transform: none } ${steps} 100% { ${shift(lengthMs)} } }
${shows.join('\n')}
@media (prefers-reduced-motion: reduce) { text, #all { animation: none } #all { ${shift(lengthMs)} } }
</style>
<rect width="${width}" height="${height}" rx="8" fill="#12181d"/>
<svg y="${PAD_PX}" width="${width}" height="${ROWS * ROW_PX}"><g id="all" ><g transform="translate(0 -${PAD_PX})">
${texts.join('\n')}
</g></g></svg>
</svg>
`;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

const dir = temporaryDirectory();
const line = { port: join(dir, 'run', 'sim0'), baud_rate: 115_200 };
const box = await startBoth({ dir, config: { serial: { simulate: true, at_start: 'open', line } } });
// The machine's facts are read after some seconds.
await delay(SETTLED_MS);
writeFileSync(join(ROOT, 'docs/images/first-minutes.svg'), drawn(await record(box)));
await box.stop();
cleanUp();
