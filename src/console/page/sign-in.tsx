/** A token, once for each tab. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { Problem } from '../problem.ts';
import { Field, Heading, ProblemBox } from './parts.tsx';

export function SignIn(props: { problem: Problem | undefined; onToken: (token: string) => void }): JSX.Element {
  const [typed, setTyped] = useState('');
  const [missing, setMissing] = useState(false);
  const submit = (event: Event): void => {
    event.preventDefault();
    const token = typed.trim();
    setMissing(token === '');
    if (token !== '') props.onToken(token);
  };
  return (
    <main class="sign-in">
      <form class="card" onSubmit={submit}>
        <Heading>Lineside</Heading>
        <p>The console of this box. Sign in with a token of yours.</p>
        <ProblemBox problem={props.problem} />
        <Field
          label="Token"
          hint="It is kept in this tab until you sign out or close it."
          fault={missing ? 'Paste or type the token first: it begins with lsd_' : undefined}
        >
          {(attributes) => (
            <input
              {...attributes}
              type="password"
              autoComplete="current-password"
              autoCapitalize="off"
              spellcheck={false}
              value={typed}
              onInput={(event) => setTyped(event.currentTarget.value)}
            />
          )}
        </Field>
        <button type="submit" class="main">
          Sign in
        </button>
      </form>
    </main>
  );
}
