/** The web console that the box serves to a technician's phone or an operator's desk: signing in, head, navigation, view. */
import { type ComponentType, type JSX, render } from 'preact';
import { useCallback, useContext, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Caller, Health } from '../../shared/gen/http.ts';
import { localProblem, type Problem, problemFrom } from '../problem.ts';
import { text } from '../text.ts';
import { hashOf, type Place, placeOf, rightsOf, type Section } from '../views.ts';
import { AlertContext, AlertLink, useAlerts } from './alert-list.tsx';
import { Api } from './api.ts';
import { BoxView } from './box/box-view.tsx';
import { DataView } from './data/data-view.tsx';
import { DeliveryView } from './delivery/delivery-view.tsx';
import { HealthView } from './health/health-view.tsx';
import { LineView } from './line/line-view.tsx';
import { LineContext, LinePulse, PortBadge, useLineStatus } from './line-status.tsx';
import { Button, focusHeading, Heading, OnDemand, ProblemBox, TextField } from './parts.tsx';
import { BoxContext, clearTab, keepToken, keptToken, SessionContext, useSession } from './session.ts';

/** While the box does not answer. */
const AGAIN_MS = 3_000;

function App(): JSX.Element {
  const [token, setToken] = useState(keptToken);
  const [who, setWho] = useState<Caller>();
  const [problem, setProblem] = useState<Problem>();
  const current = useRef(token);
  current.current = token;

  const signOut = useCallback((why?: Problem) => {
    // Text that was typed stays if the token was refused: the same user may sign in again with another.
    if (why === undefined) clearTab();
    else keepToken('');
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
        const found = await api.get<Caller>('/api/v1/whoami', stop.signal);
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

  const box = useBox(api);
  const session = useMemo(
    () => who && { api, name: who.name, roles: who.roles, rights: rightsOf(who.roles) },
    [api, who],
  );
  useEffect(() => {
    // Views have titles of their own.
    if (session === undefined) document.title = box?.name ?? text.shell.product;
  }, [session, box]);
  const signIn = (typed: string): void => {
    setProblem(undefined);
    setToken(typed);
  };
  const entrance =
    token === '' ? (
      <SignIn problem={problem} onToken={signIn} />
    ) : (
      <Connecting problem={problem} onSignOut={() => signOut()} />
    );
  return (
    <BoxContext.Provider value={box}>
      {session === undefined ? (
        entrance
      ) : (
        <SessionContext.Provider value={session}>
          <Shell onSignOut={() => signOut()} />
        </SessionContext.Provider>
      )}
    </BoxContext.Provider>
  );
}

/** Asked until it has answered: before anybody has signed in, too. */
function useBox(api: Api): Health | undefined {
  const [box, setBox] = useState<Health>();
  useEffect(() => {
    if (box !== undefined) return undefined;
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = (): void =>
      void api.get<Health>('/healthz', stop.signal).then(setBox, () => {
        if (!stop.signal.aborted) timer = setTimeout(ask, AGAIN_MS);
      });
    ask();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [api, box]);
  return box;
}

/** Which box this is: the name that people gave it, and the one that no other has. */
function BoxName(): JSX.Element {
  const box = useContext(BoxContext);
  if (box === undefined) return <>{text.shell.product}</>;
  return (
    <>
      {box.name} <small>{box.deviceId}</small>
    </>
  );
}

/** Until the box has said whose token it is. */
function Connecting(props: { problem: Problem | undefined; onSignOut: () => void }): JSX.Element {
  return (
    <main class="sign-in">
      <div class="card">
        <Heading>
          <BoxName />
        </Heading>
        <p role="status">{text.entrance.signingIn}</p>
        <ProblemBox problem={props.problem} />
        <Button text={text.entrance.anotherToken} onClick={props.onSignOut} />
      </div>
    </main>
  );
}

const refused = localProblem(text.entrance.refused, text.entrance.refusedDetail, text.entrance.refusedHint);

/** A token, once for each tab. */
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
        <Heading>
          <BoxName />
        </Heading>
        <p>{text.entrance.about}</p>
        <ProblemBox problem={props.problem} />
        <TextField
          label={text.entrance.token}
          hint={text.entrance.tokenHint}
          fault={missing ? text.entrance.tokenMissing : undefined}
          input={{ type: 'password', autoComplete: 'current-password' }}
          value={typed}
          onChange={setTyped}
        />
        <button type="submit" class="main">
          {text.entrance.signIn}
        </button>
      </form>
    </main>
  );
}

// Once it is known who uses the page.

function Shell({ onSignOut }: { onSignOut: () => void }): JSX.Element {
  const { name: who, rights } = useSession();
  const name = useContext(BoxContext)?.name ?? text.shell.product;
  const line = useLineStatus(rights.sections.includes('line'));
  const alerts = useAlerts(rights.sections.includes('health'));
  const place = usePlace(rights.sections);
  const first = useRef(true);
  const wasAtLine = useRef(false);
  wasAtLine.current ||= place?.section === 'line';
  useEffect(() => {
    document.title =
      place === undefined
        ? name
        : `${[...place.parts].reverse().concat(text.shell.sections[place.section]).join(' · ')} – ${name}`;
  }, [place, name]);
  useEffect(() => {
    // A screen reader reads the view after a change of view, not after the page was loaded.
    if (!first.current) focusHeading();
    first.current = false;
  }, [place]);
  return (
    <LineContext.Provider value={line}>
      <AlertContext.Provider value={alerts}>
        <a class="skip" href="#title" onClick={skip}>
          {text.shell.skip}
        </a>
        <header>
          <div class="bar">
            <span class="brand">
              <BoxName />
            </span>
            <PortBadge />
            <LinePulse />
            <AlertLink />
            <span class="who">
              <span class="who-name">{who}</span>
              <Button text={text.entrance.signOut} class="quiet" onClick={onSignOut} />
            </span>
          </div>
          <nav aria-label={text.shell.views}>
            {rights.sections.map((section) => (
              <a key={section} href={hashOf(section)} aria-current={place?.section === section ? 'page' : undefined}>
                {text.shell.sections[section]}
              </a>
            ))}
          </nav>
        </header>
        <main>
          {wasAtLine.current && <LineView isShown={place?.section === 'line'} />}
          {place === undefined ? <Nothing /> : <View place={place} />}
        </main>
      </AlertContext.Provider>
    </LineContext.Provider>
  );
}

function skip(event: Event): void {
  event.preventDefault();
  focusHeading();
}

function View({ place }: { place: Place }): JSX.Element | null {
  switch (place.section) {
    case 'line':
      // Shell keeps it beside the others.
      return null;
    case 'health':
      return <HealthView />;
    case 'delivery':
      return <DeliveryView parts={place.parts} />;
    case 'data':
      return <DataView parts={place.parts} />;
    case 'box':
      return <BoxView />;
    case 'admin':
      return <OnDemand load={loadAdmin} />;
  }
}

const loadAdmin = async (): Promise<ComponentType> => (await import('./admin/admin-view.tsx')).AdminView;

function Nothing(): JSX.Element {
  const { roles } = useSession();
  return (
    <div class="card">
      <Heading>{text.shell.nothing}</Heading>
      <p>
        {roles.length === 0 ? text.shell.noRole : text.shell.noView(roles)} {text.shell.openedBy}
      </p>
    </div>
  );
}

/** The first view that is open where the address names none. */
function usePlace(open: readonly Section[]): Place | undefined {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const look = (): void => setHash(location.hash);
    addEventListener('hashchange', look);
    // What changed between the first drawing and now.
    look();
    return () => removeEventListener('hashchange', look);
  }, []);
  return useMemo(() => {
    const named = placeOf(hash);
    if (named !== undefined && open.includes(named.section)) return named;
    const [first] = open;
    return first && { section: first, parts: [], query: {} };
  }, [hash, open]);
}

const page = document.getElementById('page');
if (page === null) throw new Error('index.html has no place for the page');
page.replaceChildren();
render(<App />, page);
