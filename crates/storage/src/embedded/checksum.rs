//! Checksums of the store's content: one of each row, and a running digest of all rows.
//!
//! CRC-32 detects every single-bit error and every burst of up to 32 bits; any other damage passes with a probability of
//! 2^-32. The digest is a sum of 64-bit terms, one per row, so that rows are added and removed in any order; a row that
//! is missing, foreign or altered changes the sum, except with a probability of 2^-64.

use crate::Revision;

/// A row of the change table as its index holds it: everything but the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    pub id: i64,
    pub key: &'a [u8],
    /// 0 for a deletion.
    pub create_revision: i64,
    pub lease: Option<i64>,
}

impl Entry<'_> {
    /// The row's term in the digest. Each step is a bijection of the state, so that a difference in a single field
    /// always shows.
    pub fn digest(&self) -> u64 {
        let words = [self.id, self.create_revision, self.lease.unwrap_or_default()];
        let key = u64::from(crc32fast::hash(self.key)) | (self.key.len() as u64) << 32;
        words.into_iter().fold(mix(key), |state, word| mix(state ^ word.cast_unsigned()))
    }

    /// The row's checksum. `before` is the digest of all rows that were appended before it.
    pub fn checksum(&self, before: u64, value: Option<&[u8]>) -> i64 {
        let mut crc = crc32fast::Hasher::new();
        let words = [self.id, self.create_revision, self.lease.unwrap_or_default(), before.cast_signed()];
        words.iter().for_each(|word| crc.update(&word.to_le_bytes()));
        crc.update(&(self.key.len() as u64).to_le_bytes());
        crc.update(self.key);
        crc.update(&[u8::from(self.lease.is_some()), u8::from(value.is_some())]);
        crc.update(value.unwrap_or_default());
        i64::from(crc.finalize())
    }
}

/// The term of a lease in the digest of all leases.
pub(super) fn lease_digest(id: i64, ttl: i64) -> u64 {
    mix(mix(id.cast_unsigned()) ^ ttl.cast_unsigned())
}

/// The checksum of one of the store's own numbers.
pub(super) fn number_checksum(name: &str, value: i64) -> i64 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(name.as_bytes());
    crc.update(&value.to_le_bytes());
    i64::from(crc.finalize())
}

/// The finalizer of SplitMix64: a bijection in which each bit of the input affects all of the output.
fn mix(mut state: u64) -> u64 {
    state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// The low bits of a row's identifier: the place of a change in its revision.
pub(super) const PLACE_BITS: u32 = 16;

/// `row 65538 (revision 1, change 2)`.
pub(super) fn row_name(id: i64) -> String {
    format!("row {id} (revision {}, change {})", revision_of(id), id & ((1 << PLACE_BITS) - 1))
}

pub(super) fn revision_of(id: i64) -> Revision {
    (id >> PLACE_BITS).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_single_bit_counts() {
        let key = *b"/registry/core/configmaps/default/a";
        let value = *b"{\"kind\":\"ConfigMap\"}";
        let entry = Entry { id: 3 << PLACE_BITS, key: &key, create_revision: 2, lease: Some(7) };
        let (digest, checksum) = (entry.digest(), entry.checksum(11, Some(&value)));
        for bit in 0..64 {
            let flipped = |word: i64| word ^ (1 << bit);
            let others = [
                Entry { id: flipped(entry.id), ..entry },
                Entry { create_revision: flipped(entry.create_revision), ..entry },
                Entry { lease: Some(flipped(7)), ..entry },
            ];
            for other in others {
                assert_ne!(other.digest(), digest);
                assert_ne!(other.checksum(11, Some(&value)), checksum);
            }
            assert_ne!(entry.checksum(11 ^ (1 << bit), Some(&value)), checksum);
        }
        for bit in 0..key.len() * 8 {
            let mut key = key;
            key[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(Entry { key: &key, ..entry }.digest(), digest);
            assert_ne!(Entry { key: &key, ..entry }.checksum(11, Some(&value)), checksum);
        }
        for bit in 0..value.len() * 8 {
            let mut value = value;
            value[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(entry.checksum(11, Some(&value)), checksum);
        }
        assert_ne!(entry.checksum(11, None), entry.checksum(11, Some(b"")));
        assert_ne!(Entry { key: &key[..34], ..entry }.digest(), digest);
    }
}
