import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { LinesideError } from '../../shared/base/errors.ts';
import { configOf, portNamed } from './line.fixture.ts';
import { type Effect, type Input, type State, step, type Target } from './state.ts';

const target = (name: string): Target => ({ config: configOf(name), port: portNamed(name) });
const a = target('/dev/ttyA');
const b = target('/dev/ttyB');
const refused = new LinesideError('SETTING_REFUSED', 'refused');
const gone = new LinesideError('PORT_IO', 'gone');

const states: Record<string, State> = {
  closed: { kind: 'closed' },
  'opening from nothing': { kind: 'opening', target: b, previous: { kind: 'nothing' } },
  'opening while another stands': { kind: 'opening', target: b, previous: { kind: 'standing', target: a } },
  'opening the same again': { kind: 'opening', target: a, previous: { kind: 'closed', target: a } },
  'opening while lost': { kind: 'opening', target: b, previous: { kind: 'lost', target: a, error: gone } },
  restoring: { kind: 'restoring', target: a, refusal: refused },
  open: { kind: 'open', target: a },
  lost: { kind: 'lost', target: a, attempt: 3, error: gone },
  reopening: { kind: 'reopening', target: a, attempt: 3, error: gone, again: false },
  'reopening again': { kind: 'reopening', target: a, attempt: 3, error: gone, again: true },
  closing: { kind: 'closing' },
};

const inputs: Record<string, Input> = {
  'open the same': { kind: 'open', target: a, by: '' },
  'open another': { kind: 'open', target: b, by: '' },
  resume: { kind: 'resume', target: a, error: gone },
  opened: { kind: 'opened', target: b },
  openFailed: { kind: 'openFailed', error: refused },
  close: { kind: 'close', by: '' },
  closed: { kind: 'closed' },
  lost: { kind: 'lost', error: gone },
  retry: { kind: 'retry' },
};

/** State after the input, and the effects in order. What is not listed: nothing happens. */
const table: Record<string, Record<string, string>> = {
  closed: {
    'open the same': 'opening: openDevice',
    'open another': 'opening: openDevice',
    resume: 'reopening: stopRetryTimer findAndOpen',
  },
  'opening from nothing': {
    opened: 'open: adopt(fresh) remember(/dev/ttyB) answerOpen(OK)',
    openFailed: 'closed: answerOpen(refused)',
    close: 'closed: abandonOpen answerOpen(Close came while the port was being opened) remember(nothing)',
  },
  'opening while another stands': {
    opened: 'open: closeThen adopt(fresh) remember(/dev/ttyB) answerOpen(OK)',
    openFailed: 'open: answerOpen(refused)',
    close: 'closing: abandonOpen answerOpen(Close came while the port was being opened) remember(nothing) closeDevice',
    lost: 'opening: dropDevice',
  },
  'opening the same again': {
    opened: 'open: adopt(fresh) remember(/dev/ttyB) answerOpen(OK)',
    openFailed: 'restoring: openDevice',
    close: 'closed: abandonOpen answerOpen(Close came while the port was being opened) remember(nothing)',
  },
  'opening while lost': {
    opened: 'open: adopt(fresh) remember(/dev/ttyB) answerOpen(OK)',
    openFailed: 'lost: answerOpen(refused) startRetryTimer(0)',
    close: 'closed: abandonOpen answerOpen(Close came while the port was being opened) remember(nothing)',
  },
  restoring: {
    opened: 'open: adopt answerOpen(refused)',
    openFailed:
      'closed: remember(nothing) answerOpen(refused; the former configuration could not be restored either: refused; the port is closed)',
    close: 'closed: abandonOpen answerOpen(refused) remember(nothing)',
  },
  open: {
    'open the same': 'opening: closeThen openDevice',
    'open another': 'opening: openDevice',
    close: 'closing: remember(nothing) closeDevice',
    lost: 'lost: dropDevice startRetryTimer(0)',
  },
  lost: {
    'open the same': 'opening: stopRetryTimer openDevice',
    'open another': 'opening: stopRetryTimer openDevice',
    close: 'closed: stopRetryTimer remember(nothing)',
    retry: 'reopening: stopRetryTimer findAndOpen',
  },
  reopening: {
    'open the same': 'opening: abandonOpen openDevice',
    'open another': 'opening: abandonOpen openDevice',
    opened: 'open: adopt',
    openFailed: 'lost: startRetryTimer(4)',
    close: 'closed: abandonOpen remember(nothing)',
  },
  'reopening again': {
    'open the same': 'opening: abandonOpen openDevice',
    'open another': 'opening: abandonOpen openDevice',
    opened: 'open: adopt',
    openFailed: 'reopening: stopRetryTimer findAndOpen',
    close: 'closed: abandonOpen remember(nothing)',
  },
  closing: { closed: 'closed:' },
};

describe('the state machine of the port owner', () => {
  for (const [stateName, state] of Object.entries(states)) {
    for (const [inputName, input] of Object.entries(inputs)) {
      const expected = table[stateName]?.[inputName];
      it(`${stateName}, ${inputName}: ${expected ?? 'nothing happens'}`, () => {
        const next = step(state, input);
        if (expected !== undefined) return assert.equal(shown(next.state, next.effects), expected);
        assert.deepEqual(next.effects, []);
        assert.equal(next.state.kind, state.kind);
      });
    }
  }

  it('remembers during an attempt that a port appeared, and then tries again at once', () => {
    const during = step(states['reopening'] as State, { kind: 'retry' });
    assert.equal(shown(during.state, during.effects), 'reopening:');
    const failed = step(during.state, { kind: 'openFailed', error: gone });
    assert.equal(shown(failed.state, failed.effects), 'reopening: stopRetryTimer findAndOpen');
  });

  it('restores what stood before, with its own settings', () => {
    const old = { ...a, config: { ...a.config, baudRate: 300 } };
    const opening: State = { kind: 'opening', target: a, previous: { kind: 'closed', target: old } };
    const next = step(opening, { kind: 'openFailed', error: refused });
    assert.deepEqual(next.effects, [{ kind: 'openDevice', target: old }]);
  });

  it('waits for the old port when it was lost while another was being opened and that failed', () => {
    const lost = step(states['opening while another stands'] as State, { kind: 'lost', error: gone });
    const failed = step(lost.state, { kind: 'openFailed', error: refused });
    assert.equal(shown(failed.state, failed.effects), 'lost: answerOpen(refused) startRetryTimer(0)');
    assert.deepEqual('target' in failed.state && failed.state.target, a);
  });
});

function shown(state: State, effects: readonly Effect[]): string {
  return `${state.kind}: ${effects.map(named).join(' ')}`.trimEnd();
}

function named(effect: Effect): string {
  switch (effect.kind) {
    case 'adopt':
      return effect.fresh ? 'adopt(fresh)' : 'adopt';
    case 'startRetryTimer':
      return `startRetryTimer(${effect.attempt})`;
    case 'remember':
      return `remember(${effect.config?.portName ?? 'nothing'})`;
    case 'answerOpen':
      return `answerOpen(${effect.error?.message ?? 'OK'})`;
    case 'openDevice':
    case 'findAndOpen':
    case 'abandonOpen':
    case 'closeThen':
    case 'closeDevice':
    case 'dropDevice':
    case 'stopRetryTimer':
      return effect.kind;
  }
}
