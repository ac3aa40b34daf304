//! The operations of a resource. Clients read the query parameters of PATCH and the kinds of paths here.

use apimachinery::GroupVersionKind;
use apimachinery::resource::Resource;
use serde_json::{Map, Value, json};

use super::schema::{Dialect, Renderer};
use crate::documents::discovery::describe_subresource;

/// Query parameters: name and OpenAPI type.
type Parameters = &'static [(&'static str, &'static str)];

const WRITE: Parameters = &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
const PATCH: Parameters =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("force", "boolean")];
const DELETE: Parameters = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];
const LIST: Parameters = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];

const BUILT_IN_PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
const CUSTOM_PATCHES: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

/// One operation: the RBAC verb, the HTTP method, and the action in OpenAPI.
struct Action {
    verb: &'static str,
    method: &'static str,
    name: &'static str,
    parameters: Parameters,
    has_body: bool,
}

const ON_COLLECTION: [Action; 3] = [
    Action { verb: "list", method: "get", name: "list", parameters: LIST, has_body: false },
    Action { verb: "create", method: "post", name: "post", parameters: WRITE, has_body: true },
    Action {
        verb: "deletecollection",
        method: "delete",
        name: "deletecollection",
        parameters: DELETE,
        has_body: false,
    },
];
const ON_OBJECT: [Action; 4] = [
    Action { verb: "get", method: "get", name: "get", parameters: &[], has_body: false },
    Action { verb: "update", method: "put", name: "put", parameters: WRITE, has_body: true },
    Action { verb: "delete", method: "delete", name: "delete", parameters: DELETE, has_body: false },
    Action { verb: "patch", method: "patch", name: "patch", parameters: PATCH, has_body: true },
];
const ON_SUBRESOURCE: [Action; 5] = [
    Action { verb: "get", method: "get", name: "get", parameters: &[], has_body: false },
    Action { verb: "create", method: "post", name: "post", parameters: WRITE, has_body: true },
    Action { verb: "update", method: "put", name: "put", parameters: WRITE, has_body: true },
    Action { verb: "delete", method: "delete", name: "delete", parameters: DELETE, has_body: false },
    Action { verb: "patch", method: "patch", name: "patch", parameters: PATCH, has_body: true },
];

/// Adds the paths of a resource and its subresources, and defines the kinds they use.
pub fn add(resource: &Resource, renderer: &mut Renderer, paths: &mut Map<String, Value>) {
    let info = &resource.info;
    let (name, list) = renderer.define(resource);
    let prefix = info.resource.group_version().url_prefix();
    let scope = if info.resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("{prefix}{scope}/{}", info.resource.plural);
    let target = Target { resource, gvk: info.resource.gvk(), body: Some(name), reply: Some(list) };
    target.add(&collection, &ON_COLLECTION, &info.verbs, renderer, paths);
    let target = Target { reply: target.body.clone(), ..target };
    let object = format!("{collection}/{{name}}");
    target.add(&object, &ON_OBJECT, &info.verbs, renderer, paths);
    for subresource in &info.subresources {
        let (name, gvk, verbs) = describe_subresource(resource, subresource);
        let body = if gvk == target.gvk { target.body.clone() } else { renderer.define_kind(&gvk) };
        let target = Target { resource, gvk, reply: body.clone(), body };
        target.add(&format!("{object}/{name}"), &ON_SUBRESOURCE, &verbs, renderer, paths);
    }
}

/// The resource and kinds of the operations of one path.
struct Target<'a> {
    resource: &'a Resource,
    gvk: GroupVersionKind,
    /// Names of definitions; `None` for kinds without a type.
    body: Option<String>,
    reply: Option<String>,
}

impl Target<'_> {
    fn add(
        &self,
        path: &str,
        actions: &[Action],
        verbs: &[String],
        renderer: &Renderer,
        paths: &mut Map<String, Value>,
    ) {
        let mut item = Map::new();
        for action in actions.iter().filter(|action| verbs.iter().any(|verb| verb == action.verb)) {
            item.insert(action.method.into(), self.operation(action, path, renderer));
        }
        if item.is_empty() {
            return;
        }
        let variables = ["name", "namespace"].into_iter().filter(|name| path.contains(&format!("{{{name}}}")));
        let mut parameters: Vec<Value> =
            variables.map(|name| parameter(renderer.dialect, name, "path", "string")).collect();
        parameters.push(parameter(renderer.dialect, "pretty", "query", "string"));
        item.insert("parameters".into(), parameters.into());
        paths.insert(path.to_owned(), item.into());
    }

    fn operation(&self, action: &Action, path: &str, renderer: &Renderer) -> Value {
        let dialect = renderer.dialect;
        let query = action.parameters.iter().map(|(name, type_)| parameter(dialect, name, "query", type_));
        let mut parameters: Vec<Value> = query.collect();
        let mut operation = json!({
            "operationId": operation_id(action.name, path),
            "x-kubernetes-action": action.name,
            "x-kubernetes-group-version-kind":
                {"group": self.gvk.group, "kind": self.gvk.kind, "version": self.gvk.version},
        });
        let patches = if self.resource.info.custom { CUSTOM_PATCHES } else { BUILT_IN_PATCHES };
        let consumes = if action.method == "patch" { patches } else { &["application/json"] };
        // A response other than the list or the object (of a DELETE) is a Status, which is not documented for each
        // path.
        let replied = if action.method == "post" || action.method == "delete" { &self.body } else { &self.reply };
        let reply = replied.as_deref().map_or(json!({"type": "object"}), |name| renderer.reference_to(name));
        let body = match (&self.body, action.method) {
            (Some(name), "post" | "put") => renderer.reference_to(name),
            _ => json!({"type": "object"}),
        };
        match dialect {
            Dialect::V2 => {
                if action.has_body {
                    parameters.insert(0, json!({"name": "body", "in": "body", "required": true, "schema": body}));
                    operation["consumes"] = json!(consumes);
                }
                operation["produces"] = json!(["application/json"]);
                operation["responses"] = json!({"200": {"description": "OK", "schema": reply}});
            }
            Dialect::V3 => {
                if action.has_body {
                    let content: Map<String, Value> =
                        consumes.iter().map(|type_| ((*type_).to_owned(), json!({"schema": body}))).collect();
                    operation["requestBody"] = json!({"content": content, "required": true});
                }
                operation["responses"] =
                    json!({"200": {"description": "OK", "content": {"application/json": {"schema": reply}}}});
            }
        }
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        operation
    }
}

fn parameter(dialect: Dialect, name: &str, place: &str, type_: &str) -> Value {
    let mut value = match dialect {
        Dialect::V2 => json!({"name": name, "in": place, "type": type_, "uniqueItems": true}),
        Dialect::V3 => json!({"name": name, "in": place, "schema": {"type": type_, "uniqueItems": true}}),
    };
    if place == "path" {
        value["required"] = true.into();
    }
    value
}

/// Unique by construction: the action and the path.
fn operation_id(action: &str, path: &str) -> String {
    let words = path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    std::iter::once(action).chain(words).collect::<Vec<_>>().join("-")
}
