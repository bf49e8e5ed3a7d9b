import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { addToken, revokeToken } from '../shared/auth/token-file.ts';
import { TokenReader } from '../shared/auth/token-reader.ts';
import { FakeClock } from '../shared/base/fake-clock.fixture.ts';
import { recordingLogger } from '../shared/base/logger.fixture.ts';
import { temporaryDirectory } from '../shared/base/temporary.fixture.ts';
import { until } from '../shared/base/wait.fixture.ts';
import { Consumers } from './consumers.ts';

const at = new Date('2026-01-02T03:04:05Z');

function consumersOn(t: TestContext) {
  const file = join(temporaryDirectory(t), 'tokens.json');
  const { logger, lines } = recordingLogger();
  const clock = new FakeClock();
  const consumers = new Consumers(new TokenReader(file, clock, logger), clock, logger);
  t.after(() => consumers.stop());
  let changes = 0;
  consumers.onChanged(() => {
    changes += 1;
  });
  /** Two seconds later, when the look has ended: it sets the next timer then. */
  const look = async (): Promise<void> => {
    clock.advance(2_000);
    await until('the look to end', async () => clock.pendingTimers === 1);
  };
  return { file, clock, lines, consumers, look, changes: () => changes };
}

describe('consumers', () => {
  it('are the tokens with the scopes of their roles, and "local" with all', async (t) => {
    const { file, consumers } = consumersOn(t);
    addToken(file, 'erp', ['reader'], at);
    addToken(file, 'plant', ['refdata-internal'], at);
    addToken(file, 'safe', ['refdata-restricted', 'viewer'], at);
    assert.equal(consumers.scopesOf('erp'), undefined, 'not known before the first look');
    await consumers.start();
    assert.deepEqual(consumers.scopesOf('erp'), ['PUBLIC']);
    assert.deepEqual(consumers.scopesOf('plant'), ['PUBLIC', 'INTERNAL']);
    assert.deepEqual(consumers.scopesOf('safe'), ['PUBLIC', 'INTERNAL', 'RESTRICTED']);
    assert.deepEqual(consumers.scopesOf('local'), ['PUBLIC', 'INTERNAL', 'RESTRICTED']);
    for (const name of ['', 'nobody', 'constructor', '__proto__'])
      assert.equal(consumers.scopesOf(name), undefined, name);
  });

  it('are known when the tokens could be read, and not while they cannot', async (t) => {
    const { file, consumers, look } = consumersOn(t);
    let known = false;
    void consumers.known.then(() => {
      known = true;
    });
    writeFileSync(file, 'no JSON');
    await consumers.start();
    await look();
    assert.deepEqual([known, consumers.isKnown()], [false, false]);
    rmSync(file);
    addToken(file, 'erp', ['reader'], at);
    await look();
    assert.deepEqual([known, consumers.isKnown()], [true, true]);
    assert.deepEqual(consumers.scopesOf('erp'), ['PUBLIC']);
  });

  it('come, go and change with the file, and each change is reported once', async (t) => {
    const { file, consumers, look, changes } = consumersOn(t);
    await consumers.start();
    assert.equal(changes(), 0, 'a missing file has none, as before');
    addToken(file, 'erp', ['reader', 'refdata-internal'], at);
    await look();
    assert.deepEqual([consumers.scopesOf('erp'), changes()], [['PUBLIC', 'INTERNAL'], 1]);
    await look();
    assert.equal(changes(), 1, 'nothing has changed');
    revokeToken(file, 'erp');
    addToken(file, 'erp', ['reader', 'admin'], at);
    await look();
    assert.deepEqual([consumers.scopesOf('erp'), changes()], [['PUBLIC'], 2]);
    revokeToken(file, 'erp');
    await look();
    assert.deepEqual([consumers.scopesOf('erp'), changes()], [undefined, 3]);
  });

  it('stay what they were while the file cannot be read', async (t) => {
    const { file, lines, consumers, look, changes } = consumersOn(t);
    addToken(file, 'erp', ['reader'], at);
    await consumers.start();
    writeFileSync(file, '{"tokens": 7}');
    await look();
    assert.deepEqual([consumers.scopesOf('erp'), changes(), lines.length], [['PUBLIC'], 1, 1]);
    rmSync(file);
    await look();
    assert.deepEqual([consumers.scopesOf('erp'), changes()], [undefined, 2]);
  });

  it('are read again although a listener has failed, and the others are notified', async (t) => {
    const { file, lines, consumers, look } = consumersOn(t);
    const notified: string[] = [];
    consumers.onChanged(() => {
      throw new Error('no room');
    });
    consumers.onChanged(() => notified.push('second'));
    await consumers.start();
    for (const name of ['a', 'b']) {
      addToken(file, name, ['reader'], at);
      await look();
    }
    assert.deepEqual(notified, ['second', 'second']);
    const failed = 'error what follows from changed tokens failed error="no room"';
    assert.deepEqual(lines, [failed, failed]);
  });

  it('are not read any more after a stop, and the result of a late read is not reported', async (t) => {
    const { file, clock, consumers, changes } = consumersOn(t);
    await consumers.start();
    addToken(file, 'erp', ['reader'], at);
    clock.advance(1_500);
    const looking = consumers.start();
    consumers.stop();
    await looking;
    assert.deepEqual([clock.pendingTimers, changes(), consumers.scopesOf('erp')], [0, 0, undefined]);
  });
});
