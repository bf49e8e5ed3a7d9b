/** The line: its log as it grows, the port, and something to send. */
import type { JSX } from 'preact';
import { LogPanel } from './log-panel.tsx';
import { Heading } from './parts.tsx';
import { PortPanel } from './port-panel.tsx';
import { SendForm } from './send-form.tsx';
import { useSession } from './session.ts';

/** It stays when another view is shown: what was typed, searched for and paused is there again afterwards. */
export function LineView({ isShown }: { isShown: boolean }): JSX.Element {
  const { rights } = useSession();
  return (
    <div hidden={!isShown}>
      {isShown && <Heading>Line</Heading>}
      <div class={rights.operates ? 'line-view operates' : 'line-view'}>
        <PortPanel />
        <LogPanel />
        {rights.operates && <SendForm />}
      </div>
    </div>
  );
}
