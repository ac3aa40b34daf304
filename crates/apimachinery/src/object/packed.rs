//! Cold documents: those of objects that have not changed for a while are compressed against a sample of their resource.

use std::collections::VecDeque;
use std::sync::Arc;

use packing::SamplePolicy;

use super::{Body, Object};

/// Each compression of a large document gains from one of the same kind, of a small one from several.
const SAMPLES: SamplePolicy = SamplePolicy { small: 4 << 10, large: 16 << 10, alike: 4, share: 256 };

/// Packs the objects of one resource.
pub struct Packer(packing::Packer);

impl Default for Packer {
    fn default() -> Self {
        Self(packing::Packer::new(SAMPLES))
    }
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

impl Packer {
    /// Compresses the object's document in place; each read then costs some microseconds. A document that would not
    /// shrink is not changed.
    pub fn pack(&mut self, object: &Object) {
        if !object.is_packed()
            && let Some(packed) = self.0.pack(&object.json())
        {
            *object.body.lock() = Body::Packed(packed);
        }
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
            assert_eq!(object.is_packed(), text.len() >= 256, "{size}");
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
