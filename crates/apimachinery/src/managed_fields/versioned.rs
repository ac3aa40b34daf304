//! Ownership in several API versions of a kind. Expectations are the responses of an apiextensions-apiserver 1.36 to the
//! same requests.

use serde_json::{Value, json};

use super::*;
use crate::schema::TypeOf;
use crate::test_schemas::type_of;

/// A kind whose lists and maps are granular in `v1` and atomic in `v2`; what `v1` names `text` is `words` in `v3`.
#[derive(Debug)]
struct Kind {
    v1: TypeOf,
    v2: TypeOf,
    v3: TypeOf,
}

impl Kind {
    fn new() -> Self {
        let type_ = |list: &Value, map: &str, text: &str| {
            let mut tags = json!({"type": "array", "items": {"type": "string"}});
            tags["x-kubernetes-list-type"] = list.clone();
            let values =
                json!({"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": map});
            let spec = json!({"type": "object", "properties": {
                "tags": tags, "map": values, "a": {"type": "string"}, "b": {"type": "string"}, text: {"type": "string"}}});
            type_of(&json!({"type": "object", "properties": {"spec": spec}}))
        };
        let (set, atomic) = (json!("set"), json!("atomic"));
        Self {
            v1: type_(&set, "granular", "text"),
            v2: type_(&atomic, "atomic", "text"),
            v3: type_(&set, "granular", "words"),
        }
    }
}

impl Versions for Kind {
    fn type_of(&self, api_version: &str) -> Option<&TypeOf> {
        match api_version {
            "x/v1" => Some(&self.v1),
            "x/v2" => Some(&self.v2),
            "x/v3" => Some(&self.v3),
            _ => None,
        }
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        let mut object = object.clone();
        let (from, to) = if api_version == "x/v3" { ("text", "words") } else { ("words", "text") };
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
            && let Some(text) = spec.remove(from)
        {
            spec.insert(to.to_owned(), text);
        }
        object["apiVersion"] = api_version.into();
        Ok(object)
    }
}

/// An object, stored as `v1`.
struct Server {
    kind: Kind,
    live: Value,
}

impl Server {
    fn new() -> Self {
        Self { kind: Kind::new(), live: Value::Null }
    }

    fn context<'a>(&'a self, manager: &'a str, api_version: &'a str) -> ManagerContext<'a> {
        let now = Time::new(jiff::Timestamp::UNIX_EPOCH);
        ManagerContext { manager, api_version, subresource: "", now, reset_fields: &NO_FIELDS, versions: &self.kind }
    }

    fn apply(&mut self, manager: &str, version: &str, spec: &Value, force: bool) -> Result<(), ApplyError> {
        self.apply_object(manager, version, json!({"kind": "X", "metadata": {"name": "x"}, "spec": spec}), force)
    }

    fn apply_object(&mut self, manager: &str, version: &str, mut patch: Value, force: bool) -> Result<(), ApplyError> {
        let version = format!("x/{version}");
        let type_ = self.kind.type_of(&version).expect("a version");
        let live = (!self.live.is_null()).then(|| self.kind.convert(&self.live, &version).expect("converts"));
        patch["apiVersion"] = version.as_str().into();
        let new = apply(live.as_ref(), &patch, &self.context(manager, &version), force, type_)?;
        self.live = self.kind.convert(&new, "x/v1").expect("converts");
        Ok(())
    }

    fn update(&mut self, manager: &str, version: &str, spec: &Value) {
        let version = format!("x/{version}");
        let type_ = self.kind.type_of(&version).expect("a version");
        let live = (!self.live.is_null()).then(|| self.kind.convert(&self.live, &version).expect("converts"));
        let mut new =
            live.clone().unwrap_or_else(|| json!({"apiVersion": version, "kind": "X", "metadata": {"name": "x"}}));
        new["spec"] = spec.clone();
        update(live.as_ref(), &mut new, &self.context(manager, &version), type_);
        self.live = self.kind.convert(&new, "x/v1").expect("converts");
    }

    fn owners(&self) -> Vec<String> {
        let entries = self.live["metadata"]["managedFields"].as_array();
        let text = |entry: &Value| {
            format!(
                "{} {} {}",
                entry["manager"].as_str().unwrap_or_default(),
                entry["apiVersion"],
                entry["fieldsV1"]["f:spec"]
            )
            .replace('"', "")
        };
        entries.into_iter().flatten().map(text).collect()
    }
}

