/** The webhooks' tables in refdata.db. Instants are texts as in base/instant.ts; `..._run_ms` are running time (running-time.ts). */
export const webhookTables = `
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
  -- Never used twice: attempts whose answer has been let go of still name it, and it is nobody else's.
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  body BLOB NOT NULL
);
`;
