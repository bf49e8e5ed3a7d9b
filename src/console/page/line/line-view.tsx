/** The line: its log as it grows or its terminal, the port, and something to send. */
import type { ComponentType, JSX } from 'preact';
import { text } from '../../text.ts';
import { Heading, OnDemand } from '../parts.tsx';
import { useSession } from '../session.ts';
import { LogPanel } from './log-panel.tsx';
import { PortPanel } from './port-panel.tsx';
import { SendPanel } from './send-panel.tsx';
import { useViewChoice, ViewContext, ViewSwitch } from './view-choice.tsx';

/** It stays mounted while another view is shown, with what was typed, searched for and paused. */
export function LineView({ isShown }: { isShown: boolean }): JSX.Element {
  const { rights } = useSession();
  const choice = useViewChoice();
  const { isTerminal } = choice;
  return (
    <ViewContext.Provider value={choice}>
      <div class="line-page" hidden={!isShown}>
        {isShown && <Heading>{text.shell.sections.line}</Heading>}
        <div class={rights.operates ? 'line-view operates' : 'line-view'}>
          <PortPanel />
          <div class="slot" hidden={isTerminal}>
            <LogPanel view={choice.log} isShown={!isTerminal} />
          </div>
          {isTerminal && (
            <OnDemand load={loadTerminal} class="card log">
              <ViewSwitch on="desk" />
            </OnDemand>
          )}
          {rights.operates && <SendPanel isShown={isShown} />}
        </div>
      </div>
    </ViewContext.Provider>
  );
}

/** Its parts are larger than the whole page before it. */
const loadTerminal = async (): Promise<ComponentType> => (await import('./terminal-panel.tsx')).TerminalPanel;
