//! Keys and encoding of objects in the store.
//!
//! Keys are `/registry/GROUP/PLURAL/[NAMESPACE/]NAME`, with `core` for the core group; the key of a resource does not
//! depend on the version it is served in. Values are JSON without a resourceVersion: that is the revision of the write,
//! known only afterwards, and spliced in where the object is read.

use std::cell::Cell;

use apimachinery::gvk::ApiResource;
use apimachinery::managed_fields::Owners;
use apimachinery::object::Seams;
use apimachinery::{Object, ObjectKey, raw_json};
use bytes::Bytes;
use serde_json::{Map, Value};
use smallvec::SmallVec;
use storage::Revision;

/// The prefix of all keys of objects.
pub const ROOT: &str = "/registry/";

/// `GROUP/PLURAL`: identifies a resource in all its versions.
pub fn group_resource(group: &str, plural: &str) -> String {
    // Events are the same objects in both groups. A definition may add other resources to that group.
    [group_part(group, plural), "/", plural].concat()
}

fn group_part<'g>(group: &'g str, plural: &str) -> &'g str {
    match (group, plural) {
        ("", _) | ("events.k8s.io", "events") => "core",
        _ => group,
    }
}

/// [`group_resource`] without an allocation, unless its names are long.
pub(crate) fn short_group_resource(group: &str, plural: &str) -> SmallVec<[u8; 96]> {
    [group_part(group, plural).as_bytes(), b"/", plural.as_bytes()]
        .iter()
        .flat_map(|part| part.iter().copied())
        .collect()
}

/// The key of an object.
pub fn object_key(resource: &ApiResource, key: &ObjectKey) -> Bytes {
    let (group, plural) = (resource.group.as_str(), resource.plural.as_str());
    joined([ROOT, group_part(group, plural), "/", plural], key)
}

/// [`object_key`] by the text of [`group_resource`].
pub fn place_key(place: &str, key: &ObjectKey) -> Bytes {
    joined([ROOT, place], key)
}

fn joined<const N: usize>(place: [&str; N], key: &ObjectKey) -> Bytes {
    let (between, namespace) = key.namespace().map_or(("", ""), |namespace| ("/", namespace));
    let rest = [between, namespace, "/", key.name()];
    let parts = || place.iter().chain(&rest);
    let mut all = Vec::with_capacity(parts().map(|part| part.len()).sum());
    parts().for_each(|part| all.extend_from_slice(part.as_bytes()));
    all.into()
}

/// All keys of a resource, or of one namespace of it.
pub fn prefix(resource: &ApiResource, namespace: Option<&str>) -> String {
    let place = group_resource(&resource.group, &resource.plural);
    match namespace {
        Some(ns) => format!("{ROOT}{place}/{ns}/"),
        None => format!("{ROOT}{place}/"),
    }
}

/// Splits a store key into its resource (`GROUP/PLURAL`) and the object's key.
pub fn split(key: &[u8]) -> Option<(&str, ObjectKey)> {
    let rest = std::str::from_utf8(key).ok()?.strip_prefix(ROOT)?;
    let mut slashes = rest.match_indices('/').map(|(at, _)| at);
    let (_, second) = (slashes.next()?, slashes.next()?);
    let (place, object) = (&rest[..second], &rest[second + 1..]);
    Some(match object.split_once('/') {
        Some((ns, name)) => (place, ObjectKey::namespaced(ns, name)),
        None => (place, ObjectKey::cluster(object)),
    })
}

/// The key under which maps hold an object: its own, which takes no further memory, unless the document has another name
/// than the store's key.
pub(super) fn shared(key: ObjectKey, object: &Object) -> ObjectKey {
    Some(object.key()).filter(|own| *own == key).unwrap_or(key)
}

const METADATA: &[u8] = b"\"metadata\":{";

/// The stored form. `apiVersion`, `kind` and `metadata` are first, so that [`with_revision`] finds its position without
/// reading the rest.
///
/// # Errors
/// When the tree cannot be encoded.
pub fn encode(object: &Value) -> Result<Bytes, serde_json::Error> {
    encode_with(object, &Owners::default())
}

