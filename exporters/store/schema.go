package store

import (
	"context"
	"database/sql"
	"fmt"
)

// applicationID marks the file as ours in its header ("IbSt"), so that no other
// program's database is ever migrated.
const applicationID = 0x49625374

// migrations lead from each version of the schema to the next; the first makes a new
// file. A released one is never changed: files that it has made exist.
var migrations = []string{
	`
CREATE TABLE pairs (
	id          INTEGER PRIMARY KEY,
	target      TEXT NOT NULL,
	pool        TEXT NOT NULL,
	environment TEXT NOT NULL,
	model       TEXT NOT NULL,
	probe       TEXT NOT NULL,
	kind        TEXT NOT NULL,
	UNIQUE (target, probe, pool, environment, model, kind)
) STRICT;

-- What many runs have in common: targets, specs, server facts, as JSON.
CREATE TABLE documents (
	id   INTEGER PRIMARY KEY,
	hash BLOB NOT NULL UNIQUE, -- of the body, the first half of its SHA-256
	body BLOB NOT NULL
) STRICT;

CREATE TABLE runs (
	seq         INTEGER PRIMARY KEY,
	id          TEXT NOT NULL UNIQUE,
	pair        INTEGER NOT NULL REFERENCES pairs,
	started     INTEGER NOT NULL, -- Unix time in nanoseconds
	fingerprint TEXT NOT NULL,
	result      TEXT NOT NULL,
	target      INTEGER NOT NULL REFERENCES documents,
	spec        INTEGER NOT NULL REFERENCES documents,
	facts       INTEGER NOT NULL REFERENCES documents,
	body        BLOB NOT NULL
) STRICT;
CREATE INDEX runs_of_pair ON runs (pair, started);
CREATE INDEX runs_by_time ON runs (started);

CREATE TABLE samples (
	run  INTEGER PRIMARY KEY REFERENCES runs ON DELETE CASCADE,
	body BLOB NOT NULL
) STRICT;

CREATE TABLE states (
	key     TEXT PRIMARY KEY,
	value   BLOB NOT NULL,
	expires INTEGER NOT NULL -- Unix time in seconds; 0 is never
) STRICT, WITHOUT ROWID;

CREATE TABLE acknowledgements (
	id     INTEGER PRIMARY KEY,
	at     INTEGER NOT NULL, -- Unix time in nanoseconds, as since
	since  INTEGER,
	target TEXT NOT NULL,
	probe  TEXT NOT NULL,
	metric TEXT NOT NULL,    -- empty is all
	author TEXT NOT NULL,
	reason TEXT NOT NULL
) STRICT;
`,
}

// migrate brings the file to the newest version, one transaction a step.
func migrate(ctx context.Context, db *sql.DB, version int) error {
	for ; version < len(migrations); version++ {
		script := fmt.Sprintf("BEGIN IMMEDIATE;\n%s\nPRAGMA application_id = %d;\nPRAGMA user_version = %d;\nCOMMIT;", migrations[version], applicationID, version+1)
		if _, err := db.ExecContext(ctx, script); err != nil {
			_, _ = db.ExecContext(ctx, "ROLLBACK")
			return fmt.Errorf("bring its schema from version %d to %d: %w", version, version+1, err)
		}
	}
	return nil
}
