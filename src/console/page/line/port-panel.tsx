/** The port: what it is now, and opening and closing it. */
import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';
import type { LineStatus } from '../../../shared/gen/http.ts';
import { durationText } from '../../format.ts';
import { settingsText } from '../../line/settings.ts';
import { text } from '../../text.ts';
import { portWords, useLine } from '../line-status.tsx';
import { useDoing } from '../loading.ts';
import { Button, ProblemBox, Section } from '../parts.tsx';
import { useSession } from '../session.ts';
import { Differences, SettingsDialog } from './settings-dialog.tsx';

const words = text.port;

/** `actions`: more buttons. */
export function PortPanel({ actions }: { actions?: JSX.Element | false }): JSX.Element {
  const { api, rights } = useSession();
  const line = useLine();
  const [opening, setOpening] = useState(false);
  const closing = useDoing();
  const opener = useRef<HTMLButtonElement>(null);
  const status = line.value;
  const close = (): void =>
    void closing.run(async () => {
      const now = await api.send<LineStatus>('POST', '/api/v1/line/close');
      if (now !== undefined) line.put(now);
      // The button that was pressed is removed.
      opener.current?.focus();
    });
  const isClosed = status === undefined || status.portState === 'closed';
  return (
    <Section title={words.title} class="port">
      <ProblemBox problem={line.problem} />
      <ProblemBox problem={closing.problem} />
      {status !== undefined && <PortText status={status} isFresh={line.isFresh} />}
      {rights.operates && (
        <div class="buttons">
          <button ref={opener} type="button" class={isClosed ? 'main' : ''} onClick={() => setOpening(true)}>
            {isClosed ? words.open : words.change}
          </button>
          {!isClosed && <Button text={words.close} disabled={closing.busy} onClick={close} />}
          {actions}
        </div>
      )}
      {opening && (
        <SettingsDialog
          status={status}
          onOpened={(now) => {
            line.put(now);
            setOpening(false);
          }}
          onClose={() => setOpening(false)}
        />
      )}
    </Section>
  );
}

function PortText({ status, isFresh }: { status: LineStatus; isFresh: boolean }): JSX.Element {
  const { portState, requested, effective, currentPortName, portError } = status;
  const settings = effective ?? requested;
  const name = currentPortName || requested?.portName;
  // Each try to reopen begins the count again.
  const minutes = Math.floor(status.portStateAgeMs / 60_000);
  return (
    <div class="port-text">
      <p>
        <StateText state={portState} isFresh={isFresh} />
        {name !== undefined && portState !== 'closed' && <span class="mono"> {name}</span>}
        {settings !== null && portState !== 'closed' && <span class="mono"> {settingsText(settings)}</span>}
      </p>
      {portError !== '' && (
        <p class="fault">
          {portError}
          {minutes > 0 && words.forLong(durationText(minutes * 60))}
        </p>
      )}
      {(portState === 'lost' || portState === 'reopening') && <p class="note">{words.reconnecting}</p>}
      {effective?.unverified === true && <p class="note">{words.virtual}</p>}
      <Differences status={status} />
    </div>
  );
}

/** An old answer says nothing good or bad of now. */
function StateText({ state, isFresh }: { state: LineStatus['portState']; isFresh: boolean }): JSX.Element {
  const look = state === 'open' ? 'good' : state === 'lost' ? 'bad' : '';
  return (
    <>
      {!isFresh && words.lastKnown}
      <strong class={isFresh ? look : ''}>{portWords(state)}</strong>
    </>
  );
}
