/** The line: its log as it grows or its terminal, the port, and something to send. */
import type { ComponentType, JSX } from 'preact';
import { text } from '../../text.ts';
import { Button, Heading, OnDemand } from '../parts.tsx';
import { useKept, useSession } from '../session.ts';
import { LogPanel } from './log-panel.tsx';
import { PortPanel } from './port-panel.tsx';
import { SendPanel } from './send-panel.tsx';

/** It stays mounted while another view is shown, with what was typed, searched for and paused. */
export function LineView({ isShown }: { isShown: boolean }): JSX.Element {
  const { rights } = useSession();
  const [view, setView] = useKept('lineside.line.view', ['log', 'terminal']);
  const isTerminal = rights.operates && view === 'terminal';
  const flip = (
    <Button
      text={text.terminal.title}
      aria-pressed={isTerminal}
      onClick={() => setView(isTerminal ? 'log' : 'terminal')}
    />
  );
  return (
    <div class="line-page" hidden={!isShown}>
      {isShown && <Heading>{text.shell.sections.line}</Heading>}
      <div class={rights.operates ? 'line-view operates' : 'line-view'}>
        <PortPanel actions={rights.operates && flip} />
        <div class="slot" hidden={isTerminal}>
          <LogPanel />
        </div>
        {isTerminal && <OnDemand load={loadTerminal} class="card log" />}
        {rights.operates && <SendPanel isShown={isShown} />}
      </div>
    </div>
  );
}

/** Its parts are larger than the whole page before it. */
const loadTerminal = async (): Promise<ComponentType> => (await import('./terminal-panel.tsx')).TerminalPanel;
