//! A store in the format of versions before checksums.

use std::path::Path;

use bytes::Bytes;

use crate::model::Model;

const TABLES: &str = include_str!("../../../storage/tests/data/format-1.sql");

/// Creates one with 40 revisions.
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
