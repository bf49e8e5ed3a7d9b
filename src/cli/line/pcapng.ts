/**
 * The log as a pcapng capture that Wireshark opens. Pure. Sources: the pcapng specification (draft-ietf-opsawg-pcapng)
 * for the blocks, tcpdump.org's LINKTYPE_RTAC_SERIAL for the 12-byte header before each packet's bytes:
 * seconds (4, big-endian), microseconds (4), event type (1), control lines (1), reserved (2).
 */
import { big, exact, type Uint64 } from '../output/numbers.ts';

const sectionHeader = 0x0a0d0d0a;
const interfaceDescription = 1;
const enhancedPacket = 6;
const byteOrderMagic = 0x1a2b3c4d;
const linkTypeRtacSerial = 250;

const optEnd = 0;
const optComment = 1;
const shbUserAppl = 4;
const ifDescription = 3;
const ifTsResol = 9;
const epbFlags = 2;

/** Timestamps count in units of 10^-3 s. */
const millisecondResolution = 3;
const headerBytes = 12;
/** Wireshark refuses a file with a packet above 262,144 bytes; an entry can have 1 MiB and is split. */
const maxDataBytes = 262_144 - headerBytes;

const eventStatusChange = 0;
const eventTxStart = 1;
const eventRxStart = 2;
const eventDataLost = 5;
const inbound = 1;
const outbound = 2;
const longestOption = 65_532;

/** The section header and the one interface: what a capture begins with. */
export function captureHead(application: string): Buffer {
  const section = Buffer.alloc(16);
  section.writeUInt32LE(byteOrderMagic, 0);
  section.writeUInt16LE(1, 4);
  // Length of the section: not known beforehand.
  section.fill(0xff, 8, 16);
  const line = Buffer.alloc(8);
  line.writeUInt16LE(linkTypeRtacSerial, 0);
  const resolution = Buffer.from([millisecondResolution]);
  return Buffer.concat([
    block(sectionHeader, [section, option(shbUserAppl, Buffer.from(application)), end]),
    block(interfaceDescription, [
      line,
      option(ifDescription, Buffer.from('serial line')),
      option(ifTsResol, resolution),
      end,
    ]),
  ]);
}

interface CaptureEntry {
  /** 0 TX, 1 RX. */
  readonly dir: number;
  readonly timestamp: Uint64;
  readonly rawData: Uint8Array;
}

/** One entry: a packet, or several where it is larger than Wireshark takes; the note is the comment of the first. */
export function capturePackets({ dir, timestamp, rawData }: CaptureEntry, note: string): Buffer {
  const event = rawData.length === 0 ? eventStatusChange : dir === 0 ? eventTxStart : eventRxStart;
  const direction = dir === 0 ? outbound : inbound;
  if (rawData.length <= maxDataBytes) return packet({ timestamp, event, direction, data: rawData, comment: note });
  const parts: Buffer[] = [];
  const count = Math.ceil(rawData.length / maxDataBytes);
  for (let at = 0; at < count; at += 1) {
    const data = rawData.subarray(at * maxDataBytes, (at + 1) * maxDataBytes);
    const comment = [`part ${at + 1} of ${count} of one entry`, at === 0 ? note : '']
      .filter((text) => text !== '')
      .join('; ');
    parts.push(packet({ timestamp, event, direction, data, comment }));
  }
  return Buffer.concat(parts);
}

/** Entries that could not be stored: an event without bytes, said in its comment. */
export function captureGap(timestamp: Uint64, comment: string): Buffer {
  return packet({ timestamp, event: eventDataLost, direction: 0, data: new Uint8Array(), comment });
}

interface PacketParts {
  readonly timestamp: Uint64;
  readonly event: number;
  readonly direction: number;
  readonly data: Uint8Array;
  readonly comment: string;
}

function packet({ timestamp, event, direction, data, comment }: PacketParts): Buffer {
  const length = headerBytes + data.length;
  const fixed = Buffer.alloc(20 + headerBytes);
  const stamp = big(timestamp);
  fixed.writeUInt32LE(Number(stamp >> 32n), 4);
  fixed.writeUInt32LE(Number(stamp & 0xffff_ffffn), 8);
  fixed.writeUInt32LE(length, 12);
  fixed.writeUInt32LE(length, 16);
  const ms = Number(exact(timestamp));
  fixed.writeUInt32BE(Math.floor(ms / 1000) % 2 ** 32, 20);
  fixed.writeUInt32BE((ms % 1000) * 1000, 24);
  fixed.writeUInt8(event, 28);
  const options = [
    comment === '' ? empty : option(optComment, Buffer.from(comment).subarray(0, longestOption)),
    option(epbFlags, word(direction)),
    end,
  ];
  return block(enhancedPacket, [fixed, data, padding(length), ...options]);
}

const empty = Buffer.alloc(0);
const end = Buffer.alloc(4, optEnd);

function word(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function option(code: number, value: Buffer): Buffer {
  const head = Buffer.alloc(4);
  head.writeUInt16LE(code, 0);
  head.writeUInt16LE(value.length, 2);
  return Buffer.concat([head, value, padding(value.length)]);
}

function padding(length: number): Buffer {
  return Buffer.alloc((4 - (length % 4)) % 4);
}

function block(type: number, parts: readonly Uint8Array[]): Buffer {
  const total = 12 + parts.reduce((sum, part) => sum + part.length, 0);
  return Buffer.concat([word(type), word(total), ...parts, word(total)]);
}
