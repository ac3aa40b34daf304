//! Documents: typed JSON, YAML, protobuf, and sets of managed fields.

use apimachinery::managed_fields::FieldSet;
use apimachinery::{go_json, strict, yaml};
use serde_json::Value;

use crate::{json_documents, type_of};

/// Decoding the result again gives the same result and no findings.
pub(crate) fn json(input: &[u8]) {
    let type_ = type_of(&json_documents(input).first().cloned().unwrap_or_default());
    let valid = serde_json::from_slice::<Value>(input);
    assert!(valid.is_ok() || go_json::syntax_error(input).is_none_or(|text| !text.is_empty()));
    let Ok((kept, findings)) = strict::decode(input, &type_) else { return };
    assert!(findings.len() <= strict::MAX_FINDINGS);
    let text = serde_json::to_vec(&kept).expect("a tree is JSON");
    let (again, findings) = strict::decode(&text, &type_).expect("what was printed is JSON");
    assert_eq!((&again, findings), (&kept, Vec::new()), "a second decoding finds something");
    let mut pruned = kept.clone();
    assert!(strict::prune(&mut pruned, &type_).is_empty());
    assert_eq!(pruned, kept, "pruning a decoded document changes it");
    apimachinery::Object::parse(text).ok();
}

/// Printing and parsing gives the same document.
pub(crate) fn yaml(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        assert_eq!(yaml::split(text).join("---").len(), text.len());
    }
    yaml::documents(input).ok();
    let Ok((mut value, _)) = yaml::to_json_value_warned(input) else { return };
    let text = yaml::to_string(&value);
    // JSON keeps floats without a fraction, YAML does not.
    yaml::whole_floats(&mut value);
    let again = yaml::to_json_value(text.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{text}\n{value}"));
    assert_eq!(again, value, "printed as\n{text}");
}

/// A decoded object can be encoded, and decoding that gives the same object.
pub(crate) fn protobuf(input: &[u8]) {
    use kubernetes_api::protobuf::{decode, encode};
    let Ok(value) = decode(input) else { return };
    let Ok(bytes) = encode(value.to_string().as_bytes()) else { return };
    let settled = decode(&bytes).unwrap_or_else(|e| panic!("{e}: {value}"));
    // Times, quantities and unset fields may be normalized once; after that the object is stable.
    let bytes = encode(settled.to_string().as_bytes()).unwrap_or_else(|e| panic!("{e}: {settled}"));
    assert_eq!(decode(&bytes).as_ref(), Ok(&settled));
    serde_json::from_str::<Value>(&settled.to_string()).unwrap_or_else(|e| panic!("{e}: {settled}"));
}

/// The decoded value of a kube-apiserver is in this program's form: it is not converted twice, and the cache can parse
/// it. The first line is the key, if it is one.
pub(crate) fn stored(input: &[u8]) {
    use adoption::value::readable;
    let newline = input.iter().position(|byte| *byte == b'\n').filter(|_| input.starts_with(b"/"));
    let (key, value) =
        newline.map_or((&b"/registry/core/configmaps/a/b"[..], input), |at| (&input[..at], &input[at + 1..]));
    let value = bytes::Bytes::copy_from_slice(value);
    let mut survey = adoption::survey::Survey::default();
    survey.add(&bytes::Bytes::copy_from_slice(key), &String::from_utf8_lossy(key), &value);
    survey.finish(1);
    let Ok(Some(own)) = readable(&value) else { return };
    assert_eq!(readable(&own), Ok(None), "{}", String::from_utf8_lossy(&own));
    apiserver::cache::keys::with_revision(&own, 7).unwrap_or_else(|e| panic!("{e}: {own:?}"));
}

/// Packed documents are read back, whatever they share with each other. The first byte of a line is the number of
/// repetitions of its rest.
pub(crate) fn packing(input: &[u8]) {
    let policy = packing::SamplePolicy { small: 4 << 10, large: 16 << 10, alike: 4, share: 256 };
    let mut packer = packing::Packer::new(policy);
    let mut packed = Vec::new();
    for line in input.split(|byte| *byte == b'\n') {
        let Some((times, text)) = line.split_first() else { continue };
        let document = text.repeat(usize::from(*times));
        packed.extend(packer.pack(&document).map(|one| (one, document)));
    }
    for (one, document) in packed {
        assert_eq!(one.unpack(), document);
    }
}

/// parse(print(x)) = x, and sets obey set algebra.
pub(crate) fn fields(input: &[u8]) {
    let sets: Vec<FieldSet> = json_documents(input).iter().filter_map(|tree| FieldSet::parse(tree).ok()).collect();
    for set in &sets {
        assert_eq!(FieldSet::parse(&set.to_value()).as_ref(), Ok(set));
    }
    let [one, two, ..] = sets.as_slice() else { return };
    let union = one.clone().union(two.clone());
    assert_eq!(union, two.clone().union(one.clone()));
    assert_eq!(union.intersection(one), *one);
    let mut rest = union;
    rest.subtract(one);
    assert!(rest.intersection(one).is_empty());
    assert_eq!(rest.clone().union(one.clone()), one.clone().union(two.clone()));
}
