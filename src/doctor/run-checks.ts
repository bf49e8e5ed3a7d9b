/** All checks, in the order in which they are shown, and how they are run: at once, each with its limit. */
import { messageOf, systemCode } from '../shared/base/errors.ts';
import { Redactor } from '../shared/base/redactor.ts';
import { type Checked, type Finding, failed, skipped, worst } from './check.ts';
import { type Check, type CheckContext, configured, within } from './check-context.ts';
import { checkCertificates, checkTokens, checkWebhooks, judgeConfiguration } from './checks/configuration.ts';
import { checkDatabases, checkDisk } from './checks/disk.ts';
import { checkClock, checkConsole, checkSlots, checkUart, judgeMachine, machineFacts } from './checks/machine.ts';
import { checkNetwork } from './checks/network.ts';
import { checkPermissions } from './checks/permissions.ts';
import { brokerLimitMs, checkBroker, checkUpstream } from './checks/remotes.ts';
import { checkJournal, checkListeners, checkService } from './checks/service.ts';

/** An fsync on a card, or /proc on a busy core, may take some seconds. The check of a collector: 5, 5 and 5 s. */
const usualLimitMs = 16_000;

export const checks: readonly Check[] = [
  { name: 'configuration', title: 'configuration', run: async ({ configFile }) => judgeConfiguration(configFile) },
  { name: 'service', title: 'service', run: configured(checkService) },
  { name: 'listeners', title: 'listeners', run: configured(checkListeners) },
  { name: 'uart', title: 'UART', run: checkUart },
  { name: 'console', title: 'console on the UART', run: checkConsole },
  { name: 'rights', title: 'permissions', run: configured(checkPermissions) },
  { name: 'clock', title: 'clock', run: checkClock },
  { name: 'disk', title: 'disk', run: configured(checkDisk) },
  { name: 'databases', title: 'databases', run: checkDatabases },
  { name: 'machine', title: 'machine', run: async (context) => judgeMachine(await machineFacts(context)) },
  { name: 'network', title: 'network and DNS', run: configured(checkNetwork) },
  { name: 'broker', title: 'broker', limitMs: brokerLimitMs, run: configured(checkBroker) },
  { name: 'upstream', title: 'upstream', run: configured(checkUpstream) },
  { name: 'webhooks', title: 'webhooks', run: configured(checkWebhooks) },
  { name: 'certificates', title: 'certificates', run: configured(checkCertificates) },
  { name: 'tokens', title: 'tokens', run: checkTokens },
  { name: 'slots', title: 'update slots', run: checkSlots },
  { name: 'journal', title: 'journal', run: checkJournal },
];

export const titleWidth = Math.max(...checks.map(({ title }) => title.length)) + 2;

const redactor = new Redactor();

/** `onChecked` is called for each check in order, as soon as those before it are known. */
export async function runChecks(
  context: CheckContext,
  onChecked: (checked: Checked) => void = () => undefined,
  all: readonly Check[] = checks,
): Promise<Checked[]> {
  const running = all.map((one) => runCheck(context, one));
  const done: Checked[] = [];
  for (const one of running) {
    const checked = await one;
    onChecked(checked);
    done.push(checked);
  }
  return done;
}

async function runCheck(context: CheckContext, { name, title, limitMs = usualLimitMs, run }: Check): Promise<Checked> {
  const started = context.clock.monoMs();
  const late = `this did not end within ${limitMs / 1000} s`;
  const hang = failed(
    late,
    'Something it asks hangs (a disk, a mount of the network, a name server), or the processor is overloaded.',
  );
  let findings: Finding[];
  try {
    findings = [...(await within(context.clock, limitMs, run(context), [hang]))];
  } catch (error) {
    const why = systemCode(error) || messageOf(error).split('\n')[0];
    findings = [failed(`this could not be checked: ${why ?? ''}`, 'Keep a support bundle and report it.')];
  }
  const known = findings.length > 0 ? findings : [skipped('the configuration cannot be read', 'See configuration.')];
  const shown = known.map(({ state, found, todo }) => ({ state, found: redactor.text(found), todo }));
  return { name, title, state: worst(shown), findings: shown, tookMs: Math.round(context.clock.monoMs() - started) };
}