#[test]
fn configurations_of_two_versions_keep_what_is_applied() {
    let mut server = Server::new();
    server.apply("a", "v1", &json!({"a": "1", "tags": ["x"]}), false).expect("applies");
    server.apply("a", "v2", &json!({"a": "1", "tags": ["x"]}), false).expect("applies");
    assert_eq!(server.live["spec"], json!({"a": "1", "tags": ["x"]}));
    server.apply("b", "v3", &json!({"a": "1", "words": "w"}), false).expect("applies");
    server.apply("a", "v1", &json!({"b": "1"}), false).expect("applies");
    assert_eq!(server.live["spec"], json!({"a": "1", "b": "1", "text": "w"}));
    assert_eq!(server.owners(), ["a x/v1 {f:b:{}}", "b x/v3 {f:a:{},f:words:{}}"]);
}

#[test]
fn changes_are_compared_in_the_versions_of_owners() {
    let mut server = Server::new();
    server.apply("a", "v2", &json!({"tags": ["y", "x"], "map": {"k": "1"}}), false).expect("applies");
    // A list without an order here has one there.
    let conflict = server.apply("b", "v1", &json!({"tags": ["x", "y"]}), false).map_err(|error| error.to_string());
    assert_eq!(conflict, Err("Apply failed with 1 conflict: conflict with \"a\": .spec.tags".to_owned()));
    server.update("c", "v3", &json!({"tags": ["y", "x"], "map": {"k": "1", "l": "2"}, "words": "w"}));
    assert_eq!(server.owners(), ["a x/v2 {f:tags:{}}", "c x/v3 {f:map:{f:l:{}},f:words:{}}"]);
    server.update("d", "v2", &json!({"tags": ["y", "x"], "text": "v"}));
    assert_eq!(server.owners(), ["a x/v2 {f:tags:{}}", "d x/v2 {f:text:{}}"]);
}

#[test]
fn owners_in_a_version_that_does_not_exist_lose_their_fields() {
    let mut server = Server::new();
    server.apply("a", "v1", &json!({"a": "1", "b": "1"}), false).expect("applies");
    let owners = server.live.pointer_mut("/metadata/managedFields/0").expect("an owner");
    owners["apiVersion"] = "x/v0".into();
    let mut other = Server { kind: Kind::new(), live: server.live.clone() };
    server.apply("a", "v1", &json!({"a": "1"}), false).expect("applies");
    assert_eq!(server.live["spec"], json!({"a": "1", "b": "1"}), "its last configuration is not known");
    assert_eq!(server.owners(), ["a x/v1 {f:a:{}}"]);
    other.update("b", "v1", &json!({"a": "2", "b": "1"}));
    assert_eq!(other.owners(), ["b x/v1 {f:a:{}}"]);
}

#[test]
fn an_owner_of_an_emptied_map_keeps_its_content_in_an_atomic_version() {
    let mut server = Server::new();
    server.update("a", "v1", &json!({"map": {}, "a": "1"}));
    server.apply("b", "v2", &json!({"map": {"k": "1"}, "b": "1"}), true).expect("applies");
    server.apply("b", "v2", &json!({"b": "1"}), false).expect("applies");
    assert_eq!(server.live["spec"], json!({"a": "1", "b": "1", "map": {"k": "1"}}));
    assert_eq!(server.owners(), ["b x/v2 {f:b:{}}", "a x/v1 {.:{},f:a:{},f:map:{}}"]);
}

#[test]
fn labels_are_given_up_in_another_version() {
    let mut server = Server::new();
    let labels = |labels: Value| json!({"kind": "X", "metadata": {"name": "x", "labels": labels}});
    server.apply_object("a", "v2", labels(json!({"k": "1", "l": "1"})), false).expect("applies");
    server.apply_object("a", "v1", labels(json!({"k": "1"})), false).expect("applies");
    assert_eq!(server.live["metadata"]["labels"], json!({"k": "1"}));
}
