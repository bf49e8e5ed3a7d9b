/** Settings of the port: as they are typed, what is wrong with them, and where those in effect are not those asked for. Pure. */
import { lineLimits } from '../../shared/base/line-limits.ts';
import type { LineStatus } from '../../shared/gen/http.ts';
import { countText } from '../format.ts';
import { text } from '../text.ts';

type Requested = NonNullable<LineStatus['requested']>;
type FlowControl = LineStatus['requestedFlowControl'];
type Shown = Pick<Requested, 'baudRate' | 'dataBits' | 'parity' | 'stopBits'> & { readonly flowControl?: FlowControl };

const words = text.settings;
const parityLetters = { none: 'N', even: 'E', odd: 'O', mark: 'M', space: 'S' } as const;

/** "115200 8N1", "9600 7E1, RTS/CTS" */
export function settingsText({ baudRate, dataBits, parity, stopBits, flowControl = 'none' }: Shown): string {
  const flow = flowControl === 'none' ? '' : `, ${words.flowControls[flowControl]}`;
  return `${baudRate} ${dataBits}${parityLetters[parity]}${stopBits}${flow}`;
}

/** "9600 8N1, RX gap 3.646 ms"; undefined: no port is open. */
export function inEffectText({ effective, rxGapUs }: LineStatus): string | undefined {
  return effective === null ? undefined : `${settingsText(effective)}, ${words.gapOf(rxGapUs / 1_000)}`;
}

/** As they are typed and chosen; rxGapMs '': that of the configuration. */
export type TypedSettings = Readonly<
  Record<
    'portName' | 'baudRate' | 'dataBits' | 'parity' | 'stopBits' | 'flowControl' | 'packetSize' | 'rxGapMs',
    string
  >
>;

const usual: Requested = { portName: '', baudRate: 115_200, dataBits: 8, parity: 'none', stopBits: 1, packetSize: 0 };
/** The driver's own rate may be off by so much from the one asked for: Open takes it. */
const TAKEN_BAUD_ERROR = 0.025;

/** Those in effect; of a lost port, those it comes back with; without a port, the usual ones. */
export function settingsNow(status: LineStatus | undefined): TypedSettings {
  const asked = status?.requested ?? usual;
  const now: Shown = status?.effective ?? asked;
  // A divider that is not exact must not become what is asked for.
  const { baudRate } = isSameBaud(asked.baudRate, now.baudRate) ? asked : now;
  return {
    portName: asked.portName,
    baudRate: String(baudRate),
    dataBits: String(now.dataBits),
    parity: now.parity,
    stopBits: String(now.stopBits),
    flowControl: now.flowControl ?? status?.requestedFlowControl ?? 'none',
    packetSize: String(asked.packetSize),
    rxGapMs: status?.rxGapAsked === true ? String(status.requestedRxGapMs) : '',
  };
}

function isSameBaud(asked: number, got: number): boolean {
  return Math.abs(got - asked) <= asked * TAKEN_BAUD_ERROR;
}

/** What Open is asked for. */
interface OpenBody {
  readonly portName: string;
  readonly baudRate: number;
  readonly dataBits: number;
  readonly parity: string;
  readonly stopBits: number;
  readonly flowControl: string;
  readonly packetSize: number;
  readonly rxGapMs?: number;
}

export type SettingFaults = Partial<Readonly<Record<keyof TypedSettings, string>>>;

/** The request, or what is wrong: the field, its value and what is allowed. */
export function readSettings(typed: TypedSettings): { readonly body: OpenBody } | { readonly faults: SettingFaults } {
  const { parity, flowControl } = typed;
  const portName = typed.portName.trim();
  const gap = typed.rxGapMs.trim();
  const faults = {
    ...(portName === '' && { portName: words.faults.noName }),
    ...numberFault(typed, 'baudRate'),
    ...(typed.stopBits === '1.5' && typed.dataBits !== '5' && { stopBits: words.faults.stopBits(typed.dataBits) }),
    ...numberFault(typed, 'packetSize'),
    ...(gap !== '' && numberFault(typed, 'rxGapMs')),
  };
  if (Object.keys(faults).length > 0) return { faults };
  const [baudRate, dataBits, stopBits] = [typed.baudRate, typed.dataBits, typed.stopBits].map(Number) as [
    number,
    number,
    number,
  ];
  const packetSize = Number(typed.packetSize);
  const body = { portName, baudRate, dataBits, parity, stopBits, flowControl, packetSize };
  return { body: { ...body, ...(gap !== '' && { rxGapMs: Number(gap) }) } };
}

function numberFault(typed: TypedSettings, name: 'baudRate' | 'packetSize' | 'rxGapMs'): SettingFaults {
  const value = typed[name].trim();
  const [low, high] = lineLimits[name];
  if (/^\d{1,9}$/.test(value) && Number(value) >= low && Number(value) <= high) return {};
  const fault = words.faults.number(words[name], typed[name], countText(low), countText(high));
  return { [name]: name === 'rxGapMs' ? `${fault}${words.faults.orNothing}` : fault };
}

/** The settings in effect that are not as they were asked for: a driver's rate may be a little off. */
export function differences({ requested, effective, requestedFlowControl }: LineStatus): readonly string[] {
  if (requested === null || effective === null) return [];
  const asked = { ...requested, flowControl: requestedFlowControl };
  return (['baudRate', 'dataBits', 'parity', 'stopBits', 'flowControl'] as const)
    .filter((name) => asked[name] !== effective[name])
    .map((name) => words.differs(words[name], valueText(asked[name]), valueText(effective[name])));
}

function valueText(value: number | string): string {
  return value in words.flowControls ? words.flowControls[value as FlowControl] : String(value);
}
