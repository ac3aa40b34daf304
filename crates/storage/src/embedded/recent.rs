//! The newest state of recently read or written keys, so that the committer need not read the namespace of every
//! object, or its own recent writes, from the file. All writes go through the committer, so the entries equal the file.

use std::collections::HashMap;

use bytes::Bytes;

use crate::{Change, KeyValue, Result};

/// Bytes of one generation; there are two. 500 objects of 2 KiB.
const GENERATION: usize = 1 << 20;

/// Two generations: when the young one is full it becomes the old one, and old entries that were not read again are
/// dropped.
#[derive(Debug, Default)]
pub(super) struct Recent {
    young: HashMap<Bytes, Option<KeyValue>>,
    old: HashMap<Bytes, Option<KeyValue>>,
    young_bytes: usize,
}

impl Recent {
    /// The key's state, from here or from `read`.
    pub fn get(&mut self, key: &Bytes, read: impl FnOnce() -> Result<Option<KeyValue>>) -> Result<Option<KeyValue>> {
        if let Some(state) = self.young.get(key) {
            return Ok(state.clone());
        }
        let state = match self.old.remove(key) {
            Some(state) => state,
            None => read()?,
        };
        self.put(key, state.clone());
        Ok(state)
    }

    /// A change that was written.
    pub fn follow(&mut self, change: &Change) {
        match change {
            Change::Put { current, .. } => self.put(&current.key, Some(current.clone())),
            Change::Delete { previous } => self.put(&previous.key, None),
        }
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    fn put(&mut self, key: &Bytes, state: Option<KeyValue>) {
        self.young_bytes += weight(key, state.as_ref());
        self.old.remove(key);
        if let Some(replaced) = self.young.insert(key.clone(), state) {
            self.young_bytes -= weight(key, replaced.as_ref());
        }
        if self.young_bytes > GENERATION {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
    }
}

/// Key and value, and the entry itself.
fn weight(key: &Bytes, state: Option<&KeyValue>) -> usize {
    key.len() + state.map_or(0, |kv| kv.value.len()) + 128
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kv(key: &str, revision: u64, size: usize) -> KeyValue {
        KeyValue {
            key: key.to_owned().into(),
            value: vec![0; size].into(),
            create_revision: 1,
            mod_revision: revision,
            lease: None,
        }
    }

    #[test]
    fn writes_are_cached_and_old_ones_evicted() {
        let mut recent = Recent::default();
        let key = Bytes::from_static(b"a");
        let from_file = |revision| move || Ok(Some(kv("a", revision, 10)));
        let never = || panic!("the file was read");
        assert_eq!(recent.get(&key, from_file(1)).unwrap().unwrap().mod_revision, 1);
        assert_eq!(recent.get(&key, never).unwrap().unwrap().mod_revision, 1);
        recent.follow(&Change::Put { current: kv("a", 2, 10), previous: None });
        assert_eq!(recent.get(&key, never).unwrap().unwrap().mod_revision, 2);
        recent.follow(&Change::Delete { previous: kv("a", 2, 10) });
        assert_eq!(recent.get(&key, never).unwrap(), None);
        // An entry that is read again survives a generation, the others do not.
        for n in 0..3 {
            let _ = recent.get(&Bytes::from(format!("x{n}")), || Ok(Some(kv("x", 1, GENERATION)))).unwrap();
            assert_eq!(recent.get(&key, never).unwrap(), None);
        }
        assert_eq!(recent.get(&Bytes::from("x0"), || Ok(None)).unwrap(), None);
        recent.clear();
        assert_eq!(recent.get(&key, from_file(7)).unwrap().unwrap().mod_revision, 7);
    }
}
