//! A store as versions before checksums wrote it.

use std::path::Path;

use bytes::Bytes;

use crate::model::Model;

const TABLES: &str = "
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
    PRAGMA application_id=0x6b61726d; PRAGMA user_version=1;";

/// Makes one of 40 revisions.
pub fn make(dir: &Path) -> Model {
    let mut model = Model::empty();
    let mut db = rusqlite::Connection::open(dir.join("store.sqlite")).unwrap();
    db.execute_batch(TABLES).unwrap();
    let txn = db.transaction().unwrap();
    for n in 2..=41_i64 {
        let (key, value) = (format!("/key/{n}"), vec![n as u8; 700]);
        let row = (n << 16, key.as_bytes(), n, None::<i64>, &value);
        txn.execute("INSERT INTO log VALUES (?1, ?2, ?3, ?4, ?5)", row).unwrap();
        model.acknowledged(vec![(Bytes::from(key), Some(Bytes::from(value)))], n.cast_unsigned());
    }
    txn.commit().unwrap();
    model
}