/// [`encode`] with the field owners of an object whose tree has no list of them.
///
/// # Errors
/// When the tree cannot be encoded.
pub fn encode_with(object: &Value, owners: &Owners) -> Result<Bytes, serde_json::Error> {
    written(|out| {
        for (name, field) in [(&b"{\"apiVersion\":"[..], "apiVersion"), (b",\"kind\":", "kind")] {
            out.extend_from_slice(name);
            raw_json::write(&object[field], out);
        }
        let empty = Map::new();
        out.extend_from_slice(b",\"metadata\":");
        let list = (!owners.is_empty()).then_some(|out: &mut Vec<u8>| owners.write(out));
        members_with(out, object["metadata"].as_object().unwrap_or(&empty), list);
        let mut first = false;
        for (key, value) in object.as_object().into_iter().flatten() {
            if !matches!(key.as_str(), "apiVersion" | "kind" | "metadata") {
                entry(out, &mut first, key, value);
            }
        }
        out.push(b'}');
        Ok(())
    })
}

/// Larger buffers are not reused for the next object: each thread has one.
const KEPT: usize = 256 << 10;

/// The bytes that `write` appends, in an allocation of exactly their size, because the store keeps them. They are
/// collected in a buffer that grows once and is reused for all objects that a thread encodes.
fn written<E>(write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<Bytes, E> {
    thread_local! {
        static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    }
    let mut buffer = BUFFER.take();
    buffer.clear();
    let outcome = write(&mut buffer).map(|()| Bytes::copy_from_slice(&buffer));
    if buffer.capacity() <= KEPT {
        BUFFER.set(buffer);
    }
    outcome
}

/// Appends metadata as it is stored, with the list of owners (`None`: no owners) in its place.
fn members_with(out: &mut Vec<u8>, metadata: &Map<String, Value>, owners: Option<impl FnOnce(&mut Vec<u8>)>) {
    const LIST: &str = "managedFields";
    out.push(b'{');
    let (mut first, mut owners) = (true, owners);
    for (key, value) in metadata.iter().filter(|(key, _)| *key != "resourceVersion") {
        if key.as_str() > LIST
            && let Some(write) = owners.take()
        {
            name(out, &mut first, LIST);
            write(out);
        }
        entry(out, &mut first, key, value);
    }
    if let Some(write) = owners {
        name(out, &mut first, LIST);
        write(out);
    }
    out.push(b'}');
}

/// The stored form of an object in the form for clients, with other metadata (whose revision is ignored) and other
/// field owners (encoded; empty: none). `None` if it does not begin as [`encode_with`] begins.
pub fn with_metadata(object: &Object, owners: &[u8], metadata: &Map<String, Value>) -> Option<Bytes> {
    let json = object.json();
    let mut members = raw_json::members(&json);
    let ((first, _), (second, _), (third, span)) = (members.next()?, members.next()?, members.next()?);
    if (first, second, third) != (b"apiVersion", b"kind", b"metadata") {
        return None;
    }
    let list = (!owners.is_empty()).then_some(|out: &mut Vec<u8>| out.extend_from_slice(owners));
    let spliced = written(|out| {
        out.extend_from_slice(&json[..span.start]);
        members_with(out, metadata, list);
        out.extend_from_slice(&json[span.end..]);
        Ok::<_, serde_json::Error>(())
    });
    spliced.ok()
}

/// The stored form of an object in the form for clients, with another status and other field owners (encoded; empty:
/// none). `None` if it does not have the spelling of [`encode_with`].
pub fn with_status(object: &Object, owners: &[u8], status: &Value) -> Option<Bytes> {
    match object.seams().filter(|_| !owners.is_empty()) {
        Some(seams) => written(|out| {
            put_between(out, &object.json(), &seams, owners, status);
            Ok::<_, serde_json::Error>(())
        })
        .ok(),
        None => written(|out| put_with_status(out, &object.json(), owners, status).ok_or(())).ok(),
    }
}

/// [`put_with_status`] of an object that is spelled as it has to be: all else is copied as it is.
fn put_between(out: &mut Vec<u8>, json: &[u8], seams: &Seams, owners: &[u8], status: &Value) {
    out.extend_from_slice(&json[..seams.version.start]);
    out.extend_from_slice(&json[seams.version.end..seams.owners.start]);
    out.extend_from_slice(owners);
    out.extend_from_slice(&json[seams.owners.end..seams.status.start]);
    if !seams.has_status {
        out.extend_from_slice(b",\"status\":");
    }
    raw_json::write(status, out);
    out.extend_from_slice(&json[seams.status.end..]);
}

fn put_with_status(out: &mut Vec<u8>, json: &[u8], owners: &[u8], status: &Value) -> Option<()> {
    let (mut last, mut written) = (&b""[..], false);
    let put_status = |out: &mut Vec<u8>| {
        out.extend_from_slice(b",\"status\":");
        raw_json::write(status, out);
    };
    for (place, (name, span)) in raw_json::members(json).enumerate() {
        match (place, name) {
            (0, b"apiVersion") => spelled(out, b"{", name, &json[span]),
            (1, b"kind") => spelled(out, b",", name, &json[span]),
            (2, b"metadata") => {
                out.extend_from_slice(b",\"metadata\":");
                put_metadata(out, &json[span], owners)?;
            }
            (3.., _) if last < name => {
                last = name;
                if name >= &b"status"[..] && !std::mem::replace(&mut written, true) {
                    put_status(out);
                }
                if name != b"status" {
                    spelled(out, b",", name, &json[span]);
                }
            }
            _ => return None,
        }
    }
    if !written {
        put_status(out);
    }
    out.push(b'}');
    Some(())
}

fn put_metadata(out: &mut Vec<u8>, metadata: &[u8], owners: &[u8]) -> Option<()> {
    const LIST: &[u8] = b"managedFields";
    let (mut comma, mut last, mut written) = (&b"{"[..], &b""[..], owners.is_empty());
    let mut put = |out: &mut Vec<u8>, name: &[u8], value: &[u8]| {
        spelled(out, std::mem::replace(&mut comma, b","), name, value);
    };
    for (place, (name, span)) in raw_json::members(metadata).enumerate() {
        if name == b"resourceVersion" && place == 0 {
            continue;
        }
        if last >= name {
            return None;
        }
        last = name;
        if name >= LIST && !std::mem::replace(&mut written, true) {
            put(out, LIST, owners);
        }
        if name != LIST {
            put(out, name, &metadata[span]);
        }
    }
    if !written {
        put(out, LIST, owners);
    }
    // Every object has a name.
    (!last.is_empty()).then(|| out.push(b'}'))
}

/// Appends a member with its name as spelled.
fn spelled(out: &mut Vec<u8>, before: &[u8], name: &[u8], value: &[u8]) {
    for part in [before, b"\"", name, b"\":", value] {
        out.extend_from_slice(part);
    }
}

fn entry(out: &mut Vec<u8>, first: &mut bool, key: &str, value: &Value) {
    name(out, first, key);
    raw_json::write(value, out);
}

/// A member's name, with the comma before and the colon after it.
fn name(out: &mut Vec<u8>, first: &mut bool, name: &str) {
    if !std::mem::take(first) {
        out.push(b',');
    }
    raw_json::write_text(name, out);
    out.push(b':');
}

/// The object in the form for clients: stored bytes with the revision spliced in, parsed once.
///
/// # Errors
/// When the stored bytes are not an object.
pub fn with_revision(stored: &[u8], revision: Revision) -> Result<Object, serde_json::Error> {
    let at = stored.windows(METADATA.len()).position(|window| window == METADATA).map(|at| at + METADATA.len());
    let Some(at) = at else { return Object::parse_valid(Bytes::copy_from_slice(stored)) };
    let comma = if stored.get(at) == Some(&b'}') { "" } else { "," };
    const NAME: &[u8] = b"\"resourceVersion\":\"";
    let digits = revision.checked_ilog10().unwrap_or(0) as usize + 1;
    // Exactly: it stays in memory as long as the object is stored.
    let mut out = Vec::with_capacity(stored.len() + NAME.len() + digits + 1 + comma.len());
    out.extend_from_slice(&stored[..at]);
    out.extend_from_slice(NAME);
    serde_json::to_writer(&mut out, &revision)?;
    out.push(b'"');
    out.extend_from_slice(comma.as_bytes());
    out.extend_from_slice(&stored[at..]);
    Object::parse_valid(out)
}

/// The object with another resourceVersion: a deleted one is shown with the revision of its deletion.
///
/// # Errors
/// When the object cannot be decoded.
pub fn at_revision(object: &Object, revision: Revision) -> Result<Object, serde_json::Error> {
    const VERSION: &[u8] = b"\"resourceVersion\":\"";
    let json = object.json();
    let start = json.windows(METADATA.len()).position(|window| window == METADATA).map(|at| at + METADATA.len());
    let spliced = start.filter(|at| json[*at..].starts_with(VERSION)).and_then(|at| {
        let from = at + VERSION.len();
        let length = json[from..].iter().position(|byte| *byte == b'"')?;
        let mut out = Vec::with_capacity(json.len() + 8);
        out.extend_from_slice(&json[..from]);
        out.extend_from_slice(revision.to_string().as_bytes());
        out.extend_from_slice(&json[from + length..]);
        Some(out)
    });
    match spliced {
        Some(out) => Object::parse_valid(out),
        None => {
            let mut tree = object.to_value()?;
            tree["metadata"]["resourceVersion"] = revision.to_string().into();
            Object::from_value(&tree)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_revision_is_spliced_into_the_top_level_metadata() {
        let tree = json!({"apiVersion": "v1", "kind": "X", "data": {"metadata": {"name": "inner"}},
                          "metadata": {"name": "a", "resourceVersion": "1"}});
        let stored = encode(&tree).expect("a tree encodes");
        assert!(!stored.windows(15).any(|w| w == b"resourceVersion"));
        let object = with_revision(&stored, 42).expect("what was encoded parses");
        assert_eq!((object.name(), object.resource_version()), ("a", "42"));
        assert_eq!(object.to_value().expect("json")["data"], tree["data"]);
        let later = at_revision(&object, 4711).expect("a splice parses");
        assert_eq!(later.resource_version(), "4711");
        assert_eq!(later.to_value().expect("json")["data"], tree["data"]);
    }

    #[test]
    fn a_status_is_spliced_as_it_would_be_encoded() {
        let owners = |list: &str| Owners::parse(Some(list)).expect("a list");
        let [few, many] = ["spec", "status"].map(|field| {
            owners(&format!(
                r#"[{{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{{"f:{field}":{{}}}},"manager":"m","operation":"Update"}}]"#
            ))
        });
        let none = Owners::default();
        let status = json!({"b": [1, {"x": null}], "a": "\u{e4}\""});
        for (rest, before, after) in [
            (json!({"spec": {"status": 1}}), &few, &many),
            (json!({"spec": {}, "status": {"old": 1}}), &none, &many),
            (json!({"spec": {}, "status": {"old": 1}, "zz": {}}), &few, &many),
            (json!({"status": {"old": 1}, "zz": 1, "aa": {}}), &many, &none),
            (json!({"zz": 1}), &few, &few),
            (json!({}), &none, &none),
        ] {
            let mut tree = json!({"apiVersion": "g/v1", "kind": "X",
                "metadata": {"name": "a", "labels": {"metadata": "{"}, "uid": "u", "namespace": "n"}});
            tree.as_object_mut().expect("an object").extend(rest.as_object().expect("an object").clone());
            let stored = encode_with(&tree, before).expect("a tree encodes");
            let object = with_revision(&stored, 42).expect("what was encoded parses");
            tree["status"] = status.clone();
            let mut list = Vec::new();
            if !after.is_empty() {
                after.write(&mut list);
            }
            let spliced = with_status(&object, &list, &status).expect("an object of ours");
            assert_eq!(spliced, encode_with(&tree, after).expect("a tree encodes"));
        }
        for other in [r#"{"kind":"X","metadata":{"name":"a"}}"#, r#"{"apiVersion":"v1","kind":"X","metadata":{}}"#] {
            let object = Object::parse(other).expect("an object");
            assert_eq!(with_status(&object, b"", &status), None, "{other}");
        }
    }

    #[test]
    fn keys_split_into_resource_and_name() {
        let deployments = ApiResource::namespaced("apps", "v1", "Deployment", "deployments");
        let key = ObjectKey::namespaced("ns", "a");
        assert_eq!(split(&object_key(&deployments, &key)), Some(("apps/deployments", key)));
        let nodes = ApiResource::cluster("", "v1", "Node", "nodes");
        assert_eq!(split(&object_key(&nodes, &ObjectKey::cluster("n"))), Some(("core/nodes", ObjectKey::cluster("n"))));
        assert_eq!(split(b"/other"), None);
    }
}
