/** The SQL of dictionaries. Statements are prepared once for a connection. */
import type { Instant } from '../../shared/base/instant.ts';
import type { Connection } from '../../shared/storage/open.ts';
import type { JsonObject, Scope } from '../outbox/event.ts';
import type { Dictionary } from './face.ts';

/** What a change of a record needs of its dictionary; the schema is with the validators. */
export interface DictionaryHead {
  readonly id: number;
  readonly name: string;
  readonly scope: Scope;
  readonly version: number;
}

export interface StoredDictionary extends DictionaryHead, TextScopes {
  readonly title: string;
  readonly schema: string | null;
  readonly createdAt: Instant;
  readonly updatedAt: Instant;
  readonly changedBy: string;
}

/** The scopes under which the title and the schema were written. */
export interface TextScopes {
  readonly titleScope: Scope;
  readonly schemaScope: Scope;
}

export class DictionaryRows {
  readonly #sql: ReturnType<typeof dictionaryStatements>;

  constructor(connection: Connection) {
    this.#sql = dictionaryStatements(connection);
  }

  head(name: string): DictionaryHead | undefined {
    return this.#sql.head.get(name);
  }

  whole(name: string): StoredDictionary | undefined {
    return this.#sql.whole.get(name);
  }

  /** In the order of their names. */
  page(after: string, scopes: readonly Scope[], limit: number): Iterable<StoredDictionary> {
    return this.#sql.page.iterate(after, scopes[0] ?? '', scopes[1] ?? '', scopes[2] ?? '', limit);
  }

  insert(dictionary: Dictionary): void {
    const { name, title, scope, schema, createdAt, updatedAt, changedBy } = dictionary;
    this.#sql.insert.run(name, title, scope, schemaText(schema), createdAt, updatedAt, changedBy, scope, scope);
  }

  update(
    id: number,
    { title, scope, schema, version, updatedAt, changedBy }: Dictionary,
    { titleScope, schemaScope }: TextScopes,
  ): void {
    const text = schemaText(schema);
    this.#sql.update.run(title, scope, text, version, updatedAt, changedBy, titleScope, schemaScope, id);
  }

  /** The scope that it had at a time. */
  scopeAt({ id, scope }: DictionaryHead, at: Instant): Scope {
    return this.#sql.scopeAt.get(id, at) ?? scope;
  }

  /** Its business keys, closed ones included. */
  records({ id }: DictionaryHead): number {
    return this.#sql.records.get(id) ?? 0;
  }
}

export function dictionaryOf({ schema, ...row }: StoredDictionary): Dictionary {
  const { name, title, scope, version, createdAt, updatedAt, changedBy } = row;
  const parsed = schema === null ? null : (JSON.parse(schema) as JsonObject);
  return { name, title, scope, schema: parsed, version, createdAt, updatedAt, changedBy };
}

function schemaText(schema: JsonObject | null): string | null {
  return schema === null ? null : JSON.stringify(schema);
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
    /** The first that ended after a time; none: the present one. */
    scopeAt: connection
      .prepare<[number, Instant], Scope>(
        'SELECT scope FROM dictionary_scopes WHERE dictionary_id = ? AND until > ? ORDER BY until LIMIT 1',
      )
      .pluck(),
    records: connection.prepare<[number], number>('SELECT count(*) FROM records WHERE dictionary_id = ?').pluck(),
    insert: connection.prepare<[string, string, Scope, string | null, Instant, Instant, string, Scope, Scope]>(
      `INSERT INTO dictionaries
         (name, title, scope, schema, version, created_at, updated_at, changed_by, title_scope, schema_scope)
       VALUES (?, ?, ?, ?, 1, ?, ?, ?, ?, ?)`,
    ),
    update: connection.prepare<[string, Scope, string | null, number, Instant, string, Scope, Scope, number]>(
      `UPDATE dictionaries SET title = ?, scope = ?, schema = ?, version = ?, updated_at = ?, changed_by = ?,
         title_scope = ?, schema_scope = ? WHERE id = ?`,
    ),
  };
}
