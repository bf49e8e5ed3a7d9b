/** Which port, and with which settings. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { localProblem, ProblemError } from '../problem.ts';
import type { LineConfig, LineStatus, Page, Parity, Port } from '../shapes.ts';
import { useDoing, useLoaded } from './loading.ts';
import { Dialog, Field, ProblemBox, Select } from './parts.tsx';
import { useSession } from './session.ts';

/** Not among those that were found: its name is typed. */
const OTHER = 'another port';
const usual: LineConfig = { portName: '', baudRate: 115_200, dataBits: 8, parity: 'none', stopBits: 1 };
const bauds = [1200, 2400, 4800, 9600, 19_200, 38_400, 57_600, 115_200, 230_400, 460_800, 921_600];
const parities: readonly (readonly [Parity, string])[] = [
  ['none', 'none'],
  ['even', 'even'],
  ['odd', 'odd'],
  ['mark', 'mark (always 1)'],
  ['space', 'space (always 0)'],
];

export function OpenDialog(props: {
  before: LineConfig | undefined;
  onOpened: (now: LineStatus) => void;
  onClose: () => void;
}): JSX.Element {
  const { api } = useSession();
  const ports = useLoaded('ports', 0, (signal) => api.get<Pick<Page<Port>, 'items'>>('/api/v1/line/ports', signal));
  const doing = useDoing();
  const before = props.before ?? usual;
  const [chosen, choose] = useState('');
  const [typed, setTyped] = useState(before.portName);
  const [settings, setSettings] = useState<Settings>(() => ({
    baud: String(before.baudRate),
    dataBits: String(before.dataBits),
    parity: before.parity,
    stopBits: String(before.stopBits),
  }));
  const found = ports.value?.items ?? [];
  const isKnown = found.some(({ portName }) => portName === before.portName);
  // A name that is not in the list is not exchanged for another one.
  const first = before.portName === '' ? (found[0]?.portName ?? OTHER) : OTHER;
  const port = chosen || (isKnown ? before.portName : first);

  const submit = (event: Event): void => {
    event.preventDefault();
    void doing.run(async () => {
      const portName = port === OTHER ? typed.trim() : port;
      if (portName === '')
        throw new ProblemError(localProblem('No port was named', 'Choose a port, or type its name.'));
      const { packetSize = 0 } = before;
      const body = { portName, ...numbersOf(settings), ...(packetSize > 0 && { packetSize }) };
      const now = await api.send<LineStatus>('POST', '/api/v1/line/open', { body });
      if (now !== undefined) props.onOpened(now);
    });
  };

  return (
    <Dialog title="Open a port" onClose={props.onClose}>
      <form onSubmit={submit} noValidate>
        <ProblemBox problem={ports.problem} />
        <ProblemBox problem={doing.problem} />
        <Select
          label="Port"
          value={port}
          options={[...found.map((one) => [one.portName, portText(one)] as const), [OTHER, 'Another one…']]}
          onChange={choose}
        />
        {port === OTHER && (
          <Field label="Name of the port" hint="For example /dev/ttyUSB0">
            {(attributes) => (
              <input
                {...attributes}
                autoCapitalize="off"
                spellcheck={false}
                value={typed}
                onInput={(event) => {
                  // The list may come while it is typed.
                  choose(OTHER);
                  setTyped(event.currentTarget.value);
                }}
              />
            )}
          </Field>
        )}
        <SettingFields settings={settings} onChange={(more) => setSettings({ ...settings, ...more })} />
        <button type="submit" class="main" disabled={doing.busy}>
          {doing.busy ? 'Opening…' : 'Open'}
        </button>
      </form>
    </Dialog>
  );
}

interface Settings {
  readonly baud: string;
  readonly dataBits: string;
  readonly parity: Parity;
  readonly stopBits: string;
}

function numbersOf({ baud, dataBits, parity, stopBits }: Settings): Omit<LineConfig, 'portName'> {
  if (!/^\d+$/.test(baud)) throw new ProblemError(localProblem('The baud rate is no number', `"${baud}"`));
  return { baudRate: Number(baud), dataBits: Number(dataBits), parity, stopBits: Number(stopBits) };
}

function SettingFields(props: { settings: Settings; onChange: (more: Partial<Settings>) => void }): JSX.Element {
  const { onChange } = props;
  const { baud, dataBits, parity, stopBits } = props.settings;
  return (
    <>
      <Field label="Baud rate">
        {(attributes) => (
          <input
            {...attributes}
            inputMode="numeric"
            list="bauds"
            autoComplete="off"
            value={baud}
            onInput={(event) => onChange({ baud: event.currentTarget.value })}
          />
        )}
      </Field>
      <datalist id="bauds">
        {bauds.map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
      <div class="row">
        <Select
          label="Data bits"
          value={dataBits}
          options={same('8', '7', '6', '5')}
          onChange={(value) => onChange({ dataBits: value })}
        />
        <Select label="Parity" value={parity} options={parities} onChange={(value) => onChange({ parity: value })} />
        <Select
          label="Stop bits"
          value={stopBits}
          options={same('1', '1.5', '2')}
          onChange={(value) => onChange({ stopBits: value })}
        />
      </div>
    </>
  );
}

function portText({ portName, description }: Port): string {
  return description === '' ? portName : `${portName} (${description})`;
}

function same(...values: readonly string[]): (readonly [string, string])[] {
  return values.map((value) => [value, value]);
}
