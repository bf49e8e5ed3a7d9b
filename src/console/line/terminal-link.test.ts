import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FakeClock, settled } from '../../shared/base/fake-clock.fixture.ts';
import type { TerminalNotice } from '../../shared/gen/http.ts';
import { ProblemError, problemOf } from '../problem.ts';
import { type LinkState, MAX_WAITING_BYTES, TerminalLink, type WireEvents } from './terminal-link.ts';

async function started(ticket: () => Promise<string> = async () => 't1') {
  const clock = new FakeClock();
  const states: LinkState[] = [];
  const seen: unknown[] = [];
  const sent: (string | number)[] = [];
  let events: WireEvents | undefined;
  let waiting = 0;
  const link = new TerminalLink({
    clock,
    ticket,
    open: (with_, taken) => {
      events = taken;
      seen.push(with_);
      return {
        send: (message) => sent.push(typeof message === 'string' ? message : message.length),
        close: () => seen.push('closed'),
      };
    },
    onState: (state) => states.push(state),
    onBytes: (bytes) => seen.push(Buffer.from(bytes).toString()),
    onPort: (state) => seen.push(state),
    onLines: ({ dtr }) => seen.push(dtr),
    onDone: ({ what }) => seen.push(what),
    onRefused: ({ message }) => seen.push(message),
    onWaiting: (bytes) => {
      waiting = bytes;
    },
  });
  await link.start();
  await settled();
  const hears = (notice: TerminalNotice): void => events?.received(JSON.stringify(notice));
  const live = (): void => {
    events?.opened();
    hears({ type: 'port', state: 'open' });
  };
  return {
    clock,
    link,
    seen,
    sent,
    hears,
    live,
    events: () => events,
    waiting: () => waiting,
    is: () => states.at(-1),
  };
}

describe('the connection of a terminal', () => {
  it('is live with the first notice of the port: what comes before is of the log', async () => {
    const one = await started();
    one.events()?.opened();
    one.events()?.received(Buffer.from('old'));
    assert.equal(one.is()?.is, 'filling');
    assert.equal(one.link.send(new Uint8Array(1)), false, 'nothing is typed into the log');
    one.hears({ type: 'port', state: 'lost' });
    assert.equal(one.is()?.is, 'live');
    one.events()?.received(Buffer.from('new'));
    assert.deepEqual(one.seen, ['t1', 'old', 'lost', 'new']);
  });

  it('sends no more than the line answers, in order, and nothing behind what was refused', async () => {
    const one = await started();
    one.live();
    assert.ok(one.link.send(new Uint8Array(10_000)));
    assert.deepEqual(one.sent, [1_024, 1_024, 1_024, 1_024]);
    assert.equal(one.waiting(), 10_000);
    one.hears({ type: 'sent', bytes: 1_024 });
    assert.equal(one.sent.length, 5);
    one.hears({ type: 'refused', what: 'bytes', bytes: 1_024, message: 'held' });
    assert.equal(one.sent.length, 5);
    assert.equal(one.waiting(), 3 * 1_024);
    assert.equal(one.link.send(new Uint8Array(MAX_WAITING_BYTES + 1)), false);
    one.link.command({ type: 'release' });
    assert.equal(one.sent.at(-1), '{"type":"release"}');
  });

  it('ends with the reason of the box, without one, or when nothing is heard', async () => {
    const told = await started();
    told.live();
    told.hears({ type: 'end', code: 'LOG_LOST', message: 'not taken in time' });
    const state = told.is();
    assert.ok(state?.is === 'ended');
    assert.equal(state.problem.detail, 'not taken in time');
    assert.equal(told.seen.at(-1), 'closed');
    told.events()?.closed();
    told.events()?.received(Buffer.from('late'));
    assert.equal(told.is(), state);
    assert.equal(told.seen.at(-1), 'closed');

    const cut = await started();
    cut.events()?.closed();
    assert.equal(cut.is()?.is, 'ended');

    const silent = await started();
    silent.live();
    silent.clock.advance(14_999);
    silent.hears({ type: 'alive' });
    silent.clock.advance(14_999);
    assert.equal(silent.is()?.is, 'live');
    silent.clock.advance(1);
    assert.equal(silent.is()?.is, 'ended');

    const refused = await started(() => Promise.reject(new ProblemError(problemOf(403, '{"title":"No role"}'))));
    const end = refused.is();
    assert.ok(end?.is === 'ended' && end.problem.title === 'No role');
  });

  it('ignores what a later box may say', async () => {
    const one = await started();
    one.live();
    one.events()?.received('{"type":"weather"}');
    assert.equal(one.is()?.is, 'live');
  });
});
