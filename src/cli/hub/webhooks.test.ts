/** webhook: subscriptions, their secrets, test-pings, and what is shown and sent again of deliveries. */
import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import { drivesTerminal, run, testFiles } from '../drive.fixture.ts';
import type { JsonObject } from '../output/json.ts';
import { attempt, delivery, httpSocket, hub, hubForEach, Refusal, subscription } from './fake-hub.fixture.ts';

const SECRET = 'a secret of the subscriber';
const files = testFiles();
const { at, file } = files;
const secretFile = file('secret', `${SECRET}\n`);
hubForEach(files);
const cli = (...argv: string[]) => run(['webhook', ...argv], { httpSocket });
beforeEach(() => {
  const answer = subscription('1', { name: 'mes' });
  hub.answers['POST admin/webhooks/subscriptions'] = answer;
  hub.answers['POST admin/webhooks/test-ping'] = { success: true, statusCode: 202, responseBody: '', elapsedMs: 31 };
});
const required = ['--name', 'mes', '--url', 'https://mes.example/hook'];

/** The bodies that were written, and nothing else was. */
function bodies(): readonly (readonly [string, JsonObject])[] {
  return hub.written.map(({ call, body }) => [call.replace('admin/webhooks/', ''), body]);
}

describe('webhook add', () => {
  it('leaves to the service what is not given', async () => {
    await run(['webhook', 'add', ...required, '--secret-file', '-'], { httpSocket, stdin: `${SECRET}\r\n` });
    assert.deepEqual(bodies(), [
      ['POST subscriptions', { name: 'mes', url: 'https://mes.example/hook', secret: SECRET }],
    ]);
  });

  it('makes a secret of 32 random bytes, and prints it once, as the last line', async () => {
    const first = await cli('add', ...required, '--generate-secret');
    const second = await cli('add', ...required, '--generate-secret', '--json');
    const [sent, other] = bodies().map(([, body]) => body['secret']);
    assert.ok(typeof sent === 'string');
    assert.match(sent, /^[\w-]{43}$/);
    assert.notEqual(sent, other);
    assert.equal(first.stdout, `added subscription 1 (mes)\nIts secret is shown this once:\n${sent}\n`);
    const printed = JSON.parse(second.stdout) as JsonObject;
    assert.deepEqual([printed['id'], printed['secret']], ['1', other]);
  });

  it('never prints a secret that it was given', async () => {
    const { stdout } = await cli('add', ...required, '--secret-file', secretFile, '--json');
    assert.ok(!stdout.includes(SECRET));
    assert.equal((JSON.parse(stdout) as JsonObject)['secret'], undefined);
  });

  it('prints every reason of a refusal, and prints no secret that is not in use', async () => {
    const reasons = ['url: mes.local is a name of the local network', 'scopes: RESTRICTED is not open to mes'];
    hub.refusal = new Refusal(422, 'INVALID_ARGUMENT', 'the subscription cannot be made: it has 2 faults', { reasons });
    const { status, stdout, stderr } = await cli('add', ...required, '--generate-secret');
    assert.deepEqual([status, stdout], [1, '']);
    const wanted = `lineside: cannot add the subscription: it has 2 faults.\n  ${reasons.join('\n  ')}\n`;
    assert.equal(stderr, wanted);
  });

  it('asks for exactly one secret, and for one that a file can hold', async () => {
    file('two-lines', 'first line of it\nsecond\n');
    file('empty', '\n');
    file('latin1', Buffer.from([0xe9, 0x20, 0xff]));
    file('large', 'x'.repeat(10_000));
    const cases: readonly (readonly [number, RegExp, readonly string[]])[] = [
      [2, /there is no secret\. Give --secret-file FILE/, []],
      [2, /there are two secrets\. Give --secret-file/, ['--secret-file', secretFile, '--generate-secret']],
      [1, /cannot use .*two-lines: it has more than one line\. Put the secret/, ['--secret-file', at('two-lines')]],
      [1, /it is empty/, ['--secret-file', at('empty')]],
      [1, /it is not UTF-8/, ['--secret-file', at('latin1')]],
      [1, /more than 8192 bytes/, ['--secret-file', at('large')]],
      [1, /cannot read .*none: there is no such file/, ['--secret-file', at('none')]],
      [2, /unknown option '--secret'/, ['--secret', 'in the list of processes']],
    ];
    for (const [status, text, argv] of cases) {
      const outcome = await cli('add', ...required, ...argv);
      assert.deepEqual([outcome.status, outcome.stdout], [status, ''], outcome.stderr);
      assert.match(outcome.stderr, text);
    }
    assert.deepEqual(bodies(), []);
  });

  it('says which option is wrong, and sends nothing', async () => {
    const cases: readonly (readonly [RegExp, readonly string[]])[] = [
      [/required option '--name/, ['--url', 'https://x.example']],
      [/required option '--url/, ['--name', 'x']],
      [/"SECRET" is no scope\. Known are PUBLIC, INTERNAL, RESTRICTED/, [...required, '--scope', 'SECRET']],
      [/"deleted" is no action\. Known are created, updated, closed/, [...required, '--action', 'deleted']],
      [/"dict\.x" is no category\. Known are record, definition, draft/, [...required, '--category', 'dict.x']],
    ];
    for (const [text, argv] of cases) {
      const outcome = await cli('add', ...argv, '--generate-secret');
      assert.deepEqual([outcome.status, outcome.stdout], [2, '']);
      assert.match(outcome.stderr, text);
    }
    assert.deepEqual(hub.asked, []);
  });
});

describe('subscriptions', () => {
  it('are not changed by nothing, nor by options that exclude each other', async () => {
    for (const [text, ...argv] of [
      [/there is nothing to change\. Give --name, --url/, 'update', '1', '--reason', 'none'],
      [/--action and --all-actions exclude each other/, 'update', '1', '--all-actions', '--action', 'closed'],
      [/--version: "abc" is not a whole number from 1/, 'update', '1', '--name', 'x', '--version', 'abc'],
      [/one line/, 'remove', '1', '--reason', 'a\nb'],
    ] as const) {
      const outcome = await cli(...argv);
      assert.deepEqual([outcome.status, outcome.stdout], [2, ''], argv.join(' '));
      assert.match(outcome.stderr, text);
    }
    assert.deepEqual(hub.asked, []);
    const none = await cli('show', 'x');
    assert.equal(none.stderr, 'lineside: cannot show subscription x: there is no such subscription.\n');
    assert.deepEqual([none.status, none.stdout], [5, '']);
    hub.refusal = new Refusal(412, 'STALE_VERSION', 'the subscription is at version 9 now');
    assert.equal((await cli('update', '1', '--name', 'x', '--version', '7')).status, 1);
  });

  it('get another secret, the old one signing for a while', async () => {
    hub.answers['POST admin/webhooks/subscriptions/1/rotate-secret'] = subscription('1');
    const made = await cli('rotate-secret', '1', '--generate-secret', '--grace', '0');
    assert.match(made.stdout, /, the old one no more\nIts secret is shown this once:\n[\w-]{43}\n$/);
    const usual = await cli('rotate-secret', '1', '--generate-secret');
    assert.match(usual.stdout, /, for a day the old one as well\n/);
    assert.equal(made.stdout.trimEnd().split('\n').at(-1), bodies()[0]?.[1]['secret']);
    for (const grace of ['2592001', '-1', 'day']) {
      const refused = await cli('rotate-secret', '1', '--generate-secret', '--grace', grace);
      assert.equal(refused.status, 2, grace);
    }
    assert.equal((await cli('rotate-secret', '1')).status, 2);
  });
});

describe('webhook ping', () => {
  const ping = (...more: string[]) => cli('ping', 'https://mes.example/hook', '--secret-file', secretFile, ...more);

  it('says that the URL accepts, by its exit status too', async () => {
    const { status, stdout } = await ping();
    assert.deepEqual([status, stdout], [0, 'accepted: HTTP 202 after 31 ms\n']);
    assert.deepEqual(bodies(), [['POST test-ping', { url: 'https://mes.example/hook', secret: SECRET }]]);
  });

  it('says why it does not: the cause in words, every reason, and what was answered', async () => {
    const error = { kind: 'ssrf', message: 'mes.example may not be called', reasons: ['port 22', 'user info'] };
    hub.answers['POST admin/webhooks/test-ping'] = {
      success: false,
      statusCode: null,
      responseBody: '',
      elapsedMs: 2,
      error,
    };
    const refused = await ping();
    assert.equal(refused.status, 1);
    assert.equal(
      refused.stdout,
      'NOT ACCEPTED  it may not be called (ssrf); no answer after 2 ms\n' +
        'Why           mes.example may not be called\n              port 22\n              user info\n',
    );
    const http = { kind: 'http', message: 'HTTP 403' };
    const answered = { success: false, statusCode: 403, responseBody: 'bad\x1b signature', elapsedMs: 40, error: http };
    hub.answers['POST admin/webhooks/test-ping'] = answered;
    const { status, stdout } = await ping();
    assert.match(stdout, /^NOT ACCEPTED .*\(http\); HTTP 403 after 40 ms\nWhy +HTTP 403\nIt said +bad\S+ signature\n$/);
    assert.ok(!drivesTerminal(stdout.replaceAll('\n', '')));
    const json = await ping('--json');
    assert.deepEqual([status, json.status, JSON.parse(json.stdout)], [1, 1, answered]);
  });

  it('needs a secret; a hub that cannot be reached is another status', async () => {
    assert.match((await cli('ping', 'https://x.example')).stderr, /there is no secret\. Give --secret-file FILE/);
    await hub.stop();
    const outcome = await ping();
    assert.deepEqual([outcome.status, outcome.stdout], [3, '']);
    assert.match(outcome.stderr, /^lineside: cannot .*systemctl status lineside-hub/);
  });
});

describe('deliveries', () => {
  const clock = new FakeClock();
  clock.stepWall(Date.parse('2026-03-01T11:37:00Z') - clock.wallMs());
  const timed = (...argv: string[]) => run(['webhook', ...argv], { httpSocket, clock });
  const ofAll = [
    delivery('4-d', {
      attempts: 1,
      state: 'delivered',
      nextAttemptInSeconds: null,
      lastAttempt: attempt(1, accepted()),
    }),
    delivery('3-c', { attempts: 10, state: 'failed', nextAttemptInSeconds: null, lastAttempt: attempt(10) }),
    delivery('2-b', {
      attempts: 2,
      state: 'retrying',
      nextAttemptInSeconds: 118.2,
      lastAttempt: attempt(2, timeout()),
    }),
    delivery('1-a', { subscription: '2', subscriptionName: 'b\x1b[2J' }),
  ];
  function has(items: readonly JsonObject[]): void {
    hub.answers['GET admin/webhooks/deliveries'] = items;
    for (const item of items) hub.answers[`GET admin/webhooks/deliveries/${item['deliveryId'] as string}`] = item;
  }
  function accepted(): JsonObject {
    return { statusCode: 202, cause: null, message: '', responseBody: null };
  }
  function timeout(): JsonObject {
    return { statusCode: null, cause: 'timeout', message: 'no answer within 10 s', responseBody: null };
  }

  it('are listed with age, state, attempts, when the next is, and what the last one met', async () => {
    has(ofAll);
    const { stdout } = await timed('deliveries');
    const [heading, ...rows] = stdout.trimEnd().split('\n');
    assert.match(String(heading), /^DELIVERY +STATE +AGE +TRIES +NEXT IN +LAST +TO$/);
    assert.match(String(rows[0]), /^4-d +delivered +2 h +1 +- +HTTP 202 +site-1$/);
    assert.match(String(rows[1]), /^3-c +FAILED +2 h +10 +- +HTTP 503 +site-1$/);
    assert.match(String(rows[2]), /^2-b +retrying +2 h +2 +1 min +timeout +site-1$/);
    assert.match(String(rows[3]), /^1-a +pending +2 h +0 +due now +- +\S+$/);
    assert.ok(!drivesTerminal(rows.join('')));
  });

  it('are listed of a state and a subscription', async () => {
    has([]);
    assert.equal((await cli('deliveries')).stdout, 'there are no deliveries\n');
    const failed = await cli('deliveries', '--state', 'failed', '--subscription', '2');
    assert.equal(failed.stdout, 'there are no deliveries that are failed\n');
    assert.match(hub.asked.at(-2) ?? '', /deliveries\?state=failed&subscription=2&limit=50$/);
    assert.match((await cli('deliveries', '--state', 'lost')).stderr, /Allowed choices are pending, retrying/);
  });

  it('are listed with a note while the device is offline, but not for scripts', async () => {
    has([]);
    hub.answers['GET admin/webhooks/status'] = { offline: true };
    assert.match(
      (await cli('deliveries')).stdout,
      /^there are no deliveries\nThe device is offline \(no route, or no remote/,
    );
    assert.equal((await cli('deliveries', '--json')).stdout, '');
  });

  it('continues over pages that are empty, as those of a filter may be', async () => {
    const pages: JsonObject[] = [
      { items: [], nextCursor: 'a' },
      { items: [delivery('1-a')], nextCursor: 'b' },
      { items: [], nextCursor: null },
      { offline: false },
    ];
    hub.override = (_, response) =>
      void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(pages.shift()));
    assert.match((await cli('deliveries', '--state', 'pending')).stdout, /\n1-a +pending .*\n$/);
    assert.equal(pages.length, 0);
  });

  it('are shown with every attempt, the last answer and the body', async () => {
    const attemptList = [attempt(1, timeout()), attempt(2, { responseBody: 'no such\ntable' })];
    const shown = delivery('2-b', {
      state: 'failed',
      endedAt: '2026-03-02T16:30:00+00:00',
      attempts: 2,
      attemptList,
      events: 3,
      nextAttemptInSeconds: null,
    });
    has([shown]);
    const { stdout } = await timed('delivery', '2-b');
    assert.match(
      stdout,
      /^Delivery +2-b\nTo +site-1 \(subscription 1\)\nState +FAILED since .*retry 2-b sends it again\n/,
    );
    assert.match(stdout, /\nOccurred .*, 2 h 7 min ago; 3 events\nNext attempt +none\nAttempts +2\n/);
    assert.match(
      stdout,
      /\n +# +BEGAN +TOOK +RESULT\n +1 .* 12 ms +timeout: no answer within 10 s\n +2 .* 12 ms +http: mes\.example answered 503\n/,
    );
    assert.match(stdout, /\nIt said last:\n {2}no such\\ntable\n/);
    assert.match(stdout, /\nBody:\n\{\n {2}"deliveryId": "x",\n {2}"events": \[\]\n\}\n$/);
    assert.deepEqual(JSON.parse((await cli('delivery', '2-b', '--json')).stdout), shown);
    assert.equal((await cli('delivery', '2-b', '--body')).stdout, '{"deliveryId":"x","events":[]}');
  });

  it('say when the next attempt is to the second', async () => {
    has(ofAll);
    assert.match((await cli('delivery', '2-b')).stdout, /\nState +retrying\n(.*\n)*Next attempt +in 1 min 59 s\n/);
    assert.match(
      (await cli('delivery', '1-a')).stdout,
      /\nState +pending\n(.*\n)*Next attempt +due now\nAttempts +none yet\n/,
    );
  });

  it('show a body as it is where laying it out would change a number', async () => {
    has([delivery('1-a', { body: '{"n":12345678901234567890.10,"s":"\x1b[2J"}' })]);
    const { stdout } = await cli('delivery', '1-a');
    assert.match(stdout, /\nBody:\n\{"n":12345678901234567890\.10,"s":"\S+"\}\n$/);
    assert.ok(!drivesTerminal(stdout.replaceAll('\n', '')));
  });

  it('say that a body is not to be had, and that there is no such delivery', async () => {
    has([delivery('1-a', { body: null })]);
    assert.match((await cli('delivery', '1-a')).stdout, /\nBody: it is not kept any more, or your token does not open/);
    const alone = await cli('delivery', '1-a', '--body');
    assert.deepEqual([alone.status, alone.stdout], [5, '']);
    assert.match(alone.stderr, /cannot show delivery 1-a: it is not kept any more/);
    const none = await cli('delivery', '9-x');
    assert.deepEqual([none.status, none.stdout], [5, '']);
    assert.match(none.stderr, /cannot show delivery 9-x: there is no such delivery/);
    assert.equal((await cli('delivery', '1-a', '--body', '--json')).status, 2);
  });

  it('are sent again: one, or those of a subscription in a range', async () => {
    has(ofAll);
    const again = 'POST admin/webhooks/subscriptions/1/resend';
    hub.answers['POST admin/webhooks/deliveries/3-c/resend'] = ofAll[1] ?? null;
    hub.answers[again] = { deliveries: 1204 };
    assert.equal((await cli('retry', '3-c', '--reason', 'fixed')).stdout, 'delivery 3-c is sent again\n');
    const range = [
      '--from',
      '2h',
      '--to',
      '2026-03-01T11:00:00.5+01:00',
      '--state',
      'rejected',
      '--state',
      'delivered',
    ];
    const all = await timed('retry', '--subscription', '1', ...range, '--reason', 'fixed');
    assert.equal(all.stdout, '1,204 deliveries sent again\n');
    const wide = await cli('retry', '--subscription', '1', '--json');
    assert.deepEqual(JSON.parse(wide.stdout), { deliveries: 1204 });
    hub.answers[again] = { deliveries: 0 };
    assert.equal((await cli('retry', '--subscription', '1')).stdout, 'there is none to send again\n');
    const asked = {
      from: '2026-03-01T09:37:00+00:00',
      to: '2026-03-01T10:00:00.500000+00:00',
      states: ['rejected', 'delivered'],
      changeReason: 'fixed',
    };
    assert.deepEqual(bodies(), [
      ['POST deliveries/3-c/resend', { changeReason: 'fixed' }],
      ['POST subscriptions/1/resend', asked],
      ['POST subscriptions/1/resend', {}],
      ['POST subscriptions/1/resend', {}],
    ]);
  });

  it('are not sent again on half a command', async () => {
    const cases: readonly (readonly [RegExp, readonly string[]])[] = [
      [/not said what to send again\. Give the id of a delivery, or --subscription ID/, []],
      [/not said what to send again/, ['3-c', '--subscription', '1']],
      [/--from, --to and --state go with --subscription/, ['3-c', '--from', '2d']],
      [/--from is not before --to/, ['--subscription', '1', '--from', '1h', '--to', '2h']],
      [/"yesterday" is not a time\. Write RFC 3339/, ['--subscription', '1', '--from', 'yesterday']],
      [/what is retrying is sent automatically/, ['--subscription', '1', '--state', 'retrying']],
      [/"lost" is no state\. Sent again are rejected, failed, delivered/, ['--subscription', '1', '--state', 'lost']],
    ];
    for (const [text, argv] of cases) {
      const outcome = await cli('retry', ...argv);
      assert.deepEqual([outcome.status, outcome.stdout], [2, ''], outcome.stderr);
      assert.match(outcome.stderr, text);
    }
    assert.deepEqual(hub.asked, []);
    hub.refusal = new Refusal(409, 'CONFLICT', 'it waits already');
    const waits = await cli('retry', '3-c');
    assert.deepEqual(
      [waits.status, waits.stderr],
      [1, 'lineside: cannot send delivery 3-c again: it waits already.\n'],
    );
  });
});
