//! Numbers for keys. The bookkeeping of queues and failures is by number, so that it is compiled once, and not for each
//! type of key.

use std::collections::BTreeMap;

/// The number of a key, an index. The number of a removed key is given to the next key.
pub(crate) type Slot = usize;

/// The capacity beyond which memory is returned once no key is left.
pub(crate) const RETAINED: usize = 1024;

pub(crate) struct Keys<K> {
    slots: BTreeMap<K, Slot>,
    keys: Vec<Option<K>>,
    free: Vec<Slot>,
}

impl<K> Default for Keys<K> {
    fn default() -> Self {
        Self { slots: BTreeMap::new(), keys: Vec::new(), free: Vec::new() }
    }
}

impl<K: Ord + Clone> Keys<K> {
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn get(&self, key: &K) -> Option<Slot> {
        self.slots.get(key).copied()
    }

    pub(crate) fn key(&self, slot: Slot) -> Option<&K> {
        self.keys.get(slot)?.as_ref()
    }

    /// The number of a key, a new one if it has none.
    pub(crate) fn insert(&mut self, key: K) -> Slot {
        if let Some(slot) = self.get(&key) {
            return slot;
        }
        let slot = self.free.pop().unwrap_or(self.keys.len());
        if slot == self.keys.len() {
            self.keys.push(Some(key.clone()));
        } else {
            self.keys[slot] = Some(key.clone());
        }
        self.slots.insert(key, slot);
        slot
    }

    pub(crate) fn remove(&mut self, slot: Slot) {
        let Some(key) = self.keys.get_mut(slot).and_then(Option::take) else { return };
        self.slots.remove(&key);
        self.free.push(slot);
        if self.slots.is_empty() && self.keys.capacity() > RETAINED {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_number_until_it_is_removed() {
        let mut keys = Keys::default();
        assert_eq!([keys.insert("a"), keys.insert("b"), keys.insert("a")], [0, 1, 0]);
        keys.remove(0);
        keys.remove(0);
        assert_eq!((keys.get(&"a"), keys.key(0), keys.key(1), keys.len()), (None, None, Some(&"b"), 1));
        assert_eq!([keys.insert("c"), keys.insert("d")], [0, 2]);
        assert_eq!((keys.key(0), keys.get(&"d")), (Some(&"c"), Some(2)));
    }

    #[test]
    fn the_memory_of_a_burst_is_returned() {
        let mut keys = Keys::default();
        (0..2 * RETAINED).for_each(|key| assert_eq!(keys.insert(key), key));
        (0..2 * RETAINED).for_each(|slot| keys.remove(slot));
        assert_eq!((keys.len(), keys.keys.capacity(), keys.insert(7)), (0, 0, 0));
    }
}
