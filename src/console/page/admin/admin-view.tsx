/** What an administrator does with the box: tokens, restart, diagnosis, audit. Root's part is the helper's, which may be missing. */
import type { JSX } from 'preact';
import { useContext, useState } from 'preact/hooks';
import type { AddedToken, DoctorReport, TokenEntry } from '../../../shared/gen/http.ts';
import { instantText } from '../../format.ts';
import { text } from '../../text.ts';
import { copyText } from '../clipboard.ts';
import { LineContext } from '../line-status.tsx';
import { type Paged, useDoing, usePaged } from '../loading.ts';
import { Button, Dialog, Done, Form, Heading, ProblemBox, Section, TextField } from '../parts.tsx';
import { saveBlob } from '../save-file.ts';
import { BoxContext, useSession } from '../session.ts';
import { type Column, Table } from '../table.tsx';
import { Actions, Audit } from './audit.tsx';
import { Backup } from './backup.tsx';
import { Configuration } from './configuration.tsx';
import { Restore } from './restore.tsx';
import { Unsupported, Update } from './update.tsx';

const say = text.administration;
/** Above the limits of the helper: a minute for the doctor, 140 s for the bundle, and its turn. */
const DOCTOR_PATIENCE_MS = 90_000;
const BUNDLE_PATIENCE_MS = 170_000;

export function AdminView(): JSX.Element {
  // The list has one page; only its path must have a query.
  const tokens = usePaged<TokenEntry>('/api/v1/admin/tokens?', 0);
  return (
    <>
      <Heading>{say.title}</Heading>
      {tokens.problem?.code === 'UNSUPPORTED' ? (
        <Section title={say.noHelper}>
          <Unsupported problem={tokens.problem} />
        </Section>
      ) : (
        <>
          <Tokens of={tokens} />
          <Service />
          <Diagnosis />
          <Configuration />
          <Update />
          <Backup />
          <Restore />
          <Actions />
        </>
      )}
      <Audit />
    </>
  );
}

function Tokens({ of: tokens }: { of: Paged<TokenEntry> }): JSX.Element {
  const { name: own } = useSession();
  const [isAdding, setAdding] = useState(false);
  const [added, setAdded] = useState<AddedToken>();
  const [revoking, setRevoking] = useState<string>();
  const [done, setDone] = useState('');
  const columns: readonly Column<TokenEntry>[] = [
    { head: say.tokens.name, cell: ({ name }) => (name === own ? `${name} (${say.tokens.own})` : name), isName: true },
    { head: say.tokens.roles, cell: ({ roles }) => roles.join(', ') },
    { head: say.tokens.created, cell: ({ createdAt }) => instantText(createdAt) },
    {
      head: say.tokens.action,
      cell: ({ name }) => <Button text={say.tokens.revoke(name)} onClick={() => setRevoking(name)} />,
    },
  ];
  const add = tokens.items !== undefined && <Button text={say.tokens.add} onClick={() => setAdding(true)} />;
  return (
    <Section title={say.tokens.title} actions={add}>
      <Table
        of={tokens}
        caption={say.tokens.title}
        columns={columns}
        idOf={({ name }) => name}
        none={say.tokens.none}
      />
      <Done>{done}</Done>
      {isAdding && (
        <AddDialog
          onAdded={(token) => {
            setAdding(false);
            setAdded(token);
            tokens.reload();
          }}
          onClose={() => setAdding(false)}
        />
      )}
      {added !== undefined && <TokenDialog of={added} onClose={() => setAdded(undefined)} />}
      {revoking !== undefined && (
        <RevokeDialog
          name={revoking}
          onRevoked={() => {
            setDone(say.tokens.revoked(revoking));
            tokens.reload();
          }}
          onClose={() => setRevoking(undefined)}
        />
      )}
    </Section>
  );
}

type Role = keyof typeof say.tokens.roleWords;
const roles = Object.entries(say.tokens.roleWords) as readonly (readonly [Role, string])[];

function AddDialog(props: { onAdded: (token: AddedToken) => void; onClose: () => void }): JSX.Element {
  const { api } = useSession();
  const doing = useDoing();
  const [name, setName] = useState('');
  const [chosen, setChosen] = useState<readonly Role[]>([]);
  const [isTried, setTried] = useState(false);
  const fault = isTried && chosen.length === 0 ? say.tokens.roleMissing : '';
  const toggle = (role: Role): void =>
    setChosen(chosen.includes(role) ? chosen.filter((one) => one !== role) : [...chosen, role]);
  const submit = (): void => {
    setTried(true);
    if (name === '' || chosen.length === 0) return;
    void doing.run(async () => {
      const body = { name, roles: chosen };
      const token = await api.send<AddedToken>('POST', '/api/v1/admin/tokens', {
        body,
        patienceMs: DOCTOR_PATIENCE_MS,
      });
      if (token !== undefined) props.onAdded(token);
    });
  };
  return (
    <Dialog title={say.tokens.addTitle} typed={name !== '' || chosen.length > 0} onClose={props.onClose}>
      <Form doing={doing} action={say.tokens.addAction} onSubmit={submit}>
        <TextField
          label={say.tokens.name}
          hint={say.tokens.nameHint}
          fault={isTried && name === '' ? say.tokens.nameMissing : undefined}
          value={name}
          onChange={setName}
        />
        <fieldset class="field" aria-describedby="roles-note">
          <legend>{say.tokens.roles}</legend>
          {roles.map(([role, words]) => (
            <label key={role} class="check">
              <input type="checkbox" checked={chosen.includes(role)} onChange={() => toggle(role)} />
              {words}
            </label>
          ))}
          <p id="roles-note" class={fault === '' ? 'note' : 'note fault'}>
            {fault || say.tokens.rolesHint}
          </p>
        </fieldset>
      </Form>
    </Dialog>
  );
}

