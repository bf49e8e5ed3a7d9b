import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { FakeClock } from '../shared/base/fake-clock.fixture.ts';
import { type FeedState, LogFeed } from './log-feed.ts';
import { ProblemError, problemOf } from './problem.ts';

/** Text that comes, 'cut' (the connection breaks), 'hang' (nothing more comes), or a refusal. */
type Step = string | { status: number; code: string };

const head = (logId = 'a', headId = 0): string => `${JSON.stringify({ type: 'log', logId, headId })}\n`;
const entry = (id: number): string =>
  `${JSON.stringify({ type: 'entry', id, dir: 'rx', timestampMs: 1, clock: 'known', data: 'eA==' })}\n`;
const position = (nextAfterId: number): string => `${JSON.stringify({ type: 'position', nextAfterId })}\n`;
const end = (code: string): string => `${JSON.stringify({ type: 'end', code, message: 'why' })}\n`;

/** A feed that was started on a box that answers each connection by a script, with a clock that is moved by hand. */
async function started(t: TestContext, connections: readonly (readonly Step[])[], firstStored = 1) {
  const asked: string[] = [];
  const states: FeedState[] = [];
  const seen: string[] = [];
  const clock = new FakeClock();
  async function* steps(script: readonly Step[], signal: AbortSignal): AsyncIterable<string> {
    for (const step of script) {
      if (step === 'cut') throw new Error('network error');
      else if (step === 'hang')
        await new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('aborted'))));
      else if (typeof step === 'string') yield step;
    }
  }
  const feed = new LogFeed({
    async open(query, signal) {
      const script = connections[asked.length] ?? ['hang'];
      asked.push(query);
      const [first] = script;
      if (typeof first === 'object')
        throw new ProblemError(problemOf(first.status, JSON.stringify({ code: first.code })));
      return steps(script, signal);
    },
    firstStoredId: async () => firstStored,
    clock,
    onState: (state) => states.push(state),
    onRows: (rows) =>
      seen.push(...rows.map((row) => (row.kind === 'gap' ? `${row.firstId}-${row.id}` : String(row.id)))),
    onReset: (why) => seen.push(why),
  });
  t.after(() => feed.pause());
  feed.start();
  await clock.pass(0);
  return { feed, asked, seen, is: () => states.at(-1)?.is, pass: (ms: number) => clock.pass(ms) };
}

type Script = readonly (readonly Step[])[];
const alive = '{"type":"alive"}\n';
const inPieces = (text: string): Step[] => Array.from(text);

describe('the live log', () => {
  /** What the box answers to each connection, the time that passes, what the page asks for, and what it shows. */
  const rows: readonly (readonly [
    string,
    Script,
    passes: readonly number[],
    asked: readonly string[],
    seen: string,
  ])[] = [
    [
      'resumes after the last entry when the connection breaks: each once, in order',
      [
        [head(), entry(1), entry(2), 'cut'],
        [head(), entry(3), 'cut'],
        [head(), entry(4), 'hang'],
      ],
      [500, 500],
      ['last=500', 'after=2', 'after=3'],
      '1 2 3 4',
    ],
    [
      'takes lines that come in pieces, and not what it has already',
      [
        [...inPieces(head() + entry(1) + entry(2)), 'cut'],
        [head(), entry(2), entry(3), 'hang'],
      ],
      [500],
      ['last=500', 'after=2'],
      '1 2 3',
    ],
    [
      'misses nothing of a log that was empty when the connection broke',
      [
        [head(), alive, 'cut'],
        [head(), 'hang'],
      ],
      [500],
      ['last=500', 'after=0'],
      '',
    ],
    [
      'begins with the newest again if the connection broke before any of them came',
      [
        [head('a', 90_000), alive, 'cut'],
        [head('a', 90_000), entry(90_000), 'hang'],
      ],
      [500],
      ['last=500', 'last=500'],
      '90000',
    ],
    [
      'continues with the newest if it is further behind than the page holds',
      [
        [head('a', 5), entry(5), 'cut'],
        [head('a', 25_006), entry(6), 'hang'],
        [head('a', 25_007), entry(25_006), entry(25_007), 'hang'],
      ],
      [500, 1_000],
      ['last=500', 'after=5', 'last=500'],
      '5 behind 25006 25007',
    ],
    [
      'begins again when the log is another one',
      [
        [head('a'), entry(7), position(7), 'cut'],
        [head('b'), entry(8)],
        [head('b'), entry(1), entry(2), 'hang'],
      ],
      [500, 1_000],
      ['last=500', 'after=7', 'last=500'],
      '7 replaced 1 2',
    ],
    [
      'shows a gap if entries were removed before it came to them, and continues behind it',
      [[head(), entry(5), 'cut'], [{ status: 410, code: 'LOG_LOST' }], [head(), entry(100), 'hang']],
      [500],
      ['last=500', 'after=5', 'after=99'],
      '5 6-99 100',
    ],
  ];
  for (const [name, script, passes, asked, seen] of rows) {
    it(name, async (t) => {
      const box = await started(t, script, 100);
      for (const ms of passes) {
        assert.equal(box.is(), 'waiting');
        await box.pass(ms);
      }
      assert.equal(box.is(), 'live');
      assert.deepEqual(
        box.asked,
        asked.map((one) => `${one}&follow=true`),
      );
      assert.equal(box.seen.join(' '), seen);
    });
  }

  it('knows silence from a dead connection: stale after 4.5 s without a line, disconnected after 12', async (t) => {
    const box = await started(t, [
      [head(), entry(1), 'hang'],
      [head(), 'hang'],
    ]);
    for (const [ms, is] of [
      [4_400, 'live'],
      [100, 'stale'],
      [7_500, 'waiting'],
      [500, 'live'],
    ] as const) {
      await box.pass(ms);
      assert.equal(box.is(), is);
    }
    assert.equal(box.asked[1], 'after=1&follow=true');
  });

  it('waits longer and longer while there is no answer, and begins again after one', async (t) => {
    const no: Step[] = [{ status: 503, code: 'NOT_READY' }];
    const box = await started(t, [no, no, no, [head(), entry(1), 'cut'], [head(), 'hang']]);
    for (const ms of [500, 1_000, 2_000, 500]) {
      await box.pass(ms - 1);
      const before = box.asked.length;
      await box.pass(1);
      assert.equal(box.asked.length, before + 1);
    }
  });

  for (const [name, script, seen] of [
    ['the token is refused', [{ status: 403, code: 'PERMISSION_DENIED' }], []],
    ['a token that was revoked ends the stream', [head(), entry(1), end('UNAUTHENTICATED')], ['1']],
  ] as const) {
    it(`stops if waiting does not help: ${name}`, async (t) => {
      const box = await started(t, [script]);
      await box.pass(60_000);
      assert.deepEqual([box.is(), box.asked.length, box.seen], ['refused', 1, seen]);
    });
  }

  it('pauses, and resumes after the last entry, or from the newest', async (t) => {
    const box = await started(t, [
      [head(), entry(1), 'hang'],
      [head(), entry(2), 'hang'],
      [head(), entry(90), 'hang'],
    ]);
    box.feed.pause();
    assert.equal(box.is(), 'paused');
    box.feed.startAfter(1);
    await box.pass(0);
    box.feed.startAtNewest();
    await box.pass(0);
    assert.deepEqual(box.asked, ['last=500&follow=true', 'after=1&follow=true', 'last=500&follow=true']);
    assert.deepEqual(box.seen, ['1', '2', 'jump', '90']);
  });
});
