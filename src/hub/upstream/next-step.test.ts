import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { nextStep, type Situation } from './next-step.ts';

const idle: Situation = {
  lineAnswers: true,
  refreshInMs: 500,
  hasMore: false,
  read: 'nothing',
  lingerMs: 0,
  correctable: false,
  packed: false,
  inFlight: false,
  hasRoom: true,
  retryMs: 0,
  busy: false,
  affordable: true,
  asked: true,
  paceMs: 0,
};

const rows: readonly [what: string, Partial<Situation>, does: string][] = [
  ['nothing waits', {}, 'up to date'],
  ['the line was not asked for a while', { refreshInMs: 0, packed: true }, 'refresh'],
  ['the line does not answer', { lineAnswers: false, hasMore: true }, 'waiting for the line'],
  ['the log holds more', { hasMore: true, read: 'some' }, 'read'],
  ['some is read, and may have company soon', { read: 'some', lingerMs: 100 }, 'sending'],
  ['some is read, and has waited', { read: 'some', lingerMs: 0 }, 'pack'],
  ['the line disconnected after some entries were read', { read: 'some', lineAnswers: false }, 'pack'],
  ['enough is read', { read: 'enough', hasMore: true, lingerMs: 100 }, 'pack'],
  ['times can be corrected', { correctable: true, read: 'enough', hasMore: true }, 'correct'],
  [
    'times can be corrected, and the line does not answer',
    { correctable: true, lineAnswers: false },
    'waiting for the line',
  ],
  ['a batch is made before times can be corrected', { correctable: true, packed: true }, 'send'],
  ['a batch is made', { packed: true }, 'send'],
  ['a batch is made, and the line does not answer', { packed: true, lineAnswers: false }, 'send'],
  ['the remote was not asked where to resume', { packed: true, asked: false }, 'ask'],
  ['the remote has just failed', { packed: true, retryMs: 10, asked: false }, 'waiting for the transport'],
  ['change events wait', { packed: true, busy: true, asked: false }, 'waiting for change events'],
  [
    'the budget is used up: not even a connection',
    { packed: true, affordable: false, asked: false },
    'waiting for the budget',
  ],
  ['the cap has no room', { packed: true, paceMs: 10 }, 'sending'],
  ['a batch is made, and may be sent beside others', { packed: true, inFlight: true }, 'send'],
  ['a batch is made, and waits for others', { packed: true, inFlight: true, hasRoom: false }, 'sending'],
  [
    'times can be corrected when nothing is in flight',
    { correctable: true, inFlight: true, read: 'enough' },
    'sending',
  ],
  ['all is sent, and not acknowledged', { inFlight: true }, 'sending'],
];

for (const [what, differs, does] of rows) {
  test(`${what}: ${does}`, () => {
    const step = nextStep({ ...idle, ...differs });
    assert.equal(step.do === 'wait' ? step.state : step.do, does);
  });
}

test('in every situation it waits only for a reason, and never past the next check of the line', () => {
  const flag = fc.boolean();
  const ms = fc.integer({ min: -1_000, max: 100_000 });
  const any = fc.record({
    lineAnswers: flag,
    refreshInMs: ms,
    hasMore: flag,
    read: fc.constantFrom('nothing' as const, 'some' as const, 'enough' as const),
    lingerMs: ms,
    correctable: flag,
    packed: flag,
    inFlight: flag,
    hasRoom: flag,
    retryMs: ms,
    busy: flag,
    affordable: flag,
    asked: flag,
    paceMs: ms,
  });
  fc.assert(
    fc.property(any, (now) => {
      const step = nextStep(now);
      if (step.do === 'wait') assert.ok(step.ms >= 1 && step.ms <= Math.max(1, now.refreshInMs));
      if (step.do === 'send') {
        assert.ok(
          now.packed && now.hasRoom && now.affordable && !now.busy && now.asked && now.paceMs <= 0 && now.retryMs <= 0,
        );
      }
    }),
  );
});
