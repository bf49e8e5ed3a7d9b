/** The whole page: signing in, and the views that the token's roles open. */
import type { JSX } from 'preact';
import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { rightsOf } from '../access.ts';
import { type Problem, problemFrom } from '../problem.ts';
import type { Whoami } from '../shapes.ts';
import { Api } from './api.ts';
import { Field, Heading, ProblemBox } from './parts.tsx';
import { keepToken, keptToken, SessionContext } from './session.ts';
import { Shell } from './shell.tsx';

/** While the box does not answer. */
const AGAIN_MS = 3_000;

export function App(): JSX.Element {
  const [token, setToken] = useState(keptToken);
  const [who, setWho] = useState<Whoami>();
  const [problem, setProblem] = useState<Problem>();
  const current = useRef(token);
  current.current = token;

  const signOut = useCallback((why?: Problem) => {
    keepToken('');
    setToken('');
    setWho(undefined);
    setProblem(why);
  }, []);
  const api = useMemo(
    () =>
      new Api(token, () => {
        // An answer to the token before says nothing about this one.
        if (current.current === token) signOut(refused);
      }),
    [token, signOut],
  );

  useEffect(() => {
    if (token === '') return undefined;
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async (): Promise<void> => {
      try {
        const found = await api.get<Whoami>('/api/v1/whoami', stop.signal);
        keepToken(token);
        setProblem(undefined);
        setWho(found);
      } catch (error) {
        const met = problemFrom(error);
        // A token that is refused has signed out already.
        if (stop.signal.aborted || met.status === 401) return;
        setProblem(met);
        // The token may be good: the user does not type it again because the box was unreachable.
        timer = setTimeout(() => void ask(), AGAIN_MS);
      }
    };
    void ask();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [api, token]);

  const session = useMemo(
    () => who && { api, name: who.name, roles: who.roles, rights: rightsOf(who.roles) },
    [api, who],
  );
  if (session !== undefined) {
    return (
      <SessionContext.Provider value={session}>
        <Shell onSignOut={() => signOut()} />
      </SessionContext.Provider>
    );
  }
  if (token !== '') return <Connecting problem={problem} onSignOut={() => signOut()} />;
  const signIn = (typed: string): void => {
    setProblem(undefined);
    setToken(typed);
  };
  return <SignIn problem={problem} onToken={signIn} />;
}

/** Until the box has said whose token it is. */
function Connecting(props: { problem: Problem | undefined; onSignOut: () => void }): JSX.Element {
  return (
    <main class="sign-in">
      <div class="card">
        <Heading>Lineside</Heading>
        <p role="status">Signing in…</p>
        <ProblemBox problem={props.problem} />
        <button type="button" onClick={props.onSignOut}>
          Another token
        </button>
      </div>
    </main>
  );
}

const refused: Problem = {
  status: 401,
  code: 'UNAUTHENTICATED',
  title: 'The token is not accepted',
  detail: 'It was mistyped, or it has been revoked.',
  hint: 'On the box, "lineside token add" makes a new one.',
  reasons: [],
};

// A token, once for each tab.

function SignIn(props: { problem: Problem | undefined; onToken: (token: string) => void }): JSX.Element {
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
