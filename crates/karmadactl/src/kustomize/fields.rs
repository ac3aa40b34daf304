//! Places in objects: kinds and paths.

use apimachinery::GroupVersionKind;
use serde_json::{Map, Value};

/// Kinds by group, version and kind; an empty part matches all.
#[derive(Clone, Copy, Debug)]
pub struct Kinds(pub &'static str, pub &'static str, pub &'static str);

impl Kinds {
    pub fn includes(self, gvk: &GroupVersionKind) -> bool {
        let is = |pattern: &str, found: &str| pattern.is_empty() || pattern == found;
        is(self.0, &gvk.group) && is(self.1, &gvk.version) && is(self.2, &gvk.kind)
    }
}

/// Calls `visit` with every value at a path such as `spec/template/metadata/labels`. Lists on it are entered item by
/// item. With `create`, missing maps are created, but not segments that end with `[]`. In a segment, `~` is an escaped
/// slash.
pub fn visit(value: &mut Value, path: &str, create: bool, visit: &mut dyn FnMut(&mut Value)) {
    let segments: Vec<&str> = path.split('/').collect();
    below(value, &segments, create, visit);
}

fn below(value: &mut Value, segments: &[&str], create: bool, visit: &mut dyn FnMut(&mut Value)) {
    if let Value::Array(items) = value {
        return items.iter_mut().for_each(|item| below(item, segments, create, visit));
    }
    let Some((first, rest)) = segments.split_first() else { return visit(value) };
    let Value::Object(map) = value else { return };
    let key = first.trim_end_matches("[]").replace('~', "/");
    let is_absent = map.get(&key).is_none_or(Value::is_null);
    if is_absent && create && !first.ends_with("[]") {
        map.insert(key.clone(), Value::Object(Map::new()));
    }
    if let Some(next) = map.get_mut(&key).filter(|next| !next.is_null()) {
        below(next, rest, create, visit);
    }
}
