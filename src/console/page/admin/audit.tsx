/** Who did what: with the box, from the helper, and with its data, from the hub. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { AdministrationAction, AuditRecord } from '../../../shared/gen/http.ts';
import { instantText } from '../../format.ts';
import { text } from '../../text.ts';
import { usePaged } from '../loading.ts';
import { Button, Section } from '../parts.tsx';
import { type Column, Table } from '../table.tsx';

const say = text.administration.audit;

const actionColumns: readonly Column<AdministrationAction>[] = [
  { head: say.at, cell: ({ at }) => instantText(at), isName: true },
  { head: say.actor, isWord: true, cell: ({ caller }) => caller },
  { head: say.action, isWord: true, cell: ({ verb }) => verb },
  { head: say.details, cell: ({ args }) => detailsOf(args) },
  {
    head: say.outcome,
    cell: ({ outcome }) => <span class={`badge ${/^done\b/.test(outcome) ? 'good' : 'warn'}`}>{outcome}</span>,
  },
];

/** Without what is not set. */
function detailsOf(args: Readonly<Record<string, unknown>>): string {
  return Object.entries(args)
    .filter(([, value]) => value !== null && value !== '')
    .map(([name, value]) => `${name}: ${[value].flat().map(wordOf).join(', ')}`)
    .join('; ');
}

function wordOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

export function Actions(): JSX.Element {
  const [reads, setReads] = useState(false);
  const actions = usePaged<AdministrationAction>(`/api/v1/admin/actions?limit=20&reads=${reads}`, 0);
  return (
    <Section title={say.actionsTitle} class="audit" actions={<Button text={say.refresh} onClick={actions.reload} />}>
      <p class="note">{say.actionsNote}</p>
      <label class="check">
        <input type="checkbox" checked={reads} onChange={(event) => setReads(event.currentTarget.checked)} />
        {say.reads}
      </label>
      <Table
        of={actions}
        caption={say.actionsTitle}
        columns={actionColumns}
        idOf={({ id }) => String(id)}
        none={say.none}
      />
    </Section>
  );
}

const auditColumns: readonly Column<AuditRecord>[] = [
  { head: say.at, cell: ({ at }) => instantText(at), isName: true },
  { head: say.actor, isWord: true, cell: ({ actor }) => actor },
  { head: say.action, isWord: true, cell: ({ action }) => action },
  { head: say.subject, cell: ({ subject }) => subject },
  { head: say.details, cell: ({ details }) => detailsOf(details) },
];

export function Audit(): JSX.Element {
  const records = usePaged<AuditRecord>('/api/v1/admin/audit?limit=20', 0);
  return (
    <Section title={say.title} class="audit">
      <p class="note">{say.note}</p>
      <Table of={records} caption={say.title} columns={auditColumns} idOf={({ id }) => String(id)} none={say.none} />
    </Section>
  );
}
