//! The files of a store at one moment, as a killed process leaves them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use storage::Result;
use storage::embedded::{EmbeddedStore, Options};

/// Whether every fault is to be injected, not a sample.
pub fn every_byte() -> bool {
    std::env::var_os("STORAGE_TEST_EVERY_BYTE").is_some()
}

pub async fn opened(dir: &Path) -> Result<EmbeddedStore> {
    EmbeddedStore::open(dir, Options::default()).await
}

#[derive(Clone)]
pub struct Image(BTreeMap<String, Vec<u8>>);

impl Image {
    /// Without the shared index of the log, which every first opener rebuilds.
    pub fn of(dir: &Path) -> Self {
        let names = ["store.sqlite", "store.sqlite-wal", "store.mark"];
        Self(names.map(|name| (name.to_owned(), fs::read(dir.join(name)).unwrap())).into())
    }

    pub fn file(&self, name: &str) -> &Vec<u8> {
        &self.0[name]
    }

    pub fn file_mut(&mut self, name: &str) -> &mut Vec<u8> {
        self.0.get_mut(name).unwrap()
    }

    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Makes the directory hold these files and no others.
    pub fn write(&self, dir: &Path) {
        for entry in fs::read_dir(dir).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        for (name, content) in &self.0 {
            fs::write(dir.join(name), content).unwrap();
        }
    }
}