/** The only time that it is shown. */
function TokenDialog({ of, onClose }: { of: AddedToken; onClose: () => void }): JSX.Element {
  const [done, setDone] = useState('');
  const copy = async (): Promise<void> =>
    setDone((await copyText(of.token)) ? say.tokens.copied : say.tokens.notCopied);
  return (
    <Dialog title={say.tokens.added(of.name)} leave={text.parts.close} onClose={onClose}>
      <p>{say.tokens.once}</p>
      <p>
        <code class="token">{of.token}</code>
      </p>
      <div class="row">
        <Button text={say.tokens.copy} class="main" onClick={() => void copy()} />
        <Done>{done}</Done>
      </div>
    </Dialog>
  );
}

function RevokeDialog(props: { name: string; onRevoked: () => void; onClose: () => void }): JSX.Element {
  const { api, name: own } = useSession();
  const doing = useDoing();
  const path = `/api/v1/admin/tokens/${encodeURIComponent(props.name)}`;
  const submit = (): void =>
    void doing.run(async () => {
      await api.send('DELETE', path, { patienceMs: DOCTOR_PATIENCE_MS });
      props.onRevoked();
      props.onClose();
    });
  return (
    <Dialog title={say.tokens.revokeTitle(props.name)} onClose={props.onClose}>
      <Form doing={doing} action={say.tokens.revokeAction} danger={true} onSubmit={submit}>
        <p>{say.tokens.revokeQuestion}</p>
        {props.name === own && <p class="fault">{say.tokens.revokeOwn}</p>}
      </Form>
    </Dialog>
  );
}

function Service(): JSX.Element {
  const { api } = useSession();
  const needed = useContext(LineContext)?.value?.restartNeeded ?? '';
  const doing = useDoing();
  const [isAsking, setAsking] = useState(false);
  const [done, setDone] = useState('');
  const submit = (): void =>
    void doing.run(async () => {
      await api.send('POST', '/api/v1/admin/restart', { patienceMs: DOCTOR_PATIENCE_MS });
      setDone(say.service.restarting);
      setAsking(false);
    });
  const ask = <Button text={say.service.restart} onClick={() => setAsking(true)} />;
  return (
    <Section title={say.service.title} actions={ask}>
      <p class="note">{say.service.about}</p>
      {needed !== '' && <p class="fault">{say.service.needed(needed.replaceAll(' ', ', '))}</p>}
      <Done>{done}</Done>
      {isAsking && (
        <Dialog title={say.service.restartTitle} onClose={() => setAsking(false)}>
          <Form doing={doing} action={say.service.restartAction} danger={true} onSubmit={submit}>
            <p>{say.service.about}</p>
          </Form>
        </Dialog>
      )}
    </Section>
  );
}

type Found = DoctorReport['checks'][number]['findings'][number] & { readonly check: string; readonly id: string };
const looks = { ok: 'good', warning: 'warn', failed: 'bad', skipped: 'idle' } as const;
/** What needs attention stands first. */
const order = ['failed', 'warning', 'ok', 'skipped'];

const findingColumns: readonly Column<Found>[] = [
  { head: say.doctor.check, cell: ({ check }) => check, isName: true },
  {
    head: say.doctor.state,
    cell: ({ state }) => <span class={`badge ${looks[state]}`}>{say.doctor.states[state]}</span>,
  },
  {
    head: say.doctor.found,
    cell: ({ found, todo }) => (
      <>
        {found}
        {todo !== '' && <p class="hint">{todo}</p>}
      </>
    ),
  },
];

function foundIn({ checks }: DoctorReport): Found[] {
  const all = checks.flatMap(({ name, title, findings }) =>
    findings.map((one, at) => ({ ...one, check: title, id: `${name} ${at}` })),
  );
  return all.sort((a, b) => order.indexOf(a.state) - order.indexOf(b.state));
}

function Diagnosis(): JSX.Element {
  const { api } = useSession();
  const box = useContext(BoxContext);
  const checking = useDoing();
  const collecting = useDoing();
  const [found, setFound] = useState<readonly Found[]>();
  const [done, setDone] = useState('');
  const check = (): void =>
    void checking.run(async () => {
      setFound(foundIn(await api.get<DoctorReport>('/api/v1/admin/doctor', undefined, DOCTOR_PATIENCE_MS)));
    });
  const collect = (): void =>
    void collecting.run(async () => {
      setDone('');
      const bundle = await api.file('/api/v1/admin/support-bundle', BUNDLE_PATIENCE_MS);
      saveBlob(bundle, `${box?.name ?? 'lineside'}-support.tar.gz`);
      setDone(say.doctor.bundleSaved);
    });
  const isBusy = checking.busy || collecting.busy;
  return (
    <Section title={say.doctor.title}>
      <p class="note">{say.doctor.about}</p>
      <ProblemBox problem={checking.problem ?? collecting.problem} />
      <div class="buttons">
        <Button text={checking.busy ? say.doctor.running : say.doctor.run} disabled={isBusy} onClick={check} />
        <Button
          text={collecting.busy ? say.doctor.collecting : say.doctor.bundle}
          disabled={isBusy}
          onClick={collect}
        />
      </div>
      <Done>{done}</Done>
      {found !== undefined && (
        <Table
          of={{ items: found, hasMore: false, problem: undefined, more: () => undefined }}
          caption={say.doctor.findings}
          columns={findingColumns}
          idOf={({ id }) => id}
          none={say.doctor.none}
        />
      )}
    </Section>
  );
}
