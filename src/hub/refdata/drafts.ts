/** Schema drafts: a dictionary's next schema, under review. */
import { LinesideError } from '../../shared/base/errors.ts';
import type { Instant } from '../../shared/base/instant.ts';
import type { Connection } from '../../shared/storage/open.ts';
import type { Change, ChangeStore } from '../outbox/change-store.ts';
import { type DefinitionEventType, type JsonObject, narrowest, reasonFaults, type Scope } from '../outbox/event.ts';
import { cursorAfter, type Page, type PageRequest, pageOf, positionOf } from '../outbox/paging.ts';
import { type Dictionaries, schemaFaults } from './dictionaries.ts';
import type { Actor, Draft, DraftState, DraftStep } from './face.ts';
import { refuseFaults } from './rules.ts';

interface Act {
  readonly from: readonly DraftState[];
  readonly to: DraftState;
  readonly event: DefinitionEventType;
  readonly audit: string;
}

/** What happens to a draft: the steps of the interface, with one act for each decision. */
export const acts = {
  'request-review': { from: ['draft'], to: 'inReview', event: 'SchemaDraftReviewRequested', audit: 'reviewRequested' },
  approve: { from: ['inReview'], to: 'approved', event: 'SchemaDraftDecided', audit: 'approved' },
  reject: { from: ['inReview'], to: 'rejected', event: 'SchemaDraftDecided', audit: 'rejected' },
  publish: { from: ['approved'], to: 'published', event: 'SchemaDraftPublished', audit: 'published' },
  withdraw: {
    from: ['draft', 'inReview', 'approved'],
    to: 'withdrawn',
    event: 'SchemaDraftWithdrawn',
    audit: 'withdrawn',
  },
} as const satisfies Record<string, Act>;

/** undefined: a decision is missing, or given where there is nothing to decide. */
export function actOf(step: DraftStep, decision: 'approved' | 'rejected' | undefined): Act | undefined {
  if (step !== 'decide') return decision === undefined ? acts[step] : undefined;
  return decision && acts[decision === 'approved' ? 'approve' : 'reject'];
}

interface StoredDraft extends Omit<Draft, 'schema'> {
  readonly schema: string;
}

const listName = 'drafts';

export class Drafts {
  readonly #store: ChangeStore;
  readonly #dictionaries: Dictionaries;
  readonly #sql: ReturnType<typeof draftStatements>;

  constructor(store: ChangeStore, dictionaries: Dictionaries) {
    this.#store = store;
    this.#dictionaries = dictionaries;
    this.#sql = draftStatements(store.connection);
  }

