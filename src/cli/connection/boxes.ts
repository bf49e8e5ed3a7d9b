/**
 * Boxes of lineside in what is answered on the LAN (DNS-SD, RFC 6763). Anybody may answer anything, so everything is
 * bounded and checked before it is kept, and nothing of it is trusted. Pure.
 */
import { parseFingerprint } from './fingerprint.ts';

export const serviceName = '_lineside._tcp.local';

/** A record as the decoder gives it: nothing of it has been looked at. */
export interface LooseRecord {
  readonly type?: unknown;
  readonly name?: unknown;
  readonly data?: unknown;
  readonly ttl?: unknown;
}

export interface FoundBox {
  /** Its name on the LAN: up to 63 bytes of anything. */
  readonly name: string;
  readonly host: string;
  readonly addresses: readonly string[];
  readonly grpcPort: number;
  /** undefined: it does not say, or nothing that it could be. */
  readonly httpPort: number | undefined;
  readonly deviceId: string | undefined;
  readonly version: string | undefined;
  /** 64 lower-case digits; any machine that answers may write any. */
  readonly fingerprint: string | undefined;
}

interface Announced {
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
/** What is asked for in one question; the rest comes with the next round. */
const maxQuestions = 32;

/** What has been said so far. */
export class Boxes {
  readonly #boxes = new Map<string, Announced>();
  readonly #addresses = new Map<string, Set<string>>();
  readonly #boxShares = new Shares();
  readonly #hostShares = new Shares();
  readonly #isAddress: (text: string) => boolean;

  /** `isAddress`: whether a text is an IP address that can be called. */
  constructor(isAddress: (text: string) => boolean) {
    this.#isAddress = isAddress;
  }

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
  found(): FoundBox[] {
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
    if (typeof data !== 'string' || !this.#isAddress(data)) return;
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
  return new TextEncoder().encode(name).length <= maxLabelBytes ? name : undefined;
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
    const text = one instanceof Uint8Array ? new TextDecoder().decode(one) : '';
    const at = text.indexOf('=');
    const key = text.slice(0, at).toLowerCase();
    if (at > 0 && !found.has(key)) found.set(key, text.slice(at + 1));
  }
  return found;
}

function factsOf(txt: Announced['txt']) {
  const http = txt?.get('http') ?? '';
  const port = /^\d{1,5}$/.test(http) ? Number(http) : 0;
  return {
    httpPort: isPort(port) ? port : undefined,
    deviceId: matching(txt?.get('id'), /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/),
    version: matching(txt?.get('version'), /^[A-Za-z0-9][A-Za-z0-9.+~-]{0,63}$/),
    fingerprint: parseFingerprint(txt?.get('fp') ?? ''),
  };
}

function matching(text: string | undefined, form: RegExp): string | undefined {
  return text !== undefined && form.test(text) ? text : undefined;
}
