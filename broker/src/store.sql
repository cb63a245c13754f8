-- The audit log. Each record's hash covers all its columns and the hash before.
CREATE TABLE record (
  seq         INTEGER PRIMARY KEY,
  time        INTEGER NOT NULL,
  event       TEXT NOT NULL,
  id          TEXT,
  command     TEXT,
  argv        TEXT,
  cwd         TEXT,
  user        TEXT,
  agent       TEXT,
  session     TEXT,
  risk        TEXT,
  reasons     TEXT,
  decision    TEXT,
  rule        TEXT,
  approver    TEXT,
  policy      TEXT,
  isolation   TEXT,
  exit        INTEGER,
  signal      INTEGER,
  duration    INTEGER,
  usage       TEXT,
  output_head TEXT,
  output_tail TEXT,
  detail      TEXT,
  prev        BLOB NOT NULL,
  hash        BLOB NOT NULL
) STRICT;
-- Only what is looked for by itself; time needs none, it grows with seq.
CREATE INDEX record_id ON record(id) WHERE id IS NOT NULL;
CREATE INDEX record_risk ON record(risk, seq) WHERE risk IN ('dangerous', 'critical', 'disallowed');
CREATE INDEX record_agent ON record(agent, seq) WHERE agent IS NOT NULL;
CREATE INDEX record_session ON record(session, seq) WHERE session IS NOT NULL;
CREATE INDEX record_held ON record(decision, seq) WHERE event = 'decision';
CREATE INDEX record_alert ON record(seq) WHERE event = 'alert';
CREATE INDEX record_answer ON record(decision, seq) WHERE event = 'approval';
CREATE INDEX record_failed ON record(exit, seq, id) WHERE event = 'outcome' AND exit IS NOT 0;
CREATE INDEX record_preview ON record(seq) WHERE event = 'intent' AND decision = 'preview';
CREATE INDEX record_user ON record(user, seq) WHERE user IS NOT NULL;
CREATE INDEX record_command ON record(command) WHERE command IS NOT NULL;

-- Signed statements that the log went as far as this, and had this hash there.
CREATE TABLE checkpoint (
  seq       INTEGER PRIMARY KEY,
  time      INTEGER NOT NULL,
  hash      BLOB NOT NULL,
  key       BLOB NOT NULL,
  signature BLOB NOT NULL
) STRICT;

-- Up to where old records were removed; the prune record in the chain says the same.
CREATE TABLE pruned (
  through INTEGER PRIMARY KEY,
  hash    BLOB NOT NULL,
  seq     INTEGER NOT NULL
) STRICT;

-- Records are only ever added, and removed only from the old end after the chain says so.
CREATE TRIGGER record_no_update BEFORE UPDATE ON record
BEGIN SELECT raise(ABORT, 'audit records cannot be changed'); END;
CREATE TRIGGER record_no_delete BEFORE DELETE ON record
WHEN old.seq > coalesce((SELECT max(through) FROM pruned), -1)
BEGIN SELECT raise(ABORT, 'audit records cannot be deleted'); END;
CREATE TRIGGER record_in_order BEFORE INSERT ON record
WHEN new.seq <= coalesce((SELECT max(seq) FROM record), (SELECT max(through) FROM pruned), 0)
BEGIN SELECT raise(ABORT, 'audit records can only be appended'); END;
CREATE TRIGGER checkpoint_no_update BEFORE UPDATE ON checkpoint
BEGIN SELECT raise(ABORT, 'checkpoints cannot be changed'); END;
CREATE TRIGGER checkpoint_no_delete BEFORE DELETE ON checkpoint
WHEN old.seq > coalesce((SELECT max(through) FROM pruned), -1)
BEGIN SELECT raise(ABORT, 'checkpoints cannot be deleted'); END;
CREATE TRIGGER pruned_no_update BEFORE UPDATE ON pruned
BEGIN SELECT raise(ABORT, 'prune marks cannot be changed'); END;

-- Counts per hour since 1970, so that statistics over a million records stay quick.
-- Derived: `verify` does not look at them.
CREATE TABLE tally (
  hour     INTEGER NOT NULL,
  agent    TEXT NOT NULL,
  risk     TEXT NOT NULL,
  decision TEXT NOT NULL,
  count    INTEGER NOT NULL,
  PRIMARY KEY (hour, agent, risk, decision)
) STRICT, WITHOUT ROWID;
-- The same for single commands, but only for those that were asked about or refused.
CREATE TABLE held (
  hour     INTEGER NOT NULL,
  decision TEXT NOT NULL,
  command  TEXT NOT NULL,
  count    INTEGER NOT NULL,
  PRIMARY KEY (hour, decision, command)
) STRICT, WITHOUT ROWID;
-- How long commands ran, in microseconds.
CREATE TABLE spent (
  hour    INTEGER PRIMARY KEY,
  runs    INTEGER NOT NULL,
  failed  INTEGER NOT NULL,
  total   INTEGER NOT NULL,
  longest INTEGER NOT NULL
) STRICT;

-- Runs that were let go and have not told their end.
CREATE TABLE run (
  id      TEXT PRIMARY KEY,
  token   TEXT NOT NULL,
  uid     INTEGER NOT NULL,
  pid     INTEGER NOT NULL,
  started INTEGER NOT NULL,
  seq     INTEGER NOT NULL,
  created INTEGER NOT NULL,
  -- What was submitted, salted and hashed: the same again is the same run.
  asked   BLOB
) STRICT, WITHOUT ROWID;

-- Requests that a person answers.
CREATE TABLE request (
  number   INTEGER PRIMARY KEY AUTOINCREMENT,
  id       TEXT NOT NULL UNIQUE,
  status   TEXT NOT NULL,
  uid      INTEGER NOT NULL,
  created  INTEGER NOT NULL,
  expires  INTEGER NOT NULL,
  approver TEXT,
  note     TEXT,
  -- What identifies the same command asked again: one waiting request per command.
  twin     BLOB NOT NULL,
  -- Everything else, JSON: command, binding, peer, risk.
  body     TEXT NOT NULL,
  -- What the jail would enforce, JSON; apart, because listings do not need it.
  plan     TEXT
) STRICT;
CREATE INDEX request_status ON request(status, number);
CREATE INDEX request_expires ON request(expires) WHERE status IN ('pending', 'approved');
CREATE INDEX request_twin ON request(twin) WHERE status IN ('pending', 'approved');

-- Standing permissions between once and always.
CREATE TABLE permit (
  id        TEXT PRIMARY KEY,
  request   TEXT NOT NULL,
  uid       INTEGER NOT NULL,
  scope     TEXT NOT NULL,
  within    TEXT,
  expires   INTEGER,
  remaining INTEGER,
  approver  TEXT NOT NULL,
  created   INTEGER NOT NULL,
  -- What identifies the command that may run again.
  twin      BLOB NOT NULL,
  command   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX permit_twin ON permit(twin);

-- The allow list kept by `sjail allowlist`.
CREATE TABLE allowed (
  number   INTEGER PRIMARY KEY AUTOINCREMENT,
  pattern  TEXT NOT NULL UNIQUE,
  reason   TEXT,
  added_by TEXT NOT NULL,
  added    INTEGER NOT NULL,
  -- Whether what matches runs without being asked about; otherwise it is only noted.
  auto     INTEGER NOT NULL DEFAULT 1
) STRICT;

-- Sessions that an operator registered.
CREATE TABLE session (
  name       TEXT PRIMARY KEY,
  role       TEXT NOT NULL,
  registered INTEGER NOT NULL,
  by         TEXT NOT NULL
) STRICT, WITHOUT ROWID;
