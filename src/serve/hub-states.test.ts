import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type HubEvent, type HubState, initialHub, stepHub } from './hub-child.ts';

const running: HubState = { name: 'running', failures: 3, sinceMs: 1_000 };
const stopping: HubState = { name: 'stopping' };
const killing: HubState = { name: 'killing' };
const ended: HubState = { name: 'ended' };

/** Every pair of state and event; undefined: nothing happens. At 2,000 ms. */
const table: [HubState, Record<HubEvent, [HubState, ...object[]] | undefined>][] = [
  [
    initialHub,
    {
      due: [{ name: 'running', failures: 0, sinceMs: 2_000 }, { kind: 'spawn' }],
      exited: undefined,
      stop: [ended, { kind: 'end' }],
      overdue: undefined,
    },
  ],
  [
    running,
    {
      due: undefined,
      exited: [
        { name: 'waiting', failures: 4 },
        { kind: 'wait', ms: 8_000 },
      ],
      stop: [stopping, { kind: 'terminate' }],
      overdue: undefined,
    },
  ],
  [
    stopping,
    { due: undefined, exited: [ended, { kind: 'end' }], stop: undefined, overdue: [killing, { kind: 'kill' }] },
  ],
  [killing, { due: undefined, exited: [ended, { kind: 'end' }], stop: undefined, overdue: undefined }],
  [ended, { due: undefined, exited: undefined, stop: undefined, overdue: undefined }],
];

for (const [state, row] of table) {
  for (const [event, expected] of Object.entries(row)) {
    test(`${state.name}, ${event}: ${expected === undefined ? 'nothing' : expected[0].name}`, () => {
      const [next, ...effects] = expected ?? [state];
      assert.deepEqual(stepHub(state, event as HubEvent, 2_000), { state: next, effects });
    });
  }
}

/** The waits before each start of a hub that lives for `livesMs` each time. */
function waits(livesMs: number, times: number): number[] {
  const found: number[] = [];
  let state = initialHub;
  for (let at = 0; found.length < times; at += livesMs) {
    state = stepHub(state, 'due', at).state;
    const after = stepHub(state, 'exited', at + livesMs);
    for (const effect of after.effects) if (effect.kind === 'wait') found.push(effect.ms);
    state = after.state;
  }
  return found;
}

test('one that dies young is restarted later each time, up to a minute', () => {
  assert.deepEqual(waits(59_999, 9), [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]);
});

test('one that ran for a minute is restarted within a second, each time', () => {
  assert.deepEqual(waits(60_000, 3), [1_000, 1_000, 1_000]);
});
