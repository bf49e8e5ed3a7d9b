/** The forms of a webhook subscription: adding and changing it, replacing its secret, sending a test. */
import type { ComponentChildren, JSX } from 'preact';
import { useId, useState } from 'preact/hooks';
import type { PingResult, Subscription } from '../../../shared/gen/http.ts';
import { countText } from '../../format.ts';
import {
  actions,
  categories,
  emptyForm,
  faultsOf,
  formOf,
  isChanged,
  patchOf,
  requestOf,
  scopes,
  type SubscriptionForm as Typed,
} from '../../subscription.ts';
import { text } from '../../text.ts';
import { type Doing, useDoing } from '../loading.ts';
import { Button, Dialog, Dump, Field, Form, ReasonField, Select, TextField } from '../parts.tsx';
import { useSession } from '../session.ts';
import { WEBHOOKS } from './webhooks-view.tsx';

const say = text.delivery.subscriptions;
const PATH = `${WEBHOOKS}/subscriptions`;
/** 256 bits, as many as the signature's hash has. */
const SECRET_BYTES = 32;
const fields = ['name', 'url', 'secret', 'consumer', 'scopes', 'dictionaries', 'actions', 'categories'] as const;

export function SubscriptionForm(props: {
  /** undefined: a new one. */
  before?: Subscription;
  onSaved: (saved: Subscription) => void;
  onClose: () => void;
}): JSX.Element {
  const { api } = useSession();
  // As it was when the form was opened: the box refuses a change of a version that is not the newest.
  const [{ before, atFirst }] = useState({
    before: props.before,
    atFirst: props.before === undefined ? emptyForm : formOf(props.before),
  });
  const [form, setForm] = useState(atFirst);
  const [reason, setReason] = useState('');
  const doing = useDoing();
  const ping = usePing();
  const change = (changed: Partial<Typed>): void => setForm({ ...form, ...changed });
  const submit = (): void =>
    void doing.run(async () => {
      const saved =
        before === undefined
          ? await api.send<Subscription>('POST', PATH, { body: requestOf(form, reason) })
          : await api.send<Subscription>('PATCH', `${PATH}/${encodeURIComponent(before.id)}`, {
              body: patchOf(form, atFirst, reason),
              ifMatch: before.version,
            });
      if (saved !== undefined) props.onSaved(saved);
    });
  const { at, rest } = faultsOf(doing.problem ?? ping.doing.problem, fields);
  return (
    <Dialog
      title={before === undefined ? say.form.addTitle : say.form.editTitle(before.name)}
      typed={reason !== '' || isChanged(form, atFirst)}
      onClose={props.onClose}
    >
      <Form
        doing={{ ...doing, problem: rest }}
        action={before === undefined ? say.form.add : say.form.save}
        onSubmit={isChanged(form, atFirst) ? submit : props.onClose}
      >
        <TextField
          label={say.name}
          hint={say.form.nameHint}
          fault={at.name}
          value={form.name}
          onChange={(name) => change({ name })}
        />
        <TextField
          label={say.url}
          hint={say.form.urlHint}
          fault={at.url}
          input={{ inputMode: 'url' }}
          value={form.url}
          onChange={(url) => change({ url })}
        />
        {before === undefined && (
          <>
            <SecretField fault={at.secret} value={form.secret} onChange={(secret) => change({ secret })}>
              <Button
                text={say.form.tryIt}
                disabled={ping.doing.busy}
                onClick={() => ping.send({ url: form.url, secret: form.secret })}
              />
            </SecretField>
            <PingOutcome of={ping.result} />
            <TextField
              label={say.consumer}
              hint={say.form.consumerHint}
              fault={at.consumer}
              value={form.consumer}
              onChange={(consumer) => change({ consumer })}
            />
          </>
        )}
        <FilterFields form={form} faults={at} onChange={change} />
        <ReasonField hint={text.delivery.reasonHint} value={reason} onChange={setReason} />
      </Form>
    </Dialog>
  );
}

function FilterFields(props: {
  form: Typed;
  faults: Readonly<Record<'scopes' | 'dictionaries' | 'actions' | 'categories', string>>;
  onChange: (changed: Partial<Typed>) => void;
}): JSX.Element {
  const { form, faults, onChange } = props;
  return (
    <>
      <Field label={say.dictionaries} hint={say.form.dictionariesHint} fault={faults.dictionaries}>
        {(attributes) => (
          <textarea
            {...attributes}
            rows={2}
            autoCapitalize="off"
            spellcheck={false}
            value={form.dictionaries}
            onInput={(event) => onChange({ dictionaries: event.currentTarget.value })}
          />
        )}
      </Field>
      <Checks
        legend={say.scopes}
        hint={say.form.scopesHint}
        fault={faults.scopes}
        options={scopes.map((one) => [one, one])}
        chosen={form.scopes}
        onChange={(chosen) => onChange({ scopes: chosen })}
      />
      <Checks
        legend={say.actions}
        hint={say.form.anyHint}
        fault={faults.actions}
        options={actions.map((one) => [one, one])}
        chosen={form.actions}
        onChange={(chosen) => onChange({ actions: chosen })}
      />
      <Checks
        legend={say.categories}
        hint={say.form.anyHint}
        fault={faults.categories}
        options={categories.map((one) => [one, say.categoryWords[one]])}
        chosen={form.categories}
        onChange={(chosen) => onChange({ categories: chosen })}
      />
    </>
  );
}

