/** Asks every network of this machine for boxes by multicast DNS. Loaded only by `lineside discover`. */
import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import makeMdns, { type MulticastDNS } from 'multicast-dns';
import { type Clock, pause } from '../../shared/base/clock.ts';
import { messageOf, systemCode } from '../../shared/base/errors.ts';
import { CliFailure, exitStatus } from '../failure.ts';
import { safeText } from '../output/hex.ts';
import { Boxes, type FoundBox, type LooseRecord, serviceName } from './boxes.ts';

/** RFC 6762, 5.2: at least a second between the first two questions. */
const askEveryMs = 1_000;
/** A laptop has two or three; containers bring many. */
const maxInterfaces = 16;
/** A full network answers with far less; then further answers are ignored. Bounds the work that others can make. */
const maxPackets = 10_000;

/** Loopback, multicast and the like, which boxes have too; link-local IPv6 only means something with an interface. */
const notCallable = /^(0|127|22[4-9]|2[3-5]\d)\.|^::|^f[ef]/i;

/** Ends after limitMs, or when the signal fires. */
export async function discover(clock: Clock, limitMs: number, stop: AbortSignal): Promise<readonly FoundBox[]> {
  const boxes = new Boxes((text) => isIP(text) !== 0 && !notCallable.test(text));
  const failed = new AbortController();
  let packets = 0;
  const asking = ownAddresses().map((address) => {
    const mdns = listenAt(address);
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
  throw new CliFailure({
    status: exitStatus.unreachable,
    code: 'NO_NETWORK',
    why: 'this machine has no network',
    next: 'Plug in the cable, or join the Wi-Fi that the box is in.',
  });
}

function listenAt(address: string): MulticastDNS {
  const mdns = makeMdns({ interface: address, bind: '0.0.0.0', reuseAddr: true });
  // Packets that cannot be read, an interface that has just gone: others may answer still.
  mdns.on('warning', () => undefined);
  mdns.setMaxListeners(0);
  return mdns;
}

function cannotAsk(error: unknown): CliFailure {
  const code = systemCode(error);
  const why = code === 'EADDRINUSE' ? 'another program keeps port 5353 (multicast DNS) to itself' : messageOf(error);
  return new CliFailure({ status: exitStatus.unreachable, code: code || 'MDNS', why: safeText(why), cause: error });
}
