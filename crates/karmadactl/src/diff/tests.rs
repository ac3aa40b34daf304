//! Desired objects of members, and their differences from the live ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::ApiResource;
use interpreter::Interpreter;
use karmada_api::identity::ClusterName;
use karmada_api::scope::{Binding, Override, Policy, Scope};
use karmada_api::work::v1alpha1::Work;
use serde_json::{Value, json};

use super::desired::{Copy, RenderInputs, Source, plan};
use super::read::Subject;
use super::{Compared, one};
use crate::why::read::MemberObject;

fn template(data: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "shop", "uid": "u"}, "data": {"k": data}})
}

fn around() -> RenderInputs {
    let cluster = |name: &str| {
        let cluster = json!({"metadata": {"name": name}, "spec": {"syncMode": "Push"}, "status": {
            "apiEnablements": [{"groupVersion": "v1", "resources": [{"kind": "ConfigMap", "name": "configmaps"}]}],
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "CompleteAPIEnablements", "status": "True"}]}});
        (ClusterName::from(name), Arc::new(serde_json::from_value(cluster).expect("a cluster")))
    };
    let policy = json!({"metadata": {"name": "p", "namespace": "shop"}, "spec": {
        "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}], "placement": {"clusterAffinity": {"clusterNames": ["m1", "m2"]}}}});
    let over = json!({"metadata": {"name": "o", "namespace": "shop"}, "spec": {"overrideRules": [{"targetCluster": {"clusterNames": ["m2"]},
        "overriders": {"plaintext": [{"path": "/data/k", "operator": "replace", "value": "of m2"}]}}]}});
    RenderInputs {
        clusters: ["m1", "m2", "m3"].map(cluster).into_iter().collect::<BTreeMap<_, _>>(),
        policies: vec![Policy::from_value(Scope::Namespaced, &policy).expect("a policy")],
        overrides: vec![Override::from_value(Scope::Namespaced, &over).expect("an override")],
        interpreter: Interpreter::default(),
    }
}

fn binding(clusters: &[&str]) -> Binding {
    let clusters: Vec<Value> = clusters.iter().map(|name| json!({"name": name})).collect();
    let binding = json!({"metadata": {"name": "c-configmap", "namespace": "shop", "generation": 1,
            "labels": {"propagationpolicy.karmada.io/permanent-id": "id", "resourcebinding.karmada.io/permanent-id": "b"},
            "annotations": {"propagationpolicy.karmada.io/name": "p", "propagationpolicy.karmada.io/namespace": "shop"}},
        "spec": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "c"}, "clusters": clusters,
            "placement": {"clusterAffinity": {"clusterNames": ["m1", "m2"]}}},
        "status": {"schedulerObservedGeneration": 1}});
    Binding::from_value(Scope::Namespaced, &binding).expect("a binding")
}

fn source(data: &str, clusters: Option<&[&str]>) -> Source {
    Source { template: template(data), binding: clusters.map(binding), works: Vec::new() }
}

fn shown(copies: &[Copy]) -> String {
    let one = |it: &Copy| {
        let data = it
            .manifest
            .as_ref()
            .map_or_else(|| "removed".to_owned(), |it| it["data"]["k"].as_str().unwrap_or("?").to_owned());
        format!("{}: {data}", it.cluster)
    };
    copies.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[test]
fn desired_copies_follow_binding_and_policy() {
    let left = json!({"metadata": {"name": "c-1", "namespace": "karmada-es-m3"}, "spec": {}});
    let left: Work = serde_json::from_value(left).expect("a Work");
    for (what, source, preview, expected) in [
        ("as it is", source("1", Some(&["m1", "m2"])), false, "m1: 1, m2: of m2"),
        ("as it is, without a binding", source("1", None), false, ""),
        ("not there yet: the policy chooses", source("1", None), true, "m1: 1, m2: of m2"),
        ("a changed template stays where it is", source("2", Some(&["m1"])), true, "m1: 2"),
        ("one that leaves", Source { works: vec![left], ..source("1", Some(&["m1"])) }, false, "m1: 1, m3: removed"),
    ] {
        let plan = plan(&source, &around(), preview);
        assert_eq!(shown(&plan.copies), expected, "{what}");
        assert_eq!(plan.errors, Vec::<String>::new(), "{what}");
    }
    let mut moved_policy = around();
    moved_policy.policies[0].spec.placement =
        serde_json::from_value(json!({"clusterAffinity": {"clusterNames": ["m3"]}})).expect("a placement");
    let moved = plan(&source("1", Some(&["m1"])), &moved_policy, true);
    assert_eq!(shown(&moved.copies), "m3: 1", "a placement that changes chooses again");
    let mut broken = around();
    broken.overrides[0].spec.override_rules[0].overriders.plaintext[0].path = "/nosuch/k".to_owned();
    let partly = plan(&source("1", Some(&["m1", "m2"])), &broken, false);
    assert_eq!((shown(&partly.copies).as_str(), partly.errors.len()), ("m1: 1", 1));
    let none = plan(&source("1", None), &RenderInputs { policies: Vec::new(), ..around() }, true);
    assert_eq!(none.notes, ["ConfigMap shop/c: no policy selects it, and no member gets it"]);
}

fn subject() -> Subject {
    Subject {
        resource: ApiResource::namespaced("", "v1", "ConfigMap", "configmaps"),
        source: source("1", Some(&["m1"])),
    }
}

#[test]
fn differences_of_members_are_listed() {
    let around = around();
    let copy = plan(&source("1", Some(&["m1"])), &around, false).copies.remove(0);
    let observed = |data: &str, managed: bool| {
        let mut object = copy.manifest.clone().expect("a manifest");
        object["data"]["k"] = json!(data);
        object["metadata"]["resourceVersion"] = json!("9");
        object["metadata"]["annotations"]["resume.karmada.io/mark"] = json!("a/b/1");
        object["metadata"]["labels"]["karmada.io/managed"] = json!(managed.to_string());
        MemberObject::Found(object)
    };
    let compare = |copy: &Copy, there: MemberObject| one(&subject(), copy, there, &around);
    assert_eq!(compare(&copy, observed("1", true)), Ok(None));
    let text = |it: Result<Option<Compared>, String>| it.expect("compared").expect("differs").text();
    let changed = text(compare(&copy, observed("0", true)));
    assert!(
        changed.starts_with(
            "diff -u -N LIVE/m1/v1.ConfigMap.shop.c MERGED/m1/v1.ConfigMap.shop.c\n--- LIVE/m1/v1.ConfigMap.shop.c\n"
        ),
        "{changed}"
    );
    let lines: Vec<&str> = changed.lines().filter(|line| line.starts_with(['-', '+'])).skip(2).collect();
    assert_eq!(lines.len(), 2, "{changed}");
    assert!(lines[0].contains("k:") && lines[0].contains('0') && lines[1].contains('1'), "{changed}");
    let created = text(compare(&copy, MemberObject::Absent));
    assert!(created.contains("@@ -0,0 +1,"), "{created}");
    let removed = Copy { manifest: None, ..copy.clone() };
    assert!(text(compare(&removed, observed("1", true))).contains(" +0,0 @@"));
    assert_eq!(compare(&removed, observed("1", false)), Ok(None), "what is not ours stays");
    assert_eq!(compare(&removed, MemberObject::Absent), Ok(None));
    let refused = compare(&copy, observed("1", false)).expect_err("a conflict");
    assert!(refused.contains("already exists in the cluster m1"), "{refused}");
    assert_eq!(compare(&copy, MemberObject::Unknown("no answer".into())), Err("no answer".to_owned()));
}
