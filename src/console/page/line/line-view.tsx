/** The line: its log as it grows, the port, and something to send. */
import type { JSX } from 'preact';
import { Heading } from '../parts.tsx';
import { useSession } from '../session.ts';
import { LogPanel } from './log-panel.tsx';
import { PortPanel } from './port-panel.tsx';
import { SendPanel } from './send-panel.tsx';

/** It stays mounted while another view is shown, with what was typed, searched for and paused. */
export function LineView({ isShown }: { isShown: boolean }): JSX.Element {
  const { rights } = useSession();
  return (
    <div class="line-page" hidden={!isShown}>
      {isShown && <Heading>Line</Heading>}
      <div class={rights.operates ? 'line-view operates' : 'line-view'}>
        <PortPanel />
        <LogPanel />
        {rights.operates && <SendPanel />}
      </div>
    </div>
  );
}
