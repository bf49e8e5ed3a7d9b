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
