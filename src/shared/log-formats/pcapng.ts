/**
 * The log as a pcapng capture that Wireshark opens. Sources: the pcapng specification (draft-ietf-opsawg-pcapng) for the blocks,
 * tcpdump.org's LINKTYPE_RTAC_SERIAL for the 12-byte header before each packet's bytes: seconds (4, big-endian), microseconds (4),
 * event type (1), control lines (1), reserved (2). Pure.
 */

const SECTION_HEADER = 0x0a0d0d0a;
const INTERFACE_DESCRIPTION = 1;
const ENHANCED_PACKET = 6;
const BYTE_ORDER_MAGIC = 0x1a2b3c4d;
const LINK_TYPE_RTAC_SERIAL = 250;

const OPT_COMMENT = 1;
const SHB_USER_APPL = 4;
const IF_DESCRIPTION = 3;
const IF_TS_RESOL = 9;
const EPB_FLAGS = 2;

/** Timestamps count in units of 10^-3 s. */
const MILLISECOND_RESOLUTION = 3;
const HEADER_BYTES = 12;
/** Wireshark refuses a file with a packet above 262,144 bytes; an entry can have 1 MiB and is split. */
const MAX_DATA_BYTES = 262_144 - HEADER_BYTES;
const LONGEST_OPTION = 65_532;

const EVENT_STATUS_CHANGE = 0;
const EVENT_TX_START = 1;
const EVENT_RX_START = 2;
const EVENT_DATA_LOST = 5;
const INBOUND = 1;
const OUTBOUND = 2;

type Parts = readonly Uint8Array[];

/** The section header and the one interface: what a capture begins with. */
export function captureHead(): Uint8Array {
  const section = new Uint8Array(16);
  const fields = new DataView(section.buffer);
  fields.setUint32(0, BYTE_ORDER_MAGIC, true);
  fields.setUint16(4, 1, true);
  // Length of the section: not known beforehand.
  section.fill(0xff, 8, 16);
  const line = new Uint8Array(8);
  new DataView(line.buffer).setUint16(0, LINK_TYPE_RTAC_SERIAL, true);
  const parts = [
    ...block(SECTION_HEADER, [section, ...textOption(SHB_USER_APPL, 'lineside')]),
    ...block(INTERFACE_DESCRIPTION, [
      line,
      ...textOption(IF_DESCRIPTION, 'serial line'),
      ...option(IF_TS_RESOL, Uint8Array.of(MILLISECOND_RESOLUTION)),
    ]),
  ];
  return Uint8Array.from(parts.flatMap((part) => [...part]));
}

/** A packet, or several if the entry is larger than Wireshark takes; the note is the comment of the first. */
export function captureOfEntry(isSent: boolean, timestampMs: number | string, bytes: Uint8Array, note: string): Parts {
  const event = bytes.length === 0 ? EVENT_STATUS_CHANGE : isSent ? EVENT_TX_START : EVENT_RX_START;
  const direction = isSent ? OUTBOUND : INBOUND;
  const count = Math.max(1, Math.ceil(bytes.length / MAX_DATA_BYTES));
  return Array.from({ length: count }, (_, at) => {
    const data = bytes.subarray(at * MAX_DATA_BYTES, (at + 1) * MAX_DATA_BYTES);
    const part = count === 1 ? '' : `part ${at + 1} of ${count} of one entry`;
    const comment = [part, at === 0 ? note : ''].filter((text) => text !== '').join('; ');
    return packet({ timestampMs, event, direction, data, comment });
  }).flat();
}

/** Entries that could not be stored: an event without bytes, described in its comment. */
export function captureOfGap(timestampMs: number | string, comment: string): Parts {
  return packet({ timestampMs, event: EVENT_DATA_LOST, direction: 0, data: new Uint8Array(), comment });
}

function packet(of: {
  readonly timestampMs: number | string;
  readonly event: number;
  readonly direction: number;
  readonly data: Uint8Array;
  readonly comment: string;
}): Parts {
  const { timestampMs, data, comment } = of;
  const length = HEADER_BYTES + data.length;
  const fixed = new Uint8Array(20 + HEADER_BYTES);
  const fields = new DataView(fixed.buffer);
  const exactMs = BigInt(timestampMs);
  fields.setUint32(4, Number((exactMs >> 32n) & 0xffffffffn), true);
  fields.setUint32(8, Number(exactMs & 0xffffffffn), true);
  fields.setUint32(12, length, true);
  fields.setUint32(16, length, true);
  fields.setUint32(20, Number((exactMs / 1_000n) & 0xffffffffn));
  fields.setUint32(24, Number(exactMs % 1_000n) * 1_000);
  fields.setUint8(28, of.event);
  const said = comment === '' ? [] : textOption(OPT_COMMENT, comment);
  return block(ENHANCED_PACKET, [fixed, data, padding(length), ...said, ...option(EPB_FLAGS, word(of.direction))]);
}

function word(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return bytes;
}

const encoder = new TextEncoder();

function textOption(code: number, text: string): Parts {
  return option(code, encoder.encode(text).subarray(0, LONGEST_OPTION));
}

function option(code: number, value: Uint8Array): Parts {
  const head = new Uint8Array(4);
  const fields = new DataView(head.buffer);
  fields.setUint16(0, code, true);
  fields.setUint16(2, value.length, true);
  return [head, value, padding(value.length)];
}

function padding(length: number): Uint8Array {
  return new Uint8Array((4 - (length % 4)) % 4);
}

/** `parts`: the body, with options at its end; their end is added. */
function block(type: number, parts: Parts): Parts {
  const endOfOptions = new Uint8Array(4);
  const total = 16 + parts.reduce((sum, part) => sum + part.length, 0);
  return [word(type), word(total), ...parts, endOfOptions, word(total)];
}
