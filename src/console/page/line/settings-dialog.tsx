/** Which port is open, and with which settings: the one dialog that opens a port and changes it. */
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { LinePorts, LineStatus } from '../../../shared/gen/http.ts';
import {
  differences,
  inEffectText,
  readSettings,
  type SettingFaults,
  settingsNow,
  type TypedSettings,
} from '../../line/settings.ts';
import { text } from '../../text.ts';
import { useDoing, useLoaded } from '../loading.ts';
import { Dialog, Form, ProblemBox, Select, TextField } from '../parts.tsx';
import { useSession } from '../session.ts';

const words = text.settings;
/** Not in the list: the user types its name. */
const OTHER = 'another port';
const bauds = [1200, 2400, 4800, 9600, 19_200, 38_400, 57_600, 115_200, 230_400, 460_800, 921_600];

export function SettingsDialog(props: {
  status: LineStatus | undefined;
  onOpened: (now: LineStatus) => void;
  onClose: () => void;
}): JSX.Element {
  const { status } = props;
  const { api } = useSession();
  const doing = useDoing();
  // Later answers leave what is typed.
  const [before] = useState(() => settingsNow(status));
  const [typed, setTyped] = useState(before);
  const [faults, setFaults] = useState<SettingFaults>({});
  const fields = useRef<HTMLDivElement>(null);
  const names = usePortNames(typed.portName);
  const isOpening = status === undefined || status.portState === 'closed';
  useEffect(() => {
    fields.current?.querySelector<HTMLElement>('[aria-invalid]')?.focus();
  }, [faults]);
  const submit = (): void => {
    const read = readSettings({ ...typed, portName: names.name });
    setFaults('faults' in read ? read.faults : {});
    if ('faults' in read) return;
    void doing.run(async () => {
      const now = await api.send<LineStatus>('POST', '/api/v1/line/open', { body: read.body });
      if (now !== undefined) props.onOpened(now);
    });
  };
  const isChanged = Object.entries(typed).some(([name, value]) => value !== before[name as keyof TypedSettings]);
  return (
    <Dialog title={isOpening ? words.openTitle : words.title} typed={isChanged} onClose={props.onClose}>
      {status !== undefined && <InEffect status={status} />}
      <ProblemBox problem={names.problem} />
      <Form
        doing={doing}
        action={isOpening ? words.open : words.apply}
        acting={isOpening ? words.opening : words.applying}
        onSubmit={submit}
      >
        <div ref={fields}>
          <PortFields
            names={names}
            fault={faults.portName}
            onChange={(portName) => setTyped((was) => ({ ...was, portName }))}
          />
          <SettingFields typed={typed} faults={faults} onChange={setTyped} />
        </div>
      </Form>
    </Dialog>
  );
}

/** Where the line does not run with what was asked for, both. */
function InEffect({ status }: { status: LineStatus }): JSX.Element | null {
  const now = inEffectText(status);
  if (now === undefined) return null;
  return (
    <div class="in-effect">
      <p>
        {words.inEffect} <span class="mono">{now}</span>
      </p>
      <Differences status={status} />
    </div>
  );
}

export function Differences({ status }: { status: LineStatus }): JSX.Element {
  return (
    <>
      {differences(status).map((difference) => (
        <p key={difference} class="note">
          {difference}
        </p>
      ))}
    </>
  );
}

/** The ports of the box, and the one that is chosen of them or typed: `wanted` as long as it is a name. */
function usePortNames(wanted: string) {
  const ports = useLoaded<LinePorts>('/api/v1/line/ports', 0);
  const [isTyped, setTyped] = useState(false);
  const found = ports.value?.items ?? [];
  const name = wanted === '' && !isTyped ? (found[0]?.portName ?? '') : wanted;
  const isListed = !isTyped && found.some(({ portName }) => portName === name);
  return { name, found, isListed, setTyped, problem: ports.problem };
}

function PortFields(props: {
  names: ReturnType<typeof usePortNames>;
  fault: string | undefined;
  onChange: (name: string) => void;
}): JSX.Element {
  const { names, onChange } = props;
  return (
    <>
      <Select
        label={words.port}
        value={names.isListed ? names.name : OTHER}
        options={[...names.found.map((one) => [one.portName, portText(one)] as const), [OTHER, words.otherPort]]}
        onChange={(chosen) => {
          names.setTyped(chosen === OTHER);
          onChange(chosen === OTHER ? names.name : chosen);
        }}
      />
      {!names.isListed && (
        <TextField
          label={words.portName}
          hint={words.portNameHint}
          fault={props.fault}
          value={names.name}
          onChange={(name) => {
            // The list may arrive during typing.
            names.setTyped(true);
            onChange(name);
          }}
        />
      )}
    </>
  );
}

const choices = [
  ['dataBits', ['8', '7', '6', '5']],
  ['parity', ['none', 'even', 'odd', ['mark', words.mark], ['space', words.space]]],
  ['stopBits', ['1', '1.5', '2']],
  ['flowControl', Object.entries(words.flowControls)],
] as const;

function SettingFields(props: {
  typed: TypedSettings;
  faults: SettingFaults;
  onChange: (typed: TypedSettings) => void;
}): JSX.Element {
  const { typed, faults } = props;
  const field = (name: keyof TypedSettings) => ({
    value: typed[name],
    fault: faults[name],
    onChange: (value: string) => props.onChange({ ...typed, [name]: value }),
  });
  return (
    <>
      <TextField label={words.baudRate} input={{ inputMode: 'numeric', list: 'bauds' }} {...field('baudRate')} />
      <datalist id="bauds">
        {bauds.map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
      <div class="row">
        {choices.map(([name, options]) => (
          <Select<string> key={name} label={words[name]} options={options} {...field(name)} />
        ))}
      </div>
      <div class="row tops">
        {(['packetSize', 'rxGapMs'] as const).map((name) => (
          <TextField
            key={name}
            label={words[name]}
            hint={words.hints[name]}
            input={{ inputMode: 'numeric' }}
            {...field(name)}
          />
        ))}
      </div>
    </>
  );
}

function portText({ portName, description }: LinePorts['items'][number]): string {
  return description === '' ? portName : `${portName} (${description})`;
}
