//! The paths of a resource. Clients read the query parameters of PATCH and the kinds of paths here.

use apimachinery::GroupVersionKind;
use apimachinery::resource::Resource;
use serde_json::{Map, Value, json};

use super::operations::{self, Body, Operation, Reply, camel_case};
use super::schema::{Dialect, Renderer};
use crate::documents::discovery::describe_subresource;

const BUILT_IN_PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
const CUSTOM_PATCHES: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

const CUSTOM_TYPES: &[&str] = &["application/json", "application/yaml"];
const TYPES: &[&str] = &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const LIST_TYPES: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];

/// Adds the paths of a resource and its subresources, and defines the kinds they use.
pub fn add(resource: &Resource, renderer: &mut Renderer, paths: &mut Map<String, Value>) {
    let info = &resource.info;
    let (name, list) = renderer.define(resource);
    renderer.define_requests(&info.resource.group_version());
    let prefix = info.resource.group_version().url_prefix();
    let plural = &info.resource.plural;
    let (collection_, object_, subresource_): (&[Operation], &[Operation], &[Operation]) = if info.custom {
        (&operations::ON_CUSTOM_COLLECTION, &operations::ON_CUSTOM_OBJECT, &operations::ON_CUSTOM_SUBRESOURCE)
    } else {
        (&operations::ON_COLLECTION, &operations::ON_OBJECT, &operations::ON_SUBRESOURCE)
    };
    let target = Target { resource, gvk: info.resource.gvk(), subresource: "", object: Some(name), list };
    let scope = if info.resource.namespaced {
        target.add(&format!("{prefix}/{plural}"), &[operations::LISTED], &info.verbs, renderer, paths);
        "/namespaces/{namespace}"
    } else {
        ""
    };
    let collection = format!("{prefix}{scope}/{plural}");
    target.add(&collection, collection_, &info.verbs, renderer, paths);
    let object = format!("{collection}/{{name}}");
    target.add(&object, object_, &info.verbs, renderer, paths);
    for subresource in &info.subresources {
        let (name, kind, verbs) = describe_subresource(resource, subresource);
        let described = if kind == target.gvk { target.object.clone() } else { renderer.define_kind(&kind) };
        // Upstream documents the Scale of a custom resource as an operation on its own kind.
        let gvk = if info.custom { target.gvk.clone() } else { kind };
        let target = Target { resource, gvk, subresource: name, object: described, list: target.list.clone() };
        target.add(&format!("{object}/{name}"), subresource_, &verbs, renderer, paths);
    }
}

/// The resource and kinds of the operations of one path.
struct Target<'a> {
    resource: &'a Resource,
    gvk: GroupVersionKind,
    subresource: &'a str,
    /// The name of the definition; `None` for kinds without a type.
    object: Option<String>,
    list: String,
}

