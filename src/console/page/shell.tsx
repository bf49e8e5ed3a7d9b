/** Head, navigation, and the view that the address names. */
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Section } from '../access.ts';
import { hashOf, type Place, placeOf } from '../places.ts';
import { BoxView } from './box-view.tsx';
import { DataView } from './data-view.tsx';
import { DeliveryView } from './delivery-view.tsx';
import { HealthView } from './health-view.tsx';
import { LineContext, PortBadge, useLineStatus } from './line-status.tsx';
import { LineView } from './line-view.tsx';
import { focusHeading, Heading } from './parts.tsx';
import { useSession } from './session.ts';

const titles: Readonly<Record<Section, string>> = {
  line: 'Line',
  health: 'Health',
  delivery: 'Delivery',
  data: 'Data',
  box: 'Box',
};

export function Shell({ onSignOut }: { onSignOut: () => void }): JSX.Element {
  const { name, rights } = useSession();
  const line = useLineStatus(rights.sections.includes('line'));
  const place = usePlace(rights.sections);
  const first = useRef(true);
  const wasAtLine = useRef(false);
  wasAtLine.current ||= place?.section === 'line';
  useEffect(() => {
    document.title =
      place === undefined
        ? 'Lineside'
        : `${[...place.parts].reverse().concat(titles[place.section]).join(' · ')} – Lineside`;
    // A screen reader reads the view after a change of view, not after the page was loaded.
    if (!first.current) focusHeading();
    first.current = false;
  }, [place]);
  return (
    <LineContext.Provider value={line}>
      <a class="skip" href="#title" onClick={skip}>
        Skip to the content
      </a>
      <header>
        <div class="bar">
          <span class="brand">Lineside</span>
          <PortBadge />
          <span class="who">
            <span class="who-name">{name}</span>
            <button type="button" class="quiet" onClick={onSignOut}>
              Sign out
            </button>
          </span>
        </div>
        <nav aria-label="Views">
          {rights.sections.map((section) => (
            <a key={section} href={hashOf(section)} aria-current={place?.section === section ? 'page' : undefined}>
              {titles[section]}
            </a>
          ))}
        </nav>
      </header>
      <main>
        {wasAtLine.current && <LineView isShown={place?.section === 'line'} />}
        {place === undefined ? <Nothing /> : <View place={place} />}
      </main>
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
      return <DeliveryView />;
    case 'data':
      return <DataView parts={place.parts} />;
    case 'box':
      return <BoxView />;
  }
}

function Nothing(): JSX.Element {
  const { roles } = useSession();
  return (
    <div class="card">
      <Heading>Nothing to show</Heading>
      <p>
        {roles.length === 0
          ? 'The token has no role.'
          : `The roles of the token (${roles.join(', ')}) open no view of this console.`}{' '}
        Views are opened by viewer, operator, reader, writer and admin.
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
    return () => removeEventListener('hashchange', look);
  }, []);
  const [kept, keep] = useState<{ hash: string; place: Place | undefined }>();
  if (kept?.hash === hash) return kept.place;
  const asked = placeOf(hash);
  const [fallback] = open;
  const place =
    asked !== undefined && open.includes(asked.section) ? asked : fallback && { section: fallback, parts: [] };
  keep({ hash, place });
  return place;
}
