//! The values of a bounded store that have left its history: compressed against a sample of the others, because values of
//! one store are alike.

use std::sync::Arc;

use bytes::Bytes;
use lz4_flex::block;

/// Some four Events. Each compression reads the whole sample: a larger one costs more than it saves.
const SAMPLE: usize = 4 << 10;

/// A shorter value gains less than its bookkeeping takes.
const WORTHWHILE: usize = 256;

/// So many values share a sample at least.
const SHARED_BY: usize = 64;

/// A compressed value.
#[derive(Debug)]
pub(super) struct Cold {
    bytes: Box<[u8]>,
    sample: Arc<[u8]>,
    length: usize,
}

/// Compresses values against a common sample.
#[derive(Debug)]
pub(super) struct Packer {
    sample: Arc<[u8]>,
    sharing: usize,
}

impl Default for Packer {
    fn default() -> Self {
        Self { sample: Arc::new([]), sharing: 0 }
    }
}

impl Packer {
    /// `None` for a value that would not get smaller by a quarter.
    pub fn pack(&mut self, value: &[u8]) -> Option<Cold> {
        if value.len() < WORTHWHILE {
            return None;
        }
        let mut bytes = block::compress_with_dict(value, &self.sample);
        let is_unlike = bytes.len() > value.len() / 3;
        if is_unlike && (self.sample.is_empty() || self.sharing >= SHARED_BY) {
            // The end of the old sample, then the beginning of this value.
            let new = &value[..value.len().min(SAMPLE)];
            let old = &self.sample[self.sample.len().saturating_sub(SAMPLE - new.len())..];
            self.sample = [old, new].concat().into();
            self.sharing = 0;
            bytes = block::compress_with_dict(value, &self.sample);
        }
        self.sharing += 1;
        let is_smaller = bytes.len() <= value.len() / 4 * 3;
        let bytes = bytes.into_boxed_slice();
        is_smaller.then(|| Cold { bytes, sample: Arc::clone(&self.sample), length: value.len() })
    }
}

impl Cold {
    pub fn unpack(&self) -> Bytes {
        block::decompress_with_dict(&self.bytes, self.length, &self.sample)
            .expect("what was compressed against a sample decompresses against it")
            .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(n: usize) -> Vec<u8> {
        let owners =
            "f:count f:firstTimestamp f:involvedObject f:lastTimestamp f:message f:reason f:source f:type ".repeat(3);
        format!(r#"{{"kind":"Event","metadata":{{"name":"e{n}"}},"owners":"{owners}","message":"{}"}}"#, n * 7919)
            .into()
    }

    #[test]
    fn packed_values_keep_their_content_and_take_a_fraction() {
        let mut packer = Packer::default();
        let (mut whole, mut packed) = (0, 0);
        for n in 0..200 {
            let value = event(n);
            let cold = packer.pack(&value).expect("it is like the others");
            assert_eq!(cold.unpack(), value);
            (whole, packed) = (whole + value.len(), packed + cold.bytes.len());
        }
        assert!(packed * 2 < whole, "{packed} of {whole}");
        assert!(packer.pack(b"short").is_none());
    }

    #[test]
    fn unlike_values_stay_whole_and_samples_are_few() {
        let mut packer = Packer::default();
        let (mut state, mut samples) = (1_u64, 0);
        for _ in 0..4 * SHARED_BY {
            let noise: Vec<u8> = std::iter::repeat_with(|| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .take(10 * SAMPLE)
            .collect();
            let before = Arc::clone(&packer.sample);
            assert!(packer.pack(&noise).is_none(), "noise cannot be compressed");
            samples += usize::from(!Arc::ptr_eq(&before, &packer.sample));
            assert!(packer.sample.len() <= SAMPLE);
        }
        assert!(samples <= 5, "{samples} samples");
    }
}
