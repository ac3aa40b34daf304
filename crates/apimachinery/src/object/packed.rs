//! Compression of cold documents: objects of one resource are similar, so each is compressed against a sample of the
//! others.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use lz4_flex::block;

use super::{Body, Object};

/// The size of a sample for small documents, of which it holds several, and at most: each compression reads all of the
/// sample, and more than one document of the same kind gains nothing.
const SMALL_SAMPLE: usize = 4 << 10;
const SAMPLE: usize = 16 << 10;

/// Documents shorter than this gain less than their bookkeeping takes.
const WORTHWHILE: usize = 256;

/// An unsuitable sample is replaced when so many bytes of it are left for each document that shares it.
const SHARE: usize = 256;

/// Compressed to more than one part in so many, a document is unlike the sample.
const ALIKE: usize = 4;

/// Text of objects that were packed before, which others are packed against.
type Sample = Arc<Box<[u8]>>;

/// Packs the objects of one resource.
#[derive(Default)]
pub struct Packer {
    sample: Sample,
    /// Documents packed against this sample.
    sharing: usize,
}

/// Compresses the objects of one resource that have not changed for a while.
#[derive(Default)]
pub struct Cooling {
    recent: VecDeque<Arc<Object>>,
    /// The sizes of all in `recent`.
    bytes: usize,
    packer: Packer,
}

/// Bytes of documents that count as recent: some hundred, as many as a busy cluster changes in a second or two.
const RECENT: usize = 256 << 10;

impl Cooling {
    /// A new state of an object; called in the order of their changes.
    pub fn note(&mut self, object: &Arc<Object>) {
        self.bytes += object.size();
        self.recent.push_back(Arc::clone(object));
        while self.bytes > RECENT
            && let Some(oldest) = self.recent.pop_front()
        {
            self.bytes -= oldest.size();
            // A state without other references was superseded.
            if Arc::strong_count(&oldest) > 1 {
                self.packer.pack(&oldest);
            }
        }
    }
}

/// A compressed document.
#[derive(Clone)]
pub(super) struct Packed {
    bytes: Box<[u8]>,
    sample: Sample,
    /// Bytes of the document.
    pub length: u32,
}

impl Packer {
    /// Compresses the object's document in place; each read then costs some microseconds. A document that would not
    /// shrink is not changed.
    pub fn pack(&mut self, object: &Object) {
        if !object.is_packed()
            && let Some(packed) = self.packed(&object.json())
        {
            *object.body.lock() = Body::Packed(packed);
        }
    }

    fn packed(&mut self, document: &[u8]) -> Option<Packed> {
        let length = u32::try_from(document.len()).ok().filter(|_| document.len() >= WORTHWHILE)?;
        let mut bytes = block::compress_with_dict(document, &self.sample);
        if bytes.len() > document.len() / ALIKE && self.sharing >= self.sample.len() / SHARE {
            self.sample = extended(&self.sample, document);
            self.sharing = 0;
            bytes = block::compress_with_dict(document, &self.sample);
        }
        if bytes.len() > document.len() / 4 * 3 {
            return None;
        }
        self.sharing += 1;
        Some(Packed { bytes: bytes.into_boxed_slice(), sample: Arc::clone(&self.sample), length })
    }
}

/// The end of the sample, as far as there is room, then the beginning of the document.
fn extended(sample: &[u8], document: &[u8]) -> Sample {
    let new = &document[..document.len().min(SAMPLE)];
    let old = &sample[sample.len().saturating_sub(SMALL_SAMPLE.saturating_sub(new.len()))..];
    Arc::new([old, new].concat().into_boxed_slice())
}

impl Packed {
    pub fn unpack(&self) -> Bytes {
        block::decompress_with_dict(&self.bytes, self.length as usize, &self.sample)
            .expect("what was compressed against a sample decompresses against it")
            .into()
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes packed into {}", self.length, self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(n: usize, size: usize) -> String {
        // One digit of eight is another one from place to place.
        let digit = |i: usize| if i.is_multiple_of(8) { (n * 31 + i * i * 7 + i / 3) % 10 } else { i % 8 };
        let noise: String = (0..size).map(|i| char::from(b'0' + digit(i) as u8)).collect();
        let fields =
            r#"[{"manager":"karmada-controller-manager","operation":"Update","fieldsV1":{"f:data":{"f:k":{}}}}]"#;
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"annotations":{{"a":"{n}"}},"labels":{{"l":"{n}"}},"managedFields":{fields},"name":"a{n}"}},"data":{{"k":"{noise}"}}}}"#
        )
    }

    #[test]
    fn a_packed_object_keeps_its_content() {
        let mut packer = Packer::default();
        for (n, size) in [40, 0, 1000, 70_000, 200_000, 100].into_iter().enumerate() {
            let text = document(n, size);
            let object = Object::parse(text.clone()).expect("a document");
            packer.pack(&object);
            packer.pack(&object);
            assert_eq!(object.is_packed(), text.len() >= WORTHWHILE, "{size}");
            let copy = object.clone();
            assert_eq!((object.json(), object.size()), (copy.json(), text.len()));
            assert_eq!(object.json(), text);
            assert_eq!(object.label("l"), Some(&*n.to_string()));
            assert_eq!(object.annotation("a"), Some(n.to_string()));
            assert!(object.managed_fields_json().is_some_and(|list| list.starts_with(b"[{")));
            assert!(object.begins_with(br#"{"apiVersion":"v1","kind":"ConfigMap","#));
            assert!(!object.begins_with(br#"{"apiVersion":"v1","kind":"ConfigMaps","#));
        }
    }

    #[test]
    fn similar_objects_are_compressed_to_a_fraction() {
        let mut packer = Packer::default();
        let (mut whole, mut packed) = (0, 0);
        for n in 0..100 {
            let text = document(n, 50);
            let result = packer.packed(text.as_bytes()).expect("it is like the others");
            (whole, packed) = (whole + text.len(), packed + result.bytes.len());
        }
        assert!(packed * 3 < whole, "{packed} of {whole}");
    }

    #[test]
    fn incompressible_objects_cost_at_most_a_sample_share() {
        let mut packer = Packer::default();
        let mut state = 1_u64;
        let mut samples: Vec<Sample> = Vec::new();
        let documents = 2 * SAMPLE / SHARE;
        for _ in 0..documents {
            let noise: Vec<u8> = std::iter::repeat_with(|| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .take(1000)
            .collect();
            // Half of it is the same in all.
            let document = [&noise[..], &[b'x'; 1000]].concat();
            let Some(packed) = packer.packed(&document) else { continue };
            if !samples.iter().any(|sample| Arc::ptr_eq(sample, &packed.sample)) {
                samples.push(packed.sample);
            }
        }
        let held: usize = samples.iter().map(|sample| sample.len()).sum();
        assert!(held <= documents * SHARE + SAMPLE, "{held} in {} samples", samples.len());
        assert!(samples.iter().all(|sample| sample.len() <= SAMPLE));
    }

    #[test]
    fn recently_changed_objects_stay_unpacked() {
        let mut cooling = Cooling::default();
        let objects: Vec<_> =
            (0..400).map(|n| Object::parse(document(n, 1000)).expect("a document").shared()).collect();
        objects.iter().for_each(|object| cooling.note(object));
        let (first, last) = (&objects[0], &objects[399]);
        assert!(first.is_packed() && !last.is_packed());
        let recent = objects.iter().filter(|object| !object.is_packed());
        assert!(recent.map(|object| object.size()).sum::<usize>() <= RECENT);
        assert_eq!(cooling.bytes, cooling.recent.iter().map(|object| object.size()).sum::<usize>());
    }
}