impl Target<'_> {
    fn add(
        &self,
        path: &str,
        operations: &[Operation],
        verbs: &[String],
        renderer: &mut Renderer,
        paths: &mut Map<String, Value>,
    ) {
        let served = |operation: &&Operation| verbs.iter().any(|verb| verb == operation.verb);
        let operations: Vec<&Operation> = operations.iter().filter(served).collect();
        let Some((first, others)) = operations.split_first() else { return };
        // Parameters that all operations of a path have are documented once.
        let in_others = |name: &&str| others.iter().all(|operation| operation.parameters.contains(name));
        let shared: Vec<&str> = first.parameters.iter().copied().filter(in_others).collect();
        let mut item = Map::new();
        for operation in &operations {
            item.insert(operation.method.into(), self.operation(operation, path, &shared, renderer));
        }
        item.insert("parameters".into(), self.parameters(path, &shared, renderer).into());
        paths.insert(path.to_owned(), item.into());
    }

    /// The parameters of all operations of a path, by name.
    fn parameters(&self, path: &str, shared: &[&str], renderer: &mut Renderer) -> Vec<Value> {
        let mut names: Vec<&str> = shared.to_vec();
        names.push("pretty");
        names.extend(["name", "namespace"].into_iter().filter(|name| path.contains(&format!("{{{name}}}"))));
        names.sort_unstable();
        let described = |name: &str| match name {
            "name" => {
                let description = format!("name of the {}", self.resource.info.resource.kind);
                renderer.path_parameter(name, &description)
            }
            "namespace" => renderer.path_parameter(name, "The namespace of the objects."),
            _ => renderer.query_parameter(name),
        };
        names.into_iter().map(described).collect()
    }

    fn operation(&self, operation: &Operation, path: &str, shared: &[&str], renderer: &mut Renderer) -> Value {
        let custom = self.resource.info.custom;
        let own = operation.parameters.iter().filter(|name| !shared.contains(name));
        let mut parameters: Vec<Value> = own.map(|name| renderer.query_parameter(name)).collect();
        let (group_version, kind) = (self.resource.info.resource.group_version(), &self.resource.info.resource.kind);
        let group = if group_version.group.is_empty() { "core" } else { group_version.group.as_str() };
        let group = group.strip_suffix(".k8s.io").unwrap_or(group);
        let mut described = json!({
            "tags": [format!("{}_{}", camel_case(group, false), camel_case(&group_version.version, false))],
            "description": operation.description(kind, self.subresource, custom),
            "operationId": self.id(operation, path, &(group.to_owned() + "." + &group_version.version)),
            "x-kubernetes-action": operation.action,
            "x-kubernetes-group-version-kind":
                {"group": self.gvk.group, "kind": self.gvk.kind, "version": self.gvk.version},
        });
        let reply = match (operation.reply, &self.object) {
            (Reply::List, _) => renderer.reference_to(&self.list),
            (Reply::Status, _) => renderer.reference_to(super::schema::STATUS),
            (Reply::Object, Some(name)) => renderer.reference_to(name),
            (Reply::Object, None) => json!({"type": "object"}),
        };
        let body = self.body(operation.body, renderer);
        let consumes: &[&str] = match (operation.body, custom) {
            (Body::Patch, true) => CUSTOM_PATCHES,
            (Body::Patch, false) => BUILT_IN_PATCHES,
            (_, true) => CUSTOM_TYPES,
            (_, false) => &["*/*"],
        };
        let produces = match (operation.reply, custom) {
            (_, true) => CUSTOM_TYPES,
            (Reply::List, false) => LIST_TYPES,
            (_, false) => TYPES,
        };
        let required = operation.body != Body::DeleteOptions;
        match renderer.dialect {
            Dialect::V2 => {
                if let Some(body) = body {
                    let mut parameter = json!({"name": "body", "in": "body", "schema": body});
                    if required {
                        parameter["required"] = true.into();
                    }
                    parameters.insert(0, parameter);
                }
                described["consumes"] = json!(consumes);
                described["produces"] = json!(produces);
                described["schemes"] = json!(["https"]);
            }
            Dialect::V3 => {
                if let Some(body) = body {
                    described["requestBody"] = json!({"content": content(consumes, &body)});
                    if required {
                        described["requestBody"]["required"] = true.into();
                    }
                }
            }
        }
        described["responses"] = responses(operation, renderer.dialect, produces, &reply).into();
        if !parameters.is_empty() {
            described["parameters"] = parameters.into();
        }
        described
    }

    fn body(&self, body: Body, renderer: &Renderer) -> Option<Value> {
        let name = match body {
            Body::None => return None,
            Body::Object => self.object.as_deref(),
            Body::Patch => Some(super::schema::PATCH),
            Body::DeleteOptions => Some(super::schema::DELETE_OPTIONS),
        };
        Some(name.map_or_else(|| json!({"type": "object"}), |name| renderer.reference_to(name)))
    }

    fn id(&self, operation: &Operation, path: &str, group_version: &str) -> String {
        let collection = if operation.action == "deletecollection" { "Collection" } else { "" };
        let named = if path.contains("{namespace}") { "Namespaced" } else { "" };
        let all = self.resource.info.resource.namespaced && named.is_empty();
        let all = if all { "ForAllNamespaces" } else { "" };
        let kind = &self.resource.info.resource.kind;
        let (group_version, subresource) = (camel_case(group_version, true), camel_case(self.subresource, true));
        format!("{}{group_version}{collection}{named}{kind}{subresource}{all}", operation.id)
    }
}

fn responses(operation: &Operation, dialect: Dialect, produces: &[&str], reply: &Value) -> Map<String, Value> {
    let mut responses = Map::new();
    for code in std::iter::once(&200).chain(operation.codes) {
        let description = match code {
            201 => "Created",
            202 => "Accepted",
            _ => "OK",
        };
        let response = match dialect {
            Dialect::V2 => json!({"description": description, "schema": reply}),
            Dialect::V3 => json!({"description": description, "content": content(produces, reply)}),
        };
        responses.insert(code.to_string(), response);
    }
    responses.insert("401".into(), json!({"description": "Unauthorized"}));
    responses
}

fn content(types: &[&str], schema: &Value) -> Map<String, Value> {
    types.iter().map(|type_| ((*type_).to_owned(), json!({"schema": schema}))).collect()
}
