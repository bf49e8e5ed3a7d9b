/** Dictionaries and their definitions, and the SQL of dictionaries. */
import { LinesideError } from '../../shared/base/errors.ts';
import type { ExpectedVersion } from '../../shared/base/expected-version.ts';
import type { Instant } from '../../shared/base/instant.ts';
import type { Connection } from '../../shared/storage/open.ts';
import type { Change, ChangeStore } from '../outbox/change-store.ts';
import {
  type DefinitionEventType,
  faultAt,
  isWider,
  type JsonObject,
  narrowest,
  reasonFaults,
  type Scope,
  scopes,
} from '../outbox/event.ts';
import { cursorAfter, type Page, type PageRequest, pageOf, positionOf } from '../outbox/paging.ts';
import type { Actor, Dictionary, DictionaryPatch, DictionaryUpdate, NewDictionary } from './face.ts';
import { compileSchema } from './json-schema.ts';
import {
  dictionaryNameFault,
  dictionaryNotFound,
  isVisible,
  refuseFaults,
  requireVersion,
  requireVisible,
  titleFault,
  visibleScopes,
} from './rules.ts';

const listName = 'dictionaries';

export class Dictionaries {
  readonly #store: ChangeStore;
  readonly #sql: ReturnType<typeof dictionaryStatements>;

  constructor(store: ChangeStore) {
    this.#store = store;
    this.#sql = dictionaryStatements(store.connection);
  }

  /** Throws NOT_FOUND if there is none that the actor may see. */
  head(actor: Actor, name: string): DictionaryHead {
    const head = this.#sql.head.get(name);
    if (head === undefined || !isVisible(actor, head.scope)) throw dictionaryNotFound(name);
    return head;
  }

  whole(actor: Actor, name: string): StoredDictionary {
    const stored = this.#sql.whole.get(name);
    if (stored === undefined || !isVisible(actor, stored.scope)) throw dictionaryNotFound(name);
    return stored;
  }

  page(actor: Actor, page: PageRequest): Page<Dictionary> {
    const [after] = positionOf(listName, page, ['']);
    const [some = '', others = '', more = ''] = visibleScopes(actor);
    const rows = this.#sql.page.iterate(after, some, others, more, page.limit + 1);
    return pageOf(rows, page, {
      show: dictionaryOf,
      sizeOf: ({ schema }) => schema?.length ?? 0,
      cursorOf: ({ name }) => cursorAfter(listName, name),
    });
  }

  async create(actor: Actor, wanted: NewDictionary, changeReason: string): Promise<Dictionary> {
    const { name, title, scope, schema = null } = wanted;
    refuseFaults('the dictionary cannot be made', [
      ...faultAt('/name', dictionaryNameFault(name)),
      ...definitionFaults({ title, scope, schema }),
      ...reasonFaults(changeReason),
    ]);
    requireVisible(actor, scope);
    return this.#store.commit({ changedBy: actor.name, changeReason }, (change) => {
      if (this.#sql.head.get(name) !== undefined) {
        throw new LinesideError('CONFLICT', `there is a dictionary ${name} already`);
      }
      const { txTime } = change.stamp;
      const dictionary: Dictionary = {
        name,
        title,
        scope,
        schema,
        version: 1,
        createdAt: txTime,
        updatedAt: txTime,
        changedBy: actor.name,
      };
      this.#sql.insert.run(rowOf(dictionary, { titleScope: scope, schemaScope: scope }));
      emitDefinition(change, 'DefinitionCreated', 'dictionary.created', dictionary, scope);
      return dictionary;
    });
  }

  /** `version`: of If-Match. CONFLICT: the scope would widen, and that is not confirmed. */
  async update(
    actor: Actor,
    name: string,
    { confirmWidening = false, ...patch }: DictionaryUpdate,
    changeReason: string,
    version: ExpectedVersion | undefined,
  ): Promise<Dictionary> {
    const given = Object.values(patch).some((value) => value !== undefined);
    refuseFaults('the definition cannot be changed', [
      ...(given ? [] : ['title, scope or schema must be given']),
      ...definitionFaults(patch),
      ...reasonFaults(changeReason),
    ]);
    return this.#store.commit({ changedBy: actor.name, changeReason }, (change) => {
      const stored = this.whole(actor, name);
      if (version !== undefined) requireVersion(`the dictionary ${name}`, stored.version, version);
      if (patch.scope !== undefined) {
        requireVisible(actor, patch.scope);
        if (isWider(patch.scope, stored.scope)) this.#widen(change, stored, patch.scope, confirmWidening);
      }
      const { dictionary, texts } = this.write(change, stored, patch);
      emitDefinition(change, 'DefinitionUpdated', 'dictionary.updated', dictionary, texts);
      return dictionary;
    });
  }

  #widen(change: Change, stored: StoredDictionary, to: Scope, confirmed: boolean): void {
    const { name, scope: from } = stored;
    const records = this.#sql.records.get(stored.id) ?? 0;
    if (!confirmed) {
      const readable = `${records} ${records === 1 ? 'record becomes' : 'records become'} readable in the scope ${to}`;
      throw new LinesideError('CONFLICT', `cannot widen the scope of ${name} from ${from} to ${to}: ${readable}`, {
        hint: 'Send "confirmWidening": true, or use lineside dict update --confirm-widening.',
      });
    }
    const { changeReason } = change.stamp;
    change.audit('dictionary.widened', name, { from, to, records, changeReason });
  }

  scopeAt(head: DictionaryHead, at: Instant): Scope {
    return this.#sql.scopeAt.get(head.id, at) ?? head.scope;
  }

  /**
   * Writes the next version without an event. `schemaScope`: the scope under which the patch's schema was written; undefined: that
   * of the dictionary from now on. `texts`: the scope that may see title and schema.
   */
  write(
    change: Change,
    stored: StoredDictionary,
    patch: DictionaryPatch,
    schemaScope?: Scope,
  ): { readonly dictionary: Dictionary; readonly texts: Scope } {
    const before = dictionaryOf(stored);
    const dictionary: Dictionary = {
      ...before,
      title: patch.title ?? before.title,
      scope: patch.scope ?? before.scope,
      schema: patch.schema === undefined ? before.schema : patch.schema,
      version: before.version + 1,
      updatedAt: change.stamp.txTime,
      changedBy: change.stamp.changedBy,
    };
    const { scope, schema } = dictionary;
    const written: TextScopes = {
      titleScope: patch.title === undefined ? stored.titleScope : scope,
      schemaScope: patch.schema === undefined ? stored.schemaScope : (schemaScope ?? scope),
    };
    this.#sql.update.run(rowOf(dictionary, written));
    const ofSchema = schema === null ? scope : written.schemaScope;
    return { dictionary, texts: narrowest(scope, written.titleScope, ofSchema) };
  }
}

