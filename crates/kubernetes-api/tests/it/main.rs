//! The tables are read correctly: every row becomes a resource, and the types have the properties that patches need.

mod canonical;
mod defaults;
mod fast_paths;
mod pod_defaults;
mod random;
mod round_trip;
mod validated_twice;
mod validation;

use apimachinery::GroupVersionKind;
use apimachinery::resource::{Resource, Subresource};
use apimachinery::schema::{ListType, Type, TypeOf};
use kubernetes_api::{resources, schema_for, schemas};
use serde_json::{Value, json};

fn type_of(group: &str, version: &str, kind: &str) -> TypeOf {
    schema_for(&GroupVersionKind::new(group, version, kind)).expect("a built-in kind")
}

fn find(group: &str, plural: &str) -> Resource {
    let all = resources();
    let found = all.into_iter().find(|r| r.info.resource.group == group && r.info.resource.plural == plural);
    found.expect("a built-in resource")
}

/// Steps through properties and, for `*`, items.
fn walk(mut at: TypeOf, path: &str) -> TypeOf {
    for step in path.split('.') {
        let id = if step == "*" { at.node().items.expect("a list") } else { at.node().properties[step].schema };
        at = at.at(id);
    }
    at
}

#[test]
fn every_row_but_the_two_left_out_is_a_resource() {
    let rows = include_str!("../../data/resources.tsv").lines().count() - 1;
    assert_eq!(resources().len(), rows);
}

#[test]
fn no_type_is_mentioned_but_not_described() {
    let schemas = schemas();
    for (id, node) in schemas.iter() {
        let inline = node.items.is_some() || node.additional_properties.is_some() || node.type_ != Type::Any;
        assert!(node.definition.is_some() || inline, "{id:?} was reserved and never set");
    }
}

#[test]
fn descriptions_are_joined_from_the_table() {
    let deployments = find("apps", "deployments").info;
    assert_eq!(deployments.short_names, ["deploy"]);
    assert_eq!(deployments.list_kind, "DeploymentList");
    assert!(deployments.has_status() && deployments.resource.namespaced);
    assert!(deployments.subresources.iter().any(|s| matches!(s, Subresource::Scale { .. })));
    assert_eq!(find("authorization.k8s.io", "subjectaccessreviews").info.verbs, ["create"]);
    let token = GroupVersionKind::new("authentication.k8s.io", "v1", "TokenRequest");
    let accounts = find("", "serviceaccounts").info;
    assert!(matches!(&accounts.subresources[..], [Subresource::Other { kind, .. }] if *kind == token));
    assert!(find("", "pods").info.selectable_fields.contains(&"spec.nodeName".to_owned()));
}

#[test]
fn lists_know_their_keys_and_patch_strategies() {
    let pod = walk(type_of("apps", "v1", "Deployment"), "spec.template.spec");
    let containers = &pod.node().properties["containers"];
    assert_eq!(containers.list_type, Some(ListType::Map(vec!["name".into()])));
    assert!(containers.patch.merge && containers.patch.merge_key.as_deref() == Some("name"));
    assert!(pod.node().properties["volumes"].patch.retain_keys);
    let container = walk(pod, "containers.*");
    let ports = &container.node().properties["ports"];
    assert_eq!(ports.list_type, Some(ListType::Map(vec!["containerPort".into(), "protocol".into()])));
    assert_eq!(ports.patch.merge_key.as_deref(), Some("containerPort"));
    let port = walk(container, "ports.*");
    assert_eq!(port.node().properties["protocol"].default, Some("TCP".into()));
    assert_eq!(&*port.node().required, ["containerPort".into()]);
    assert_eq!(walk(port, "containerPort").node().format.as_deref(), Some("int32"));
}

#[test]
fn special_types_are_marked() {
    let selector = walk(type_of("apps", "v1", "Deployment"), "spec.selector");
    assert!(selector.node().map_atomic);
    assert!(walk(type_of("", "v1", "Service"), "spec.ports.*.targetPort").node().int_or_string);
    assert!(walk(type_of("apps", "v1", "ControllerRevision"), "data").node().preserve_unknown_fields);
    assert!(schema_for(&GroupVersionKind::new("example.com", "v1", "Nothing")).is_none());
}

#[test]
fn only_some_kinds_keep_a_generation() {
    let old = serde_json::json!({"spec": {"a": 1}, "status": {}});
    let new = serde_json::json!({"spec": {"a": 2}, "status": {}});
    let deployments = find("apps", "deployments").strategy;
    assert!(deployments.has_generation() && deployments.raises_generation(&old, &new));
    assert!(!deployments.raises_generation(&old, &old));
    assert!(!find("", "configmaps").strategy.has_generation());
}

#[test]
fn metadata_counts_for_the_generation_of_two_kinds() {
    let object =
        |labels: Value, annotations: Value| json!({"metadata": {"labels": labels, "annotations": annotations}});
    let (plain, empty) = (json!({"metadata": {}}), object(json!({}), json!({})));
    let (labelled, annotated) = (object(json!({"a": "b"}), json!({})), object(json!({}), json!({"a": "b"})));
    let cases = [
        ("apps", "deployments", false, true),
        ("discovery.k8s.io", "endpointslices", true, false),
        ("apps", "replicasets", false, false),
    ];
    for (group, plural, by_labels, by_annotations) in cases {
        let strategy = find(group, plural).strategy;
        assert!(!strategy.raises_generation(&plain, &empty), "{plural}");
        assert_eq!(strategy.raises_generation(&plain, &labelled), by_labels, "{plural}");
        assert_eq!(strategy.raises_generation(&annotated, &plain), by_annotations, "{plural}");
    }
}
