//! Compression of small documents that resemble each other: each is compressed against a sample of the others.
//!
//! The compressed form is an LZ4 block with the sample as its dictionary. The compressor is our own, because that of
//! lz4_flex reads the whole dictionary for each document; this one reads a sample once.

mod block;

use std::fmt;
use std::sync::Arc;

use self::block::{Positions, compress};

/// Documents shorter than this gain less than their bookkeeping takes.
const WORTHWHILE: usize = 256;

/// Larger buffers are not kept for the next document.
const KEPT: usize = 128 << 10;

/// The policy by which samples are chosen.
#[derive(Clone, Copy, Debug)]
pub struct SamplePolicy {
    /// The size of a sample of several small documents, in bytes. More than a few documents of the same kind gain
    /// nothing.
    pub small: usize,
    /// The size of the part of a large document that becomes a sample, in bytes, at most 32 KiB.
    pub large: usize,
    /// A document that is compressed to more than one part in so many is unlike the sample.
    pub alike: usize,
    /// An unsuitable sample is replaced if for each document that shares it there are at most so many bytes of it.
    pub share: usize,
}

/// Packs documents of one kind.
#[derive(Debug)]
pub struct Packer {
    policy: SamplePolicy,
    sample: Arc<Box<[u8]>>,
    /// Absent before the first sample.
    positions: Option<Positions>,
    /// Documents packed against this sample.
    sharing: usize,
    /// The sample; while a document is packed, the document follows.
    buffer: Vec<u8>,
}

impl Packer {
    /// A packer without a sample.
    pub fn new(policy: SamplePolicy) -> Self {
        Self { policy, sample: Arc::default(), positions: None, sharing: 0, buffer: Vec::new() }
    }

    /// The packed form; `None` if the document would not get smaller by a quarter.
    pub fn pack(&mut self, document: &[u8]) -> Option<Packed> {
        let length = i32::try_from(document.len()).ok().filter(|_| document.len() >= WORTHWHILE)?.cast_unsigned();
        let mut bytes = self.compressed(document);
        let is_alike = |bytes: &Option<Box<[u8]>>| {
            bytes.as_ref().is_some_and(|bytes| bytes.len() <= document.len() / self.policy.alike)
        };
        if !is_alike(&bytes) && self.sharing >= self.sample.len() / self.policy.share {
            self.replace_sample(document);
            bytes = self.compressed(document);
        }
        let bytes = bytes.filter(|bytes| bytes.len() <= document.len() / 4 * 3)?;
        self.sharing += 1;
        Some(Packed { bytes, sample: Arc::clone(&self.sample), length })
    }

    /// `None` without a sample.
    fn compressed(&mut self, document: &[u8]) -> Option<Box<[u8]>> {
        self.buffer.extend_from_slice(document);
        let bytes = self.positions.as_mut().map(|positions| compress(&self.buffer, self.sample.len(), positions));
        self.buffer.truncate(self.sample.len());
        if self.buffer.capacity() > KEPT {
            self.buffer.shrink_to_fit();
        }
        bytes
    }

    /// The end of the sample, as far as the document leaves space, then the beginning of the document.
    fn replace_sample(&mut self, document: &[u8]) {
        let new = &document[..document.len().min(self.policy.large)];
        let space = self.policy.small.saturating_sub(new.len());
        let old = &self.sample[self.sample.len().saturating_sub(space)..];
        self.sample = Arc::new([old, new].concat().into_boxed_slice());
        self.positions = Some(Positions::of(&self.sample));
        self.buffer.clear();
        self.buffer.extend_from_slice(&self.sample);
        self.sharing = 0;
    }

    /// The sample in use.
    pub fn sample(&self) -> &[u8] {
        &self.sample
    }
}

/// A compressed document.
#[derive(Clone)]
pub struct Packed {
    bytes: Box<[u8]>,
    sample: Arc<Box<[u8]>>,
    length: u32,
}

impl Packed {
    /// The document.
    pub fn unpack(&self) -> Vec<u8> {
        lz4_flex::block::decompress_with_dict(&self.bytes, self.length(), &self.sample)
            .expect("what was compressed against a sample decompresses against it")
    }

    /// Bytes of the document.
    pub fn length(&self) -> usize {
        self.length as usize
    }

    /// Bytes of the compressed form, without the sample.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes packed into {}", self.length, self.size())
    }
}

#[cfg(test)]
mod tests;
