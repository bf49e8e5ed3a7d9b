/** A webhook subscription as a form: what is asked of the box, and the faults that it found, each at its field. Pure. */
import type { DeliveryResults, Subscription } from '../shared/gen/http.ts';
import { type Problem, placedFaults } from './problem.ts';

export const scopes = ['PUBLIC', 'INTERNAL', 'RESTRICTED'] as const satisfies Subscription['scopes'];
export const actions = ['created', 'updated', 'closed'] as const satisfies Subscription['actions'];
export const categories = [
  'dict.record.*',
  'dict.definition.*',
  'dict.draft.*',
] as const satisfies Subscription['categories'];

/** Lists: empty means all. */
export interface SubscriptionForm {
  readonly name: string;
  readonly url: string;
  /** Of a new one only. */
  readonly secret: string;
  readonly consumer: string;
  readonly scopes: readonly string[];
  /** Names with commas or white space between them. */
  readonly dictionaries: string;
  readonly actions: readonly string[];
  readonly categories: readonly string[];
}

export const emptyForm: SubscriptionForm = {
  name: '',
  url: '',
  secret: '',
  consumer: '',
  scopes: [],
  dictionaries: '',
  actions: [],
  categories: [],
};

export function formOf(of: Subscription): SubscriptionForm {
  const { name, url, consumer } = of;
  return {
    ...emptyForm,
    name,
    url,
    consumer,
    scopes: of.scopes,
    dictionaries: (of.dictionaries ?? []).join('\n'),
    actions: of.actions ?? [],
    categories: of.categories ?? [],
  };
}

export function isChanged(form: SubscriptionForm, before: SubscriptionForm): boolean {
  return JSON.stringify(form) !== JSON.stringify(before);
}

/** The body of a POST. */
export function requestOf(form: SubscriptionForm, changeReason: string): object {
  const { secret, consumer } = form;
  return { ...termsOf(form), secret, ...(consumer !== '' && { consumer }), changeReason };
}

/** The body of a PATCH: what was not changed stays as it is, also if another user has changed it meanwhile. */
export function patchOf(form: SubscriptionForm, before: SubscriptionForm, changeReason: string): object {
  const [after, unchanged] = [termsOf(form), termsOf(before)];
  const changed = Object.entries(after).filter(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(unchanged[name as keyof typeof unchanged]),
  );
  return { ...Object.fromEntries(changed), changeReason };
}

function termsOf(form: SubscriptionForm) {
  const names = form.dictionaries.split(/[\s,]+/).filter((name) => name !== '');
  return {
    name: form.name,
    url: form.url,
    scopes: orAll(form.scopes),
    dictionaries: orAll(names),
    actions: orAll(form.actions),
    categories: orAll(form.categories),
  };
}

const orAll = (list: readonly string[]): readonly string[] | null => (list.length === 0 ? null : list);

export interface FieldFaults<Name extends string> {
  /** In the words of the box. '' if the field has none. */
  readonly at: Readonly<Record<Name, string>>;
  /** The problem without the reasons that stand at their fields. */
  readonly rest: Problem | undefined;
}

/** Reasons begin with their field: "/url: …", "/dictionaries/0 is …", "secret is missing". */
export function faultsOf<Name extends string>(
  problem: Problem | undefined,
  fields: readonly Name[],
): FieldFaults<Name> {
  const { at, rest } = placedFaults(problem, (reason) => {
    const [, first = ''] = /^\/?(\w+)/.exec(reason) ?? [];
    const place = fields.find((name) => name === first);
    return place && { place, words: reason.replace(/^\//, '') };
  });
  return { at: Object.fromEntries(fields.map((name) => [name, at.get(name) ?? ''])) as Record<Name, string>, rest };
}

type Counts = Pick<DeliveryResults['subscriptions'][number], 'delivered' | 'rejected' | 'failed'>;

/** Of the deliveries that have ended; null: none has. Rounded down: 100 only if all were accepted. */
export function acceptedPercent({ delivered, rejected, failed }: Counts): number | null {
  const ended = delivered + rejected + failed;
  return ended === 0 ? null : Math.floor((delivered * 1_000) / ended) / 10;
}