  async create(actor: Actor, dictionary: string, schema: JsonObject, changeReason: string): Promise<Draft> {
    refuseFaults('the draft cannot be made', [...schemaFaults(schema), ...reasonFaults(changeReason)]);
    return this.#store.commit({ changedBy: actor.name, changeReason }, (change) => {
      const { id: dictionaryId, scope } = this.#dictionaries.head(actor, dictionary);
      const [by, at] = [actor.name, change.stamp.txTime];
      const made = { changeReason, createdBy: by, createdAt: at, updatedBy: by, updatedAt: at };
      const row = { dictionaryId, state: 'draft', schema: JSON.stringify(schema), ...made } as const;
      const id = Number(this.#sql.insert.run(row).lastInsertRowid);
      const draft: Draft = { id, dictionary, state: 'draft', schema, ...made };
      emitDraft(change, scope, 'SchemaDraftCreated', 'created', draft);
      return draft;
    });
  }

  page(actor: Actor, dictionary: string, page: PageRequest): Page<Draft> {
    const { id } = this.#dictionaries.head(actor, dictionary);
    const [before] = positionOf(listName, page, [Number.MAX_SAFE_INTEGER]);
    return pageOf(this.#sql.page.iterate(id, before, page.limit + 1), page, {
      show: draftOf,
      sizeOf: ({ schema }) => schema.length,
      cursorOf: (last) => cursorAfter(listName, last.id),
    });
  }

  one(actor: Actor, dictionary: string, id: number): Draft {
    const { id: dictionaryId } = this.#dictionaries.head(actor, dictionary);
    const row = Number.isSafeInteger(id) ? this.#sql.one.get(id, dictionaryId) : undefined;
    if (row === undefined) throw new LinesideError('NOT_FOUND', `${dictionary} has no draft ${id}`);
    return draftOf(row);
  }

  /** CONFLICT: the step is not possible in this state. `decision`: with 'decide' only. */
  async step(
    actor: Actor,
    dictionary: string,
    id: number,
    step: DraftStep,
    decision: 'approved' | 'rejected' | undefined,
    changeReason: string,
  ): Promise<Draft> {
    const act = actOf(step, decision);
    refuseFaults('the step cannot be made', [
      ...(act === undefined ? ['/decision must be given with "decide", and with nothing else'] : []),
      ...reasonFaults(changeReason),
    ]);
    return this.#store.commit({ changedBy: actor.name, changeReason }, (change) => {
      const draft = this.one(actor, dictionary, id);
      if (!act?.from.includes(draft.state)) {
        throw new LinesideError('CONFLICT', `draft ${id} is ${draft.state}: ${step} is not possible in this state`);
      }
      const head = this.#dictionaries.head(actor, dictionary);
      // The schema was written with the draft: its event is sent to those who could see it then.
      const scope = narrowest(head.scope, this.#dictionaries.scopeAt(head, draft.createdAt));
      if (act === acts.publish) this.#publish(actor, change, draft, scope);
      const { txTime } = change.stamp;
      this.#sql.update.run(act.to, actor.name, txTime, id);
      const after: Draft = { ...draft, state: act.to, updatedBy: actor.name, updatedAt: txTime };
      emitDraft(change, scope, act.event, act.audit, after);
      return after;
    });
  }

  #publish(actor: Actor, change: Change, draft: Draft, scope: Scope): void {
    // A newer lineside may refuse a schema that was accepted when it was drafted.
    const faults = schemaFaults(draft.schema);
    if (faults.length > 0) {
      throw new LinesideError('CONFLICT', `the schema of draft ${draft.id} is not valid any more`, { reasons: faults });
    }
    this.#dictionaries.write(
      change,
      this.#dictionaries.whole(actor, draft.dictionary),
      { schema: draft.schema },
      scope,
    );
  }
}

function emitDraft(change: Change, scope: Scope, eventType: DefinitionEventType, audit: string, draft: Draft): void {
  change.emit({ kind: 'definition', eventType, scope, dictionary: draft.dictionary, data: { ...draft } });
  change.audit(`draft.${audit}`, `${draft.dictionary} draft ${draft.id}`, {
    state: draft.state,
    changeReason: change.stamp.changeReason,
  });
}

function draftOf(row: StoredDraft): Draft {
  return { ...row, schema: JSON.parse(row.schema) as JsonObject };
}

export function draftStatements(connection: Connection) {
  const columns = `drafts.id, dictionaries.name AS dictionary, drafts.state, drafts.schema,
    drafts.change_reason AS changeReason, drafts.created_by AS createdBy, drafts.created_at AS createdAt,
    drafts.updated_by AS updatedBy, drafts.updated_at AS updatedAt`;
  const drafts = `SELECT ${columns} FROM drafts JOIN dictionaries ON dictionaries.id = drafts.dictionary_id`;
  return {
    one: connection.prepare<[number, number], StoredDraft>(
      `${drafts} WHERE drafts.id = ? AND drafts.dictionary_id = ?`,
    ),
    /** Newest first. */
    page: connection.prepare<[number, number, number], StoredDraft>(
      `${drafts} WHERE drafts.dictionary_id = ? AND drafts.id < ? ORDER BY drafts.id DESC LIMIT ?`,
    ),
    insert: connection.prepare<[Omit<StoredDraft, 'id' | 'dictionary'> & { readonly dictionaryId: number }]>(
      `INSERT INTO drafts (dictionary_id, state, schema, change_reason, created_by, created_at, updated_by, updated_at)
       VALUES (:dictionaryId, :state, :schema, :changeReason, :createdBy, :createdAt, :updatedBy, :updatedAt)`,
    ),
    update: connection.prepare<[DraftState, string, Instant, number]>(
      'UPDATE drafts SET state = ?, updated_by = ?, updated_at = ? WHERE id = ?',
    ),
  };
}
