/** discover: asks every network of this machine for boxes by multicast DNS. */
import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import { type Clock, pause } from '../../shared/base/clock.ts';
import { messageOf, systemCode } from '../../shared/base/errors.ts';
import type { Entry } from '../command.ts';
import { CliFailure, exitStatus } from '../failure.ts';
import { safeText } from '../output/hex.ts';
import { jsonLine } from '../output/json.ts';
import { labelled } from '../output/table.ts';
import type { Call } from '../shell.ts';
import { Boxes, type FoundBox, type LooseRecord, serviceName } from './boxes.ts';
import { fingerprintText } from './fingerprint.ts';

/** Answers come within a fraction of a second; a second and a third question find who missed the first. */
const usualSeconds = 3;

export const discoverCommands: readonly Entry[] = [
  {
    command: 'discover',
    help: 'find boxes on this LAN (multicast DNS); status 5 when none answers',
    notes: `A fingerprint found this way is a hint, since anybody on the LAN may answer: compare it with what the box itself
shows (lineside identity show), then use it: lineside status --host ADDRESS --fingerprint SHA256.`,
    examples: ['lineside discover', 'lineside discover --timeout 10 --json'],
    on: { aloneSeconds: usualSeconds },
    what: 'look for boxes',
    run: findBoxes,
  },
];

async function findBoxes(call: Call<object>): Promise<number> {
  const boxes = await discover(call.io.clock, call.timeoutMs, call.stop);
  if (call.json) await call.out.write(boxesJson(boxes));
  else await call.out.write(boxes.map((box) => boxText(box)).join('\n'));
  if (boxes.length > 0) return exitStatus.ok;
  if (call.json) return exitStatus.nothing;
  throw new CliFailure('nothing', 'NO_BOX', `none answered within ${call.timeoutMs / 1000} s`, {
    next: 'Check cable and Wi-Fi; firewalls and other subnets stop multicast: then name the box by --host ADDRESS.',
  });
}

/** RFC 6762, 5.2: at least a second between the first two questions. */
const askEveryMs = 1_000;
/** A laptop has two or three; containers bring many. */
const maxInterfaces = 16;
/** A full network answers with far less; then further answers are ignored. Bounds the work that others can make. */
const maxPackets = 10_000;

/** Loopback, multicast and the like, which boxes have too; link-local IPv6 only means something with an interface. */
const notCallable = /^(0|127|22[4-9]|2[3-5]\d)\.|^::|^f[ef]/i;

/** Ends after limitMs, or when the signal fires. */
async function discover(clock: Clock, limitMs: number, stop: AbortSignal): Promise<readonly FoundBox[]> {
  // Loaded only here: it costs start-up time.
  const { default: makeMdns } = await import('multicast-dns');
  const boxes = new Boxes((text) => isIP(text) !== 0 && !notCallable.test(text));
  const failed = new AbortController();
  let packets = 0;
  const asking = ownAddresses().map((address) => {
    const mdns = makeMdns({ interface: address, bind: '0.0.0.0', reuseAddr: true });
    // Packets that cannot be read, an interface that has just gone: others may answer still.
    mdns.on('warning', () => undefined);
    mdns.setMaxListeners(0);
    mdns.on('error', (error) => failed.abort(error));
    mdns.on('response', ({ answers, additionals }, { address: source }) => {
      packets += 1;
      if (packets > maxPackets) return;
      const records: readonly LooseRecord[] = [...(answers ?? []), ...(additionals ?? [])];
      boxes.add(records, source);
    });
    return mdns;
  });
  const ended = AbortSignal.any([stop, failed.signal]);
  const endMs = clock.monoMs() + limitMs;
  try {
    for (let leftMs = limitMs; leftMs > 0 && !ended.aborted; leftMs = endMs - clock.monoMs()) {
      for (const mdns of asking) mdns.query([{ name: serviceName, type: 'PTR' }, ...boxes.questions()]);
      await pause(clock, Math.min(leftMs, askEveryMs), ended);
    }
  } finally {
    for (const mdns of asking) mdns.destroy();
  }
  if (failed.signal.aborted) throw cannotAsk(failed.signal.reason);
  stop.throwIfAborted();
  return boxes.found();
}

/** One of each interface: a question goes out by one alone. */
function ownAddresses(): readonly string[] {
  const addresses = Object.values(networkInterfaces()).flatMap((own = []) => {
    const first = own.find(({ family, internal }) => family === 'IPv4' && !internal);
    return first === undefined ? [] : [first.address];
  });
  if (addresses.length > 0) return addresses.slice(0, maxInterfaces);
  const next = 'Plug in the cable, or join the Wi-Fi that the box is in.';
  throw new CliFailure('unreachable', 'NO_NETWORK', 'this machine has no network', { next });
}

function cannotAsk(error: unknown): CliFailure {
  const code = systemCode(error);
  const why = code === 'EADDRINUSE' ? 'another program keeps port 5353 (multicast DNS) to itself' : messageOf(error);
  return new CliFailure('unreachable', code || 'MDNS', safeText(why), { cause: error });
}

// Boxes for people and scripts.

/** Anybody on the LAN may have written it, and a terminal may show it. */
export function boxesJson(boxes: readonly FoundBox[]): string {
  const shown = boxes.map(({ httpPort, deviceId, version, fingerprint, ...box }) => ({
    ...box,
    httpPort: httpPort ?? null,
    deviceId: deviceId ?? null,
    version: version ?? null,
    fingerprint: fingerprint === undefined ? null : fingerprintText(fingerprint),
  }));
  return jsonLine({ boxes: shown });
}

/** Nothing is cut: an address or a fingerprint is to be copied. */
function boxText({ name, host, addresses, grpcPort, httpPort, deviceId, version, fingerprint }: FoundBox): string {
  const rows: readonly (readonly [string, string | undefined])[] = [
    ['  host', safeText(host)],
    ['  address', addresses.join(', ')],
    ['  gRPC port', String(grpcPort)],
    ['  HTTP port', httpPort?.toString()],
    ['  device id', deviceId],
    ['  version', version],
    ['  fingerprint (a hint)', fingerprint === undefined ? undefined : fingerprintText(fingerprint)],
  ];
  const known = rows.flatMap(([label, value]) => (value === undefined ? [] : [[label, value] as const]));
  return `${safeText(name)}\n${labelled(known, 0)}`;
}
