-- The tables of a store before checksums; `faults` reads this file, too.
PRAGMA journal_mode=WAL;
CREATE TABLE log(
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL,
    create_revision INTEGER NOT NULL,
    lease INTEGER,
    value BLOB
) STRICT;
CREATE UNIQUE INDEX log_by_key ON log(key, id, create_revision);
CREATE INDEX log_by_lease ON log(lease, key) WHERE lease IS NOT NULL;
CREATE TABLE lease(id INTEGER PRIMARY KEY, ttl INTEGER NOT NULL) STRICT;
CREATE TABLE meta(name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
PRAGMA application_id=0x6b61726d; PRAGMA user_version=1;
