/**
 * The versions of refdata.db: each string takes it from one to the next. Never changed once released, only added to. Instants are
 * strings as in base/instant.ts, JSON is text; `..._run_ms` are running time (webhooks, running-time.ts).
 */
import type { Migrations } from '../shared/storage/open.ts';
import { contentsMigration } from './contents-migration.ts';
import { recordsMigration } from './records-migration.ts';

export const hubMigrations: Migrations = [
  `
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
`,
  `
-- One row, there from the beginning.
CREATE TABLE webhook_progress (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  -- The planner's cursor: outbox events up to this one are planned. It moves with the deliveries it plans.
  last_event INTEGER NOT NULL,
  -- Running time so far, and the boot and its monotonic clock at which that was so.
  run_ms INTEGER NOT NULL,
  boot_id TEXT NOT NULL,
  boot_ms INTEGER NOT NULL
);
-- Before there were subscriptions no event was for one.
INSERT INTO webhook_progress (one, last_event, run_ms, boot_id, boot_ms)
  SELECT 1, coalesce(max(last_outbox_id), 0), 0, '', 0 FROM progress;

CREATE TABLE webhook_subscriptions (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  url TEXT NOT NULL,
  -- Name of the token whose scopes bound it.
  consumer TEXT NOT NULL,
  -- JSON lists; NULL: all.
  scopes TEXT NOT NULL,
  dictionaries TEXT,
  actions TEXT,
  categories TEXT,
  active INTEGER NOT NULL,
  version INTEGER NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  -- What deliveries planned now are made by.
  form_id INTEGER NOT NULL,
  -- Events up to this one are not for it: made before it was, or while it was not active.
  after_event INTEGER NOT NULL,
  -- Sealed (secrets.ts).
  secret BLOB NOT NULL,
  previous_secret BLOB,
  -- Until then the previous one signs as well.
  previous_until_run_ms INTEGER,
  -- 1: deleted; the row goes when its deliveries are gone.
  deleted INTEGER NOT NULL DEFAULT 0
);

-- What a delivery's body is made by, besides its events: never changed, so that the bytes are the same on every attempt.
-- Its scopes are those that were open to the consumer too. An id is never used again: what is kept by it is never another.
CREATE TABLE webhook_forms (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  subscription_id INTEGER NOT NULL,
  -- Which renderer of body.ts.
  renderer INTEGER NOT NULL,
  name TEXT NOT NULL,
  scopes TEXT NOT NULL,
  dictionaries TEXT,
  actions TEXT,
  categories TEXT
);

-- A delivery names its events, those of first_event to last_event that its form's filters take; it does not copy them.
-- first_event never falls as id rises, and no id is used again.
CREATE TABLE webhook_deliveries (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  -- 16 hex digits of chance: deliveryId is "<id>-<nonce>", unique also when a backup takes ids back.
  nonce TEXT NOT NULL,
  subscription_id INTEGER NOT NULL,
  form_id INTEGER NOT NULL,
  first_event INTEGER NOT NULL,
  last_event INTEGER NOT NULL,
  events INTEGER NOT NULL,
  occurred_at TEXT NOT NULL,
  -- pending, retrying, delivered, rejected, failed
  state TEXT NOT NULL,
  -- Attempts made in all, and those made when it was last sent again by hand: the schedule counts from there.
  attempts INTEGER NOT NULL,
  attempts_before INTEGER NOT NULL,
  due_run_ms INTEGER NOT NULL,
  -- NULL while it waits.
  ended_at TEXT,
  ended_run_ms INTEGER
);
CREATE INDEX webhook_due ON webhook_deliveries (subscription_id, due_run_ms, id) WHERE state IN ('pending', 'retrying');
CREATE INDEX webhook_review ON webhook_deliveries (state, id) WHERE state IN ('rejected', 'failed');

-- The bodies of deliveries that are for review or have long been due, deflated: their events may leave the outbox.
CREATE TABLE webhook_bodies (
  delivery_id INTEGER PRIMARY KEY,
  body BLOB NOT NULL
);

CREATE TABLE webhook_attempts (
  delivery_id INTEGER NOT NULL,
  -- From 1.
  attempt INTEGER NOT NULL,
  -- When it began, by the wall clock.
  at TEXT NOT NULL,
  elapsed_ms INTEGER NOT NULL,
  -- NULL: there was no answer.
  status INTEGER,
  -- '' (accepted), dns, timeout, ssrf, tls, connect, http
  cause TEXT NOT NULL,
  message TEXT NOT NULL,
  -- NULL: the answer's body was empty, accepted, or has been let go of.
  answer_id INTEGER,
  PRIMARY KEY (delivery_id, attempt)
) WITHOUT ROWID;

-- The beginnings of answers that did not accept; the oldest go when they are too many bytes.
CREATE TABLE webhook_answers (
  -- Never used twice: attempts whose answer has been deleted still name it, and no other attempt may have it.
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  body BLOB NOT NULL
);
`,
  `
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
`,
  `
-- Waiting events that are not to be sent now: the first of its key was refused or not reached, and those that wait behind it;
-- and of a key of which very many wait, those that are not in the memory of the publisher.
CREATE TABLE outbox_deferred (
  id INTEGER PRIMARY KEY,
  scope TEXT NOT NULL,
  -- "dictionary:business key"
  key TEXT NOT NULL,
  -- Of the first of its key: when to send it again, in milliseconds of the process's monotonic clock. NULL: it is behind it.
  due_ms INTEGER,
  -- So far, for the backoff.
  retries INTEGER NOT NULL,
  -- 1: a broker refused it.
  refused INTEGER NOT NULL
);
CREATE INDEX outbox_deferred_key ON outbox_deferred (scope, key, id);
CREATE INDEX outbox_deferred_due ON outbox_deferred (scope, refused, due_ms) WHERE due_ms IS NOT NULL;
-- Whoever removes a waiting event, an older slot's program too: the next of its key goes on.
CREATE TRIGGER outbox_waits_no_more AFTER DELETE ON outbox_waiting BEGIN
  DELETE FROM outbox_deferred WHERE id = OLD.id;
END;
CREATE TRIGGER outbox_next_of_key AFTER DELETE ON outbox_deferred WHEN OLD.due_ms IS NOT NULL BEGIN
  UPDATE outbox_deferred SET due_ms = 0
    WHERE id = (SELECT min(id) FROM outbox_deferred WHERE scope = OLD.scope AND key = OLD.key);
END;
`,
  contentsMigration(),
  recordsMigration(),
  `
-- One row, there from the beginning: the saved commands of the line, as a JSON list (line-commands.ts).
CREATE TABLE line_commands (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  version INTEGER NOT NULL,
  items TEXT NOT NULL
);
INSERT INTO line_commands (one, version, items) VALUES (1, 1, '[]');
`,
  {
    // An older program would send the body as it is stored.
    breaksOlder: true,
    sql: `
-- The data of a record's event lie in the file once, in its version: row of record_versions, whose rows are never changed or
-- removed; body is previousData then. NULL: body has all that is sent (definitions, drafts, and what older programs wrote).
ALTER TABLE outbox_events ADD COLUMN version_id INTEGER REFERENCES record_versions (id);
ALTER TABLE outbox_events ADD COLUMN event_type TEXT;
-- NULL: as tx_time.
ALTER TABLE outbox_events ADD COLUMN occurred_at TEXT;

-- Events with the JSON that is sent, as JSON.stringify writes it: of a record its topic event, of a definition or draft its webhook
-- element. Texts that may have letters which JSON escapes are quoted. NULL: the version is lost. With || instead of concat, which
-- copies the text at each step, an event takes 33 us instead of 24.
CREATE VIEW events AS SELECT e.id, e.tx_time, e.category, e.scope, e.dictionary, e.business_key, e.action,
    CASE WHEN e.version_id IS NULL THEN e.body WHEN v.id IS NOT NULL THEN concat(
      '{"schemaVersion":"1.0.0","eventType":"', e.event_type,
      '","occurredAt":"', coalesce(e.occurred_at, e.tx_time), '","txTime":"', e.tx_time,
      '","changedBy":', json_quote(v.changed_by), ',"changeReason":', json_quote(v.change_reason),
      ',"scope":"', e.scope, '","dictionary":"', e.dictionary,
      '","businessKey":', json_quote(e.business_key), ',"action":"', e.action, '","version":', v.version,
      ',"validFrom":"', v.valid_from, '","validTo":"', v.valid_to,
      '","data":', v.data, ',"previousData":', e.body, '}') END AS body
  FROM outbox_events e LEFT JOIN record_versions v ON v.id = e.version_id;

DROP VIEW outbox;
CREATE VIEW outbox AS SELECT e.id, e.tx_time, e.category, e.scope, e.dictionary, e.business_key, e.action,
    w.id IS NOT NULL AS waiting, coalesce(w.attempts, d.attempts, 0) AS attempts,
    coalesce(w.last_error, d.reason, '') AS last_error, p.published_at, e.body
  FROM events e LEFT JOIN outbox_waiting w ON w.id = e.id LEFT JOIN outbox_published p ON p.id = e.id
  LEFT JOIN dead_letters d ON d.outbox_id = e.id;
`,
  },
];
