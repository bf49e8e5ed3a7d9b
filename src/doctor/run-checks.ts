/** All checks, in the order in which they are shown, and how they are run: at once, each with its limit. */
import { endsWithin } from '../shared/base/clock.ts';
import { messageOf, systemCode } from '../shared/base/errors.ts';
import { type Checked, type CheckName, type Finding, failed, skipped, worst } from './check.ts';
import { isOnNetwork, type Place } from './check-context.ts';
import { checkBroker } from './checks/broker.ts';
import { checkCertificates } from './checks/certificates.ts';
import { checkWebhooks, judgeConfiguration, judgeTokens } from './checks/configuration.ts';
import { checkDatabases, checkDisk } from './checks/disk.ts';
import { checkClock, checkMachine, checkSlots } from './checks/machine.ts';
import { checkNetwork } from './checks/network.ts';
import { checkRights } from './checks/permissions.ts';
import { checkJournal, checkListeners, checkService } from './checks/service.ts';
import { checkConsole, checkUart } from './checks/uart.ts';
import { checkUpstream } from './checks/upstream.ts';
import { Redactor } from './redactor.ts';

export interface Check extends CheckName {
  readonly limitMs: number;
  readonly run: (place: Place) => Promise<readonly Finding[]>;
}

/** A card may hold an fsync for some seconds, a board with one busy core any look at /proc. A collector: 5, 5 and 5 s. */
const usualLimitMs = 16_000;
/** A name, connection, TLS, login, and TLS once more where a plain port hangs up: 6, 5, 5, 14 and 10 s, never all of them. */
const brokerLimitMs = 36_000;

function check(name: string, title: string, run: Check['run'], limitMs = usualLimitMs): Check {
  return { name, title, run, limitMs };
}

export const checks: readonly Check[] = [
  check('configuration', 'configuration', async ({ reading }) => judgeConfiguration(reading)),
  check('service', 'service', checkService),
  check('listeners', 'listeners', checkListeners),
  check('uart', 'UART', checkUart),
  check('console', 'console on the UART', checkConsole),
  check('rights', 'permissions', checkRights),
  check('clock', 'clock', checkClock),
  check('disk', 'disk', checkDisk),
  check('databases', 'databases', checkDatabases),
  check('machine', 'machine', checkMachine),
  check('network', 'network and DNS', checkNetwork),
  check('broker', 'broker', checkBroker, brokerLimitMs),
  check('upstream', 'upstream', checkUpstream),
  check('webhooks', 'webhooks', checkWebhooks),
  check('certificates', 'certificates', checkCertificates),
  check('tokens', 'tokens', async ({ tokens, config }) => judgeTokens(tokens, isOnNetwork(config))),
  check('slots', 'update slots', checkSlots),
  check('journal', 'journal', checkJournal),
];

export const titleWidth = Math.max(...checks.map(({ title }) => title.length)) + 2;

/** Whatever a check said, no secret leaves it. */
const redactor = new Redactor();

/** `onChecked` is called for each check in order, as soon as those before it are known. */
export async function runChecks(
  place: Place,
  onChecked: (checked: Checked) => void = () => undefined,
  all: readonly Check[] = checks,
): Promise<Checked[]> {
  const running = all.map((one) => runCheck(place, one));
  const done: Checked[] = [];
  for (const one of running) {
    const checked = await one;
    onChecked(checked);
    done.push(checked);
  }
  return done;
}

async function runCheck(place: Place, { name, title, limitMs, run }: Check): Promise<Checked> {
  const started = place.clock.monoMs();
  let findings: readonly Finding[] = [late(limitMs)];
  try {
    await endsWithin(
      place.clock,
      limitMs,
      run(place).then((found) => (findings = found)),
    );
  } catch (error) {
    const why = systemCode(error) === '' ? messageOf(error).split('\n')[0] : systemCode(error);
    findings = [failed(`this could not be looked at: ${why ?? ''}`, 'Keep a support bundle and report it.')];
  }
  const known = findings.length > 0 ? findings : [skipped('the configuration cannot be read', 'See configuration.')];
  const shown = known.map(({ state, found, todo }) => ({ state, found: redactor.text(found), todo }));
  return { name, title, state: worst(shown), findings: shown, tookMs: Math.round(place.clock.monoMs() - started) };
}

function late(limitMs: number): Finding {
  return failed(
    `this did not end within ${limitMs / 1000} s`,
    'Something it asks hangs: a disk, a mount of the network, a name server.',
  );
}
