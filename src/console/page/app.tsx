/** The whole page: signing in, and the views that the token's roles open. */
import type { JSX } from 'preact';
import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { rightsOf } from '../access.ts';
import { type Problem, problemFrom } from '../problem.ts';
import type { Whoami } from '../shapes.ts';
import { Api } from './api.ts';
import { keepToken, keptToken, SessionContext } from './session.ts';
import { Shell } from './shell.tsx';
import { SignIn } from './sign-in.tsx';

export function App(): JSX.Element {
  const [token, setToken] = useState(keptToken);
  const [who, setWho] = useState<Whoami>();
  const [problem, setProblem] = useState<Problem>();
  const [round, setRound] = useState(0);
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
    api.get<Whoami>('/api/v1/whoami', stop.signal).then(
      (found) => {
        keepToken(token);
        setProblem(undefined);
        setWho(found);
      },
      (error: unknown) => {
        if (!stop.signal.aborted) setProblem((known) => known ?? problemFrom(error));
      },
    );
    return () => stop.abort();
  }, [api, token, round]);

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
  const signIn = (typed: string): void => {
    setProblem(undefined);
    setToken(typed);
    setRound((one) => one + 1);
  };
  return <SignIn problem={problem} busy={token !== '' && problem === undefined} onToken={signIn} />;
}

const refused: Problem = {
  status: 401,
  code: 'UNAUTHENTICATED',
  title: 'The token is not accepted',
  detail: 'It was mistyped, or it has been revoked.',
  hint: 'On the box, "lineside token add" makes a new one.',
  reasons: [],
};