/** `texts`: the event contains title and schema, and is sent to those who may see both as they were written. */
function emitDefinition(
  change: Change,
  eventType: DefinitionEventType,
  audit: string,
  dictionary: Dictionary,
  texts: Scope,
): void {
  const { name, scope, version } = dictionary;
  change.emit({ kind: 'definition', eventType, scope: texts, dictionary: name, data: { ...dictionary } });
  change.audit(audit, name, { scope, version, changeReason: change.stamp.changeReason });
}

function definitionFaults({ title, scope, schema }: DictionaryPatch): readonly string[] {
  return [
    ...(title === undefined ? [] : faultAt('/title', titleFault(title))),
    ...(scope === undefined || scopes.includes(scope) ? [] : [`/scope must be ${scopes.join(', ')}`]),
    ...(schema === undefined || schema === null ? [] : schemaFaults(schema)),
  ];
}

export function schemaFaults(schema: JsonObject): readonly string[] {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return ['/schema must be an object'];
  const compiled = compileSchema(schema, '/schema');
  return 'faults' in compiled ? compiled.faults : [];
}

/** For changes of records; dataChecks reads the schema. */
export type DictionaryHead = Pick<StoredDictionary, 'id' | 'name' | 'scope' | 'version'>;

export interface StoredDictionary extends DictionaryRow {
  readonly id: number;
}

interface TextScopes {
  readonly titleScope: Scope;
  readonly schemaScope: Scope;
}

export function dictionaryOf({ schema, ...row }: StoredDictionary): Dictionary {
  const { name, title, scope, version, createdAt, updatedAt, changedBy } = row;
  const parsed = schema === null ? null : (JSON.parse(schema) as JsonObject);
  return { name, title, scope, schema: parsed, version, createdAt, updatedAt, changedBy };
}

type DictionaryRow = Omit<Dictionary, 'schema'> & TextScopes & { readonly schema: string | null };

function rowOf(dictionary: Dictionary, written: TextScopes): DictionaryRow {
  const { schema } = dictionary;
  return { ...dictionary, ...written, schema: schema === null ? null : JSON.stringify(schema) };
}

export function dictionaryStatements(connection: Connection) {
  const columns = `id, name, title, scope, schema, version, created_at AS createdAt, updated_at AS updatedAt,
    changed_by AS changedBy, title_scope AS titleScope, schema_scope AS schemaScope`;
  return {
    head: connection.prepare<[string], DictionaryHead>(
      'SELECT id, name, scope, version FROM dictionaries WHERE name = ?',
    ),
    whole: connection.prepare<[string], StoredDictionary>(`SELECT ${columns} FROM dictionaries WHERE name = ?`),
    page: connection.prepare<[string, string, string, string, number], StoredDictionary>(
      `SELECT ${columns} FROM dictionaries WHERE name > ? AND scope IN (?, ?, ?) ORDER BY name LIMIT ?`,
    ),
    /** None: the present scope. */
    scopeAt: connection
      .prepare<[number, Instant], Scope>(
        'SELECT scope FROM dictionary_scopes WHERE dictionary_id = ? AND until > ? ORDER BY until LIMIT 1',
      )
      .pluck(),
    records: connection.prepare<[number], number>('SELECT count(*) FROM records WHERE dictionary_id = ?').pluck(),
    insert: connection.prepare<[DictionaryRow]>(
      `INSERT INTO dictionaries
         (name, title, scope, schema, version, created_at, updated_at, changed_by, title_scope, schema_scope)
       VALUES (:name, :title, :scope, :schema, :version, :createdAt, :updatedAt, :changedBy, :titleScope, :schemaScope)`,
    ),
    update: connection.prepare<[DictionaryRow]>(
      `UPDATE dictionaries SET title = :title, scope = :scope, schema = :schema, version = :version,
         updated_at = :updatedAt, changed_by = :changedBy, title_scope = :titleScope, schema_scope = :schemaScope
       WHERE name = :name`,
    ),
  };
}
