//! Schemas for tests, written as OpenAPI. A definition's name makes a node a Go struct.

use serde_json::{Value, json};

use crate::schema::{ListType, PatchStrategy, Property, Schema, SchemaId, Schemas, Type, TypeOf};

fn text(schema: &Value, key: &str) -> Option<Box<str>> {
    schema.get(key).and_then(Value::as_str).map(Into::into)
}

fn list_type(schema: &Value) -> Option<ListType> {
    Some(match text(schema, "x-kubernetes-list-type")?.as_ref() {
        "map" => ListType::Map(
            schema["x-kubernetes-list-map-keys"]
                .as_array()
                .expect("keys")
                .iter()
                .map(|key| key.as_str().expect("a key").into())
                .collect(),
        ),
        "set" => ListType::Set,
        _ => ListType::Atomic,
    })
}

fn add(schemas: &mut Schemas, schema: &Value) -> SchemaId {
    let type_ = match schema["type"].as_str() {
        Some("object") => Type::Object,
        Some("array") => Type::Array,
        Some("string") => Type::String,
        Some("integer") => Type::Integer,
        Some("boolean") => Type::Boolean,
        _ => Type::Any,
    };
    let mut node = Schema {
        definition: text(schema, "definition"),
        type_,
        list_type: list_type(schema).unwrap_or_default(),
        map_atomic: schema["x-kubernetes-map-type"] == "atomic",
        preserve_unknown_fields: schema["x-kubernetes-preserve-unknown-fields"] == true,
        items: schema.get("items").map(|items| add(schemas, items)),
        additional_properties: schema.get("additionalProperties").map(|values| add(schemas, values)),
        required: schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|n| n.as_str().map(Into::into))
            .collect(),
        ..Schema::default()
    };
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let strategy = text(property, "x-kubernetes-patch-strategy").unwrap_or_default();
        let patch = PatchStrategy {
            merge: strategy.contains("merge"),
            retain_keys: strategy.contains("retainKeys"),
            merge_key: text(property, "x-kubernetes-patch-merge-key"),
        };
        let default = property.get("default").cloned();
        let id = add(schemas, property);
        node.properties.insert(name.as_str().into(), Property { patch, default, ..Property::new(id) });
    }
    schemas.add(node)
}

pub fn type_of(schema: &Value) -> TypeOf {
    let mut schemas = Schemas::default();
    let root = add(&mut schemas, schema);
    TypeOf { schemas: schemas.into(), root }
}

fn string_map() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}})
}

pub fn config_map() -> TypeOf {
    type_of(&json!({"definition": "ConfigMap", "type": "object", "properties": {
        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object", "default": {}},
        "data": string_map(), "immutable": {"type": "boolean"}}}))
}

/// The parts of a Deployment that have something special about them.
pub fn deployment() -> TypeOf {
    let string = json!({"type": "string"});
    let by_name = |items: Value| {
        json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name", "items": items})
    };
    let env = json!({"definition": "EnvVar", "type": "object", "properties": {"name": string, "value": string}});
    let port = json!({"definition": "ContainerPort", "type": "object", "properties": {
        "containerPort": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "name": string}});
    let container = json!({"definition": "Container", "type": "object", "required": ["name"], "properties": {
        "name": string, "image": string, "imagePullPolicy": string,
        "args": {"type": "array", "items": string, "x-kubernetes-list-type": "atomic"},
        "resources": {"definition": "Resources", "type": "object", "default": {}, "properties": {"limits": string_map()}},
        "env": by_name(env),
        "ports": {"type": "array", "items": port, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
            "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "containerPort"}}});
    let mut volumes = by_name(json!({"definition": "Volume", "type": "object", "properties": {
        "name": string, "emptyDir": {"definition": "EmptyDir", "type": "object", "properties": {"medium": string}},
        "configMap": {"definition": "Source", "type": "object", "properties": {"name": string}}}}));
    volumes["x-kubernetes-patch-strategy"] = json!("merge,retainKeys");
    let metadata = json!({"definition": "ObjectMeta", "type": "object", "default": {}, "properties": {
        "name": string, "namespace": string, "labels": string_map(), "annotations": string_map(),
        "creationTimestamp": string, "resourceVersion": string, "uid": string, "generation": {"type": "integer"},
        "managedFields": {"type": "array", "x-kubernetes-list-type": "atomic"},
        "finalizers": {"type": "array", "items": string, "x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge"},
        "ownerReferences": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
            "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "uid",
            "items": {"definition": "OwnerReference", "type": "object", "x-kubernetes-map-type": "atomic",
                "properties": {"apiVersion": string, "kind": string, "name": string, "uid": string}}}}});
    let pod = json!({"definition": "PodSpec", "type": "object", "default": {}, "required": ["containers"], "properties": {
        "containers": by_name(container), "volumes": volumes, "dnsPolicy": string, "restartPolicy": string,
        "securityContext": {"definition": "Security", "type": "object", "properties": {"runAsUser": {"type": "integer"}}}}});
    let condition =
        json!({"definition": "Condition", "type": "object", "properties": {"type": string, "status": string}});
    type_of(&json!({"definition": "Deployment", "type": "object", "properties": {
        "apiVersion": string, "kind": string, "metadata": metadata,
        "spec": {"definition": "DeploymentSpec", "type": "object", "default": {}, "required": ["selector", "template"],
            "properties": {
            "replicas": {"type": "integer"}, "paused": {"type": "boolean"}, "progressDeadlineSeconds": {"type": "integer"},
            "selector": {"definition": "LabelSelector", "type": "object", "x-kubernetes-map-type": "atomic",
                "properties": {"matchLabels": string_map()}},
            "strategy": {"definition": "Strategy", "type": "object", "default": {}, "x-kubernetes-patch-strategy": "retainKeys",
                "properties": {"type": string, "rollingUpdate": {"definition": "Rolling", "type": "object",
                    "properties": {"maxSurge": {}, "maxUnavailable": {}}}}},
            "template": {"definition": "Template", "type": "object", "default": {}, "properties": {
                "metadata": metadata, "spec": pod}}}},
        "status": {"definition": "DeploymentStatus", "type": "object", "default": {}, "properties": {
            "replicas": {"type": "integer"},
            "conditions": {"type": "array", "items": condition, "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"], "x-kubernetes-patch-strategy": "merge",
                "x-kubernetes-patch-merge-key": "type"}}}}}))
}
