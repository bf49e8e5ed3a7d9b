/** The reference data's tables in refdata.db. Instants are texts as in base/instant.ts; JSON is text. */
export const refdataTables = `
CREATE TABLE dictionaries (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  title TEXT NOT NULL,
  scope TEXT NOT NULL,
  version INTEGER NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  changed_by TEXT NOT NULL,
  -- JSON Schema of a record's data; NULL: any object.
  schema TEXT
);

CREATE TABLE drafts (
  id INTEGER PRIMARY KEY,
  dictionary_id INTEGER NOT NULL REFERENCES dictionaries (id),
  state TEXT NOT NULL,
  change_reason TEXT NOT NULL,
  created_by TEXT NOT NULL,
  created_at TEXT NOT NULL,
  updated_by TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  schema TEXT NOT NULL
);
CREATE INDEX drafts_dictionary ON drafts (dictionary_id, id);

-- One row for each business key there ever was; its versions are beside it.
CREATE TABLE records (
  id INTEGER PRIMARY KEY,
  dictionary_id INTEGER NOT NULL REFERENCES dictionaries (id),
  business_key TEXT NOT NULL,
  -- The newest.
  version INTEGER NOT NULL,
  closed INTEGER NOT NULL,
  UNIQUE (dictionary_id, business_key)
);

-- At a time, the record is its newest version with valid_from <= time, if time < valid_to of that version.
-- The data is last: what decides whether a version holds is found without reading through it.
CREATE TABLE record_versions (
  record_id INTEGER NOT NULL REFERENCES records (id),
  version INTEGER NOT NULL,
  action TEXT NOT NULL,
  valid_from TEXT NOT NULL,
  valid_to TEXT NOT NULL,
  tx_time TEXT NOT NULL,
  changed_by TEXT NOT NULL,
  change_reason TEXT NOT NULL,
  data TEXT NOT NULL,
  PRIMARY KEY (record_id, version)
) WITHOUT ROWID;
`;

export const scopeHistory = `
-- The scopes that a dictionary had before the one in its own row: under which scope a version or a draft was written follows
-- from its time. The trigger also sees what an older slot's program changes.
CREATE TABLE dictionary_scopes (
  dictionary_id INTEGER NOT NULL REFERENCES dictionaries (id),
  -- txTime of the change that ended it.
  until TEXT NOT NULL,
  scope TEXT NOT NULL,
  PRIMARY KEY (dictionary_id, until)
) WITHOUT ROWID;
CREATE TRIGGER dictionary_scope_changed AFTER UPDATE OF scope ON dictionaries WHEN OLD.scope <> NEW.scope BEGIN
  INSERT INTO dictionary_scopes (dictionary_id, until, scope) VALUES (OLD.id, NEW.updated_at, OLD.scope);
END;
-- As far back as the audit goes.
INSERT OR IGNORE INTO dictionary_scopes (dictionary_id, until, scope)
  SELECT d.id, a.at, a.before FROM dictionaries d JOIN (
    SELECT subject, at, details ->> 'scope' AS scope, lag(details ->> 'scope') OVER (PARTITION BY subject ORDER BY id) AS before
    FROM audit WHERE action IN ('dictionary.created', 'dictionary.updated')) a ON a.subject = d.name
  WHERE a.before <> a.scope;

-- Under which scope the title and the schema were written. What an older slot's program writes counts as RESTRICTED.
ALTER TABLE dictionaries ADD COLUMN title_scope TEXT NOT NULL DEFAULT 'RESTRICTED';
ALTER TABLE dictionaries ADD COLUMN schema_scope TEXT NOT NULL DEFAULT 'RESTRICTED';
UPDATE dictionaries SET title_scope = scope, schema_scope = scope;
`;
