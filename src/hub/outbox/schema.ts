/** The outbox's tables in refdata.db. Instants are texts as in base/instant.ts. */
export const outboxTables = `
-- One row. Written in every transaction, so both counters cost one page.
CREATE TABLE progress (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  -- Names this file in event ids: made when the file was.
  store_id TEXT NOT NULL,
  last_tx_time TEXT NOT NULL,
  -- Row ids are never used twice, also when the newest row was removed: readers keep cursors.
  last_outbox_id INTEGER NOT NULL
);

-- Written once. What becomes of an event is in narrow tables of its own: marking 2,000 rows as published rewrites a few
-- pages and not the texts of 2,000 events (measured: a tenth of the time and of the bytes).
CREATE TABLE outbox_events (
  id INTEGER PRIMARY KEY,
  -- Rows of one transaction have it in common.
  tx_time TEXT NOT NULL,
  category TEXT NOT NULL,
  scope TEXT NOT NULL,
  dictionary TEXT NOT NULL,
  -- '' for definitions and drafts.
  business_key TEXT NOT NULL,
  action TEXT NOT NULL,
  -- JSON as it is sent: the topic event of a record, the webhook element of a definition or draft. Last: what decides
  -- about a row is found without reading through it.
  body TEXT NOT NULL
);

-- Events still to be sent to the topic of their scope.
CREATE TABLE outbox_waiting (
  id INTEGER PRIMARY KEY,
  -- Refusals by a broker that was reached.
  attempts INTEGER NOT NULL,
  last_error TEXT NOT NULL
);

-- Events that the broker has acknowledged.
CREATE TABLE outbox_published (
  id INTEGER PRIMARY KEY,
  published_at TEXT NOT NULL
);

-- Events that cannot be published. They stay until the dead letter is requeued or discarded.
CREATE TABLE dead_letters (
  outbox_id INTEGER PRIMARY KEY REFERENCES outbox_events (id),
  died_at TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  reason TEXT NOT NULL
);

-- The outbox row as the specification speaks of it, for people and tests.
CREATE VIEW outbox AS SELECT e.id, e.tx_time, e.category, e.scope, e.dictionary, e.business_key, e.action,
    w.id IS NOT NULL AS waiting, coalesce(w.attempts, d.attempts, 0) AS attempts,
    coalesce(w.last_error, d.reason, '') AS last_error, p.published_at, e.body
  FROM outbox_events e LEFT JOIN outbox_waiting w ON w.id = e.id LEFT JOIN outbox_published p ON p.id = e.id
  LEFT JOIN dead_letters d ON d.outbox_id = e.id;

CREATE TABLE audit (
  id INTEGER PRIMARY KEY,
  at TEXT NOT NULL,
  actor TEXT NOT NULL,
  action TEXT NOT NULL,
  subject TEXT NOT NULL,
  -- JSON object.
  details TEXT NOT NULL
);
CREATE INDEX audit_action ON audit (action, id);
`;