/** Some of a few. */
function Checks(props: {
  legend: string;
  hint: string;
  fault: string;
  options: readonly (readonly [value: string, words: string])[];
  chosen: readonly string[];
  /** In the order of the options. */
  onChange: (chosen: readonly string[]) => void;
}): JSX.Element {
  const { options, chosen, onChange, hint, fault } = props;
  const id = useId();
  const toggle = (value: string): void =>
    onChange(
      options.map(([one]) => one).filter((one) => (one === value ? !chosen.includes(one) : chosen.includes(one))),
    );
  return (
    <fieldset class="field" aria-describedby={id}>
      <legend>{props.legend}</legend>
      {options.map(([value, words]) => (
        <label key={value} class="check">
          <input type="checkbox" checked={chosen.includes(value)} onChange={() => toggle(value)} />
          {words}
        </label>
      ))}
      <p id={id} class={fault === '' ? 'note' : 'note fault'}>
        {fault || hint}
      </p>
    </fieldset>
  );
}

/** It is shown: it must be copied to the subscriber, and is typed once. */
function SecretField(props: {
  fault: string;
  value: string;
  onChange: (secret: string) => void;
  children?: ComponentChildren;
}): JSX.Element {
  const { children, ...field } = props;
  return (
    <>
      <TextField {...field} label={say.form.secret} hint={say.form.secretHint} input={{ class: 'mono' }} />
      <div class="buttons">
        <Button text={say.form.generate} onClick={() => props.onChange(newSecret())} />
        {children}
      </div>
    </>
  );
}

function newSecret(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(SECRET_BYTES));
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
}

/** The old secret may sign for a while too, so that the subscriber is changed without a loss. */
export function RotationForm(props: {
  of: Subscription;
  onSaved: (saved: Subscription) => void;
  onClose: () => void;
}): JSX.Element {
  const { api } = useSession();
  const { id, version } = props.of;
  const [secret, setSecret] = useState('');
  const [grace, setGrace] = useState<(typeof say.rotation.graces)[number][0]>('86400');
  const [reason, setReason] = useState('');
  const doing = useDoing();
  const submit = (): void =>
    void doing.run(async () => {
      const body = { secret, graceSeconds: Number(grace), changeReason: reason };
      const path = `${PATH}/${encodeURIComponent(id)}/rotate-secret`;
      const saved = await api.send<Subscription>('POST', path, { body, ifMatch: version });
      if (saved !== undefined) props.onSaved(saved);
    });
  const { at, rest } = faultsOf(doing.problem, ['secret']);
  return (
    <Dialog title={say.rotation.title} typed={secret !== '' || reason !== ''} onClose={props.onClose}>
      <Form doing={{ ...doing, problem: rest }} action={say.rotation.replace} onSubmit={submit}>
        <SecretField fault={at.secret} value={secret} onChange={setSecret} />
        <Select label={say.rotation.grace} value={grace} options={say.rotation.graces} onChange={setGrace} />
        <ReasonField hint={text.delivery.reasonHint} value={reason} onChange={setReason} />
      </Form>
    </Dialog>
  );
}

/** A signed test event to the URL of a subscription, or to another one. */
export function PingForm(props: { url: string; onClose: () => void }): JSX.Element {
  const [url, setUrl] = useState(props.url);
  const [secret, setSecret] = useState('');
  const { doing, result, send } = usePing();
  const { at, rest } = faultsOf(doing.problem, ['url', 'secret']);
  return (
    <Dialog
      title={say.ping.title}
      leave={text.parts.close}
      typed={secret !== '' && result === undefined}
      onClose={props.onClose}
    >
      <Form
        doing={{ ...doing, problem: rest }}
        action={say.ping.send}
        acting={say.ping.sending}
        onSubmit={() => send({ url, secret })}
      >
        <TextField label={say.url} fault={at.url} input={{ inputMode: 'url' }} value={url} onChange={setUrl} />
        <TextField
          label={say.form.secret}
          hint={say.ping.secretHint}
          fault={at.secret}
          input={{ class: 'mono' }}
          value={secret}
          onChange={setSecret}
        />
      </Form>
      <PingOutcome of={result} />
    </Dialog>
  );
}

interface Ping {
  readonly doing: Doing;
  readonly result: PingResult | undefined;
  readonly send: (to: { readonly url: string; readonly secret: string }) => void;
}

function usePing(): Ping {
  const { api } = useSession();
  const doing = useDoing();
  const [result, setResult] = useState<PingResult>();
  const send: Ping['send'] = (to) => {
    setResult(undefined);
    void doing.run(async () => setResult(await api.send<PingResult>('POST', `${WEBHOOKS}/test-ping`, { body: to })));
  };
  return { doing, result, send };
}

function PingOutcome({ of }: { of: PingResult | undefined }): JSX.Element | null {
  if (of === undefined) return null;
  const { error, statusCode, responseBody, elapsedMs } = of;
  const ms = countText(elapsedMs);
  return (
    <div role="status">
      {error === undefined ? (
        <p class="good">{say.ping.accepted(String(statusCode), ms)}</p>
      ) : (
        <>
          <p class="bad">{say.ping.failed(error.kind, error.message, ms)}</p>
          <ul>
            {error.reasons?.map((reason) => (
              <li key={reason}>{reason}</li>
            ))}
          </ul>
        </>
      )}
      {responseBody !== '' && <Dump label={say.ping.answer}>{responseBody}</Dump>}
    </div>
  );
}
