/** discover: queries every network of this machine for boxes by multicast DNS. */
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
import { fingerprintText, parseFingerprint } from './endpoint.ts';

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
  await call.out.write(
    call.json ? jsonLine({ boxes: boxes.map((box) => ({ ...box })) }) : boxes.map(boxText).join('\n'),
  );
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
async function discover(clock: Clock, limitMs: number, stop: AbortSignal) {
  // Loaded only here: it costs start-up time.
  const { default: makeMdns } = await import('multicast-dns');
  const boxes = new Boxes();
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

/** One of each interface: a query is sent on one interface only. */
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

/** Nothing is cut: an address or a fingerprint is to be copied. */
function boxText(box: ReturnType<Boxes['found']>[number]): string {
  const { name, host, addresses, grpcPort, httpPort, deviceId, version, fingerprint } = box;
  const rows: readonly (readonly [string, string | null | undefined])[] = [
    ['  host', safeText(host)],
    ['  address', addresses.join(', ')],
    ['  gRPC port', String(grpcPort)],
    ['  HTTP port', httpPort?.toString()],
    ['  device id', deviceId],
    ['  version', version],
    ['  fingerprint (a hint)', fingerprint],
  ];
  const known = rows.flatMap(([label, value]) => (value == null ? [] : [[label, value] as const]));
  return `${safeText(name)}\n${labelled(known, 0)}`;
}

// Boxes of lineside in the answers of the LAN (DNS-SD, RFC 6763). Any machine may answer anything: everything is bounded and
// checked before it is kept, and nothing of it is trusted.

const serviceName = '_lineside._tcp.local';

/** A record as the decoder gives it, unchecked. */
export type LooseRecord = { readonly [Field in 'type' | 'name' | 'data' | 'ttl']?: unknown };

interface Announced {
  /** Its name on the LAN: up to 63 bytes of anything. */
  readonly name: string;
  srv?: { readonly host: string; readonly port: number };
  txt?: ReadonlyMap<string, string>;
}

/** More is no plant but an attack, or a LAN that wants another tool. */
const maxBoxes = 256;
/** Every machine on the LAN may be heard, not only boxes. */
const maxHosts = 2_048;
/** A box answers for itself alone, a gateway between networks for those behind it: one liar leaves room for the rest. */
const maxOfOneSource = 64;
const maxSources = 1_024;
/** IPv4, IPv6, and one of each on a second interface. */
const maxAddresses = 8;
/** RFC 1035: a label, and a whole name. */
const maxLabelBytes = 63;
const maxNameChars = 255;
/** Ours are four; other services stay below twenty. */
const maxTxtStrings = 64;
/** Of one query; further ones follow in the next round. */
const maxQuestions = 32;

/** What has been said so far. */
export class Boxes {
  readonly #boxes = new Map<string, Announced>();
  readonly #addresses = new Map<string, Set<string>>();
  readonly #boxShares = new Shares();
  readonly #hostShares = new Shares();

  /** Records in any order: addresses may come before the box whose they are. `source`: who sent them. */
  add(records: readonly LooseRecord[], source: string): void {
    for (const record of records) {
      const name = nameOf(record.name);
      // A box that says goodbye (RFC 6762, 10.1) is about to be gone.
      if (name === undefined || record.ttl === 0) continue;
      this.#addOne(record, name, source);
    }
  }

  /** Those that can be called, by name. */
  found() {
    const whole = [...this.#boxes.values()].flatMap(({ name, srv, txt }) => {
      const addresses = [...(this.#addresses.get(srv?.host.toLowerCase() ?? '') ?? [])].sort();
      return srv === undefined || addresses.length === 0
        ? []
        : [{ name, host: srv.host, addresses, grpcPort: srv.port, ...factsOf(txt) }];
    });
    return whole.sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** What is still to be asked for boxes that are known in part. */
  questions(): readonly { readonly name: string; readonly type: 'SRV' | 'TXT' | 'A' | 'AAAA' }[] {
    const all = [...this.#boxes.entries()].flatMap(([instance, { srv, txt }]) => {
      const host = srv?.host ?? '';
      const hasAddress = this.#addresses.has(host.toLowerCase());
      return [
        ...(srv === undefined ? [{ name: instance, type: 'SRV' } as const] : []),
        ...(txt === undefined ? [{ name: instance, type: 'TXT' } as const] : []),
        ...(srv === undefined || hasAddress ? [] : [{ name: host, type: 'A' } as const]),
      ];
    });
    return all.slice(0, maxQuestions);
  }

  #addOne({ type, data }: LooseRecord, name: string, source: string): void {
    switch (type) {
      case 'PTR':
        if (name.toLowerCase() === serviceName) this.#box(nameOf(data), source);
        break;
      case 'SRV': {
        const srv = srvOf(data);
        const box = srv === undefined ? undefined : this.#box(name, source);
        if (box !== undefined && srv !== undefined) box.srv = srv;
        break;
      }
      case 'TXT': {
        const box = this.#box(name, source);
        if (box !== undefined) box.txt = txtOf(data);
        break;
      }
      case 'A':
      case 'AAAA':
        this.#address(name, data, source);
        break;
      default:
    }
  }

  #box(instance: string | undefined, source: string): Announced | undefined {
    const name = instanceName(instance ?? '');
    if (name === undefined || instance === undefined) return undefined;
    const key = instance.toLowerCase();
    const known = this.#boxes.get(key);
    if (known !== undefined || this.#boxes.size >= maxBoxes || !this.#boxShares.take(source)) return known;
    const made: Announced = { name };
    this.#boxes.set(key, made);
    return made;
  }

  #address(host: string, data: unknown, source: string): void {
    if (typeof data !== 'string' || isIP(data) === 0 || notCallable.test(data)) return;
    const key = host.toLowerCase();
    const known = this.#addresses.get(key);
    if (known === undefined) {
      if (this.#addresses.size >= maxHosts || !this.#hostShares.take(source)) return;
      this.#addresses.set(key, new Set([data]));
    } else if (known.size < maxAddresses) {
      known.add(data);
    }
  }
}

/** How much was first heard of from each address. */
class Shares {
  readonly #taken = new Map<string, number>();

  /** False: it has had its share. */
  take(source: string): boolean {
    const taken = this.#taken.get(source) ?? 0;
    if (taken >= maxOfOneSource || (taken === 0 && this.#taken.size >= maxSources)) return false;
    this.#taken.set(source, taken + 1);
    return true;
  }
}

function nameOf(value: unknown): string | undefined {
  return typeof value === 'string' && value.length > 0 && value.length <= maxNameChars ? value : undefined;
}

/** "box" of "box._lineside._tcp.local": one label, in which dots are allowed. */
function instanceName(full: string): string | undefined {
  const end = full.length - serviceName.length - 1;
  if (end < 1 || full.slice(end).toLowerCase() !== `.${serviceName}`) return undefined;
  const name = full.slice(0, end);
  return Buffer.byteLength(name) <= maxLabelBytes ? name : undefined;
}

function srvOf(data: unknown): Announced['srv'] {
  if (typeof data !== 'object' || data === null) return undefined;
  const { port, target } = data as { port?: unknown; target?: unknown };
  const host = nameOf(target);
  return host === undefined || !isPort(port) ? undefined : { host, port };
}

function isPort(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= 65_535;
}

/** key=value each; of a key that comes twice the first counts (RFC 6763, 6.4). */
function txtOf(data: unknown): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  const strings = Array.isArray(data) ? (data as readonly unknown[]) : [data];
  for (const one of strings.slice(0, maxTxtStrings)) {
    const text = one instanceof Uint8Array ? Buffer.from(one).toString() : '';
    const at = text.indexOf('=');
    const key = text.slice(0, at).toLowerCase();
    if (at > 0 && !found.has(key)) found.set(key, text.slice(at + 1));
  }
  return found;
}

/** null: it does not say, or what it says cannot be. Any machine that answers may write any fingerprint. */
function factsOf(txt: Announced['txt']) {
  const http = txt?.get('http') ?? '';
  const port = /^\d{1,5}$/.test(http) ? Number(http) : 0;
  const digits = parseFingerprint(txt?.get('fp') ?? '');
  return {
    httpPort: isPort(port) ? port : null,
    deviceId: matching(txt?.get('id'), /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/),
    version: matching(txt?.get('version'), /^[A-Za-z0-9][A-Za-z0-9.+~-]{0,63}$/),
    fingerprint: digits === undefined ? null : fingerprintText(digits),
  };
}

function matching(text: string | undefined, form: RegExp): string | null {
  return text !== undefined && form.test(text) ? text : null;
}
