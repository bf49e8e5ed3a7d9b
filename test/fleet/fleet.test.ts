/**
 * A small fleet against a real broker: what `npm run soak -- fleet` does with a thousand boxes. How fast they are back
 * depends on the machine; that all come back, that nothing is missing and that they do not all come at once does not.
 */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { temporaryDirectory } from '../e2e/daemon.ts';
import { brokerMissing } from '../kafka/broker.ts';
import { fleetRun } from '../soak/fleet.ts';

const BOXES = 20;

it('a fleet that loses its broker comes back one after the other, and each change arrives in order', {
  skip: brokerMissing,
}, async (t) => {
  const setting = {
    boxes: BOXES,
    boxesPerCrew: 10,
    tls: false,
    seed: 1,
    awayMs: 3_000,
    everyMs: 2_000,
    quietMs: 1_000,
  };
  const report = await fleetRun(temporaryDirectory(), setting, (line) => t.diagnostic(line));
  for (const { backMs, attempts } of [report.begun, report.cut, report.killed]) {
    assert.equal(backMs.length, BOXES);
    assert.ok(attempts >= BOXES, `${attempts} connections`);
  }
  // librdkafka alone has every one of them try again at once, and four times each second from then on.
  const { firstHalfSecond } = report.cut;
  assert.ok(firstHalfSecond < BOXES / 2, `${firstHalfSecond} connections in the half second after the cut`);
  assert.ok(report.written > 2 * BOXES, `${report.written} changes`);
  assert.deepEqual([report.missing, report.late], [0, 0]);
  assert.equal(report.messages, report.written + report.duplicates);
});
