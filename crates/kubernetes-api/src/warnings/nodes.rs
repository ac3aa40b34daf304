//! Labels of nodes that have other names now, and removed fields of nodes.

use apimachinery::field::Path;
use apimachinery::names;
use serde_json::Value;

use super::{Texts, list, text};

const OLD_LABELS: [(&str, &str, &str); 5] = [
    ("beta.kubernetes.io/arch", "v1.14", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "v1.14", "kubernetes.io/os"),
    ("beta.kubernetes.io/instance-type", "v1.17", "node.kubernetes.io/instance-type"),
    ("failure-domain.beta.kubernetes.io/region", "v1.17", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "v1.17", "topology.kubernetes.io/zone"),
];

/// The new name of an old label, as a text.
pub(super) fn replacement(label: &str) -> Option<String> {
    let (_, since, new) = OLD_LABELS.iter().find(|(old, ..)| *old == label)?;
    Some(format!("deprecated since {since}; use \"{new}\" instead"))
}

/// Old labels among the keys of a map, each with its text.
pub(super) fn old_keys(map: &Value) -> impl Iterator<Item = (&'static str, String)> {
    let keys = OLD_LABELS.iter().filter(|(old, ..)| map.get(old).is_some());
    keys.filter_map(|(old, ..)| Some((*old, replacement(old)?)))
}

/// `KEY is deprecated ...`.
pub(super) fn key(label: &str, at: &Path, texts: &mut Texts) {
    if let Some(why) = replacement(label) {
        texts.at(at, format!("{label} is {why}"));
    }
}

fn expressions(term: &Value, at: &Path, texts: &mut Texts) {
    for (index, expression) in list(&term["matchExpressions"]).enumerate() {
        key(text(expression, "key"), &at.child("matchExpressions").index(index).child("key"), texts);
    }
}

/// A term that nodes must match.
pub(super) fn term(term: &Value, at: &Path, texts: &mut Texts) {
    expressions(term, at, texts);
}

/// A term that nodes should match. Validation does not check its values.
pub(super) fn preference(term: &Value, at: &Path, texts: &mut Texts) {
    for (index, expression) in list(&term["matchExpressions"]).enumerate() {
        let at = at.child("matchExpressions").index(index);
        key(text(expression, "key"), &at.child("key"), texts);
        for (index, value) in list(&expression["values"]).filter_map(Value::as_str).enumerate() {
            for complaint in names::is_label_value(value) {
                texts.at(&at.child("values").index(index), format!("{value} is invalid, {complaint}"));
            }
        }
    }
}

pub(super) fn selector(selector: &Value, at: &Path, texts: &mut Texts) {
    expressions(selector, at, texts);
    for (label, why) in old_keys(&selector["matchLabels"]) {
        texts.at(&at.child("matchLabels").child(label), why);
    }
}

pub(super) fn runtime_class(class: &Value, texts: &mut Texts) {
    for (_, why) in old_keys(&class["scheduling"]["nodeSelector"]) {
        texts.at(&Path::new("scheduling").child("nodeSelector"), why);
    }
}

pub(super) fn storage_class(class: &Value, texts: &mut Texts) {
    for (index, topology) in list(&class["allowedTopologies"]).enumerate() {
        let at = Path::new("allowedTopologies").index(index).child("matchLabelExpressions");
        for (index, expression) in list(&topology["matchLabelExpressions"]).enumerate() {
            if let Some(why) = replacement(text(expression, "key")) {
                texts.at(&at.index(index).child("key"), why);
            }
        }
    }
}

pub(super) fn node(node: &Value, texts: &mut Texts) {
    let spec = &node["spec"];
    if spec["configSource"].is_object() {
        texts.push("spec.configSource: the feature is removed");
    }
    if !text(spec, "externalID").is_empty() {
        texts.push("spec.externalID: this field is deprecated, and is unused by Kubernetes");
    }
}
