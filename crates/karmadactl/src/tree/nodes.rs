//! Builds the tree of a template from the objects that were read.

use std::fmt::Write as _;

use apimachinery::age::human_duration;
use apimachinery::meta::{ObjectMeta, Time};
use karmada_api::constants::conditions;
use karmada_api::names;
use karmada_api::scope::Binding;
use karmada_api::work::v1alpha1::Work;
use karmada_api::work::v1alpha2::ObjectReference;
use serde::Serialize;
use serde_json::Value;

use crate::table::{Layout, printable};
use crate::why::read::MemberObject;
use crate::why::summary;

/// One line of the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    /// Set for objects in members.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// Replicas that are ready of those that are wanted, or the phase.
    pub status: String,
    pub state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Time>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Node>,
}

/// A binding with its Works and the objects in the members, by cluster.
#[derive(Debug)]
pub struct Branch {
    pub binding: Binding,
    pub works: Vec<Work>,
    pub members: Vec<(String, MemberObject)>,
}

/// `template` is `None` if the control plane does not have it.
pub fn build(it: &ObjectReference, template: Option<&Value>, own: Option<&Branch>, attached: &[Branch]) -> Node {
    let mut root = object(it, template, "");
    if template.is_none() {
        "deleted".clone_into(&mut root.state);
    } else if own.is_none() {
        "not propagated".clone_into(&mut root.state);
    }
    root.children.extend(own.map(branch));
    for dependency in attached {
        let resource = &dependency.binding.spec.resource;
        let mut node = object(resource, None, "");
        "required by it".clone_into(&mut node.state);
        node.children.push(branch(dependency));
        root.children.push(node);
    }
    root
}

fn object(it: &ObjectReference, found: Option<&Value>, cluster: &str) -> Node {
    let created = found.and_then(|it| it["metadata"]["creationTimestamp"].as_str());
    Node {
        kind: it.kind.clone(),
        namespace: it.namespace.clone(),
        name: it.name.clone(),
        cluster: cluster.to_owned(),
        status: found.map_or_else(|| "-".to_owned(), |it| summary(&it["status"])),
        state: "-".to_owned(),
        created: created.and_then(|text| text.parse().ok()).map(Time::new),
        children: Vec::new(),
    }
}

fn meta(kind: &str, metadata: &ObjectMeta) -> Node {
    Node {
        kind: kind.to_owned(),
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        status: "-".to_owned(),
        created: metadata.creation_timestamp,
        ..Node::default()
    }
}

fn branch(branch: &Branch) -> Node {
    let binding = &branch.binding;
    let mut node = meta(Binding::kind(binding.scope), &binding.metadata);
    node.state = state_of_binding(binding);
    let mut works: Vec<&Work> = branch.works.iter().collect();
    works.sort_by_key(|work| work.metadata.namespace.as_str());
    node.children = works.into_iter().map(|work| of_work(branch, work)).collect();
    node
}

fn of_work(branch: &Branch, work: &Work) -> Node {
    let cluster = names::cluster_of_namespace(&work.metadata.namespace).unwrap_or_default();
    let mut node = meta("Work", &work.metadata);
    node.state = state_of_work(work);
    let there = branch.members.iter().find(|(name, _)| name == cluster).map(|(_, there)| there);
    let resource = &branch.binding.spec.resource;
    let found = match there {
        Some(MemberObject::Found(object)) => Some(object),
        _ => None,
    };
    let mut member = object(resource, found, cluster);
    member.state = match there {
        Some(MemberObject::Found(_)) => {
            let items = &branch.binding.status.aggregated_status;
            let item = items.iter().find(|item| item.cluster_name == cluster);
            let health = item.and_then(|item| item.health).and_then(|it| serde_json::to_value(it).ok());
            health.as_ref().and_then(Value::as_str).unwrap_or("-").to_owned()
        }
        Some(MemberObject::Absent) => "absent".to_owned(),
        Some(MemberObject::Unknown(why)) => format!("unknown: {why}"),
        None => "-".to_owned(),
    };
    node.children.push(member);
    node
}

fn state_of_binding(binding: &Binding) -> String {
    let condition = |type_: &str| binding.status.conditions.iter().find(|it| it.type_ == type_);
    if binding.metadata.deletion_timestamp.is_some() {
        return "being deleted".to_owned();
    }
    let shown = [conditions::SCHEDULED, conditions::FULLY_APPLIED].iter().filter_map(|type_| condition(type_));
    let shown: Vec<String> = shown
        .map(|it| match it.status.as_str() {
            "True" => it.type_.clone(),
            status => format!("{}={status}: {}", it.type_, it.message),
        })
        .collect();
    if shown.is_empty() { "-".to_owned() } else { shown.join(", ") }
}

fn state_of_work(work: &Work) -> String {
    let applied = work.status.conditions.iter().find(|it| it.type_ == conditions::APPLIED);
    let state = match applied {
        Some(it) if it.status == "True" => "Applied".to_owned(),
        Some(it) => format!("Applied={}: {}", it.status, it.message),
        None => "in flight".to_owned(),
    };
    match (work.metadata.deletion_timestamp, work.spec.suspend_dispatching) {
        (Some(_), _) => format!("being deleted, {state}"),
        (None, Some(true)) => format!("suspended, {state}"),
        (None, _) => state,
    }
}

/// The tree as a table; `width` is the terminal's.
pub fn text(root: &Node, now: jiff::Timestamp, width: Option<usize>) -> String {
    let heading = ["OBJECT", "CLUSTER", "STATUS", "AGE", "STATE"].map(str::to_owned).to_vec();
    let mut lines = vec![heading];
    put(root, "", "", now, &mut lines);
    Layout::breaking(width).render(&lines)
}

/// `first` is the prefix of the node's line, `rest` that of its descendants' lines.
fn put(node: &Node, first: &str, rest: &str, now: jiff::Timestamp, lines: &mut Vec<Vec<String>>) {
    let mut name = first.to_owned();
    let _ = match node.namespace.as_str() {
        "" => write!(name, "{} {}", node.kind, node.name),
        namespace => write!(name, "{} {namespace}/{}", node.kind, node.name),
    };
    let age =
        node.created.map_or_else(|| "-".to_owned(), |at| human_duration(now.duration_since(at.timestamp()).as_secs()));
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { printable(text) };
    lines.push(vec![printable(&name), or_dash(&node.cluster), or_dash(&node.status), age, or_dash(&node.state)]);
    for (index, child) in node.children.iter().enumerate() {
        let is_last = index + 1 == node.children.len();
        let (branch, below) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        put(child, &format!("{rest}{branch}"), &format!("{rest}{below}"), now, lines);
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use karmada_api::scope::Scope;
    use serde_json::json;

    use super::*;

    fn branch(kind: &str, name: &str, members: Vec<(&str, MemberObject)>) -> Branch {
        let binding = json!({"metadata": {"name": format!("{name}-{}", kind.to_lowercase()), "namespace": "shop",
                "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"resource": {"apiVersion": "v1", "kind": kind, "namespace": "shop", "name": name}},
            "status": {"conditions": [{"type": "Scheduled", "status": "True"},
                    {"type": "FullyApplied", "status": "False", "message": "Applied in 1 of 2 clusters"}],
                "aggregatedStatus": [{"clusterName": "m1", "applied": true, "health": "Healthy"}]}});
        let work = |cluster: &str| {
            let work = json!({"metadata": {"name": format!("{name}-1"), "namespace": format!("karmada-es-{cluster}")}, "spec": {},
                "status": {"conditions": [{"type": "Applied", "status": if cluster == "m1" { "True" } else { "False" }, "message": "boom"}]}});
            serde_json::from_value::<Work>(work).expect("a Work")
        };
        Branch {
            binding: Binding::from_value(Scope::Namespaced, &binding).expect("a binding"),
            works: members.iter().map(|(cluster, _)| work(cluster)).collect(),
            members: members.into_iter().map(|(cluster, there)| (cluster.to_owned(), there)).collect(),
        }
    }

    #[test]
    fn trees_show_bindings_works_and_members() {
        let deployment = |ready: i64| json!({"kind": "Deployment", "metadata": {"creationTimestamp": "2026-01-01T00:01:00Z"}, "status": {"replicas": 2, "readyReplicas": ready}});
        let own = branch(
            "Deployment",
            "web",
            vec![("m2", MemberObject::Unknown("no connection".to_owned())), ("m1", MemberObject::Found(deployment(2)))],
        );
        let config = branch("ConfigMap", "settings", vec![("m1", MemberObject::Absent)]);
        let resource = own.binding.spec.resource.clone();
        let now = "2026-01-01T00:10:00Z".parse().expect("a time");
        let template = deployment(1);
        let root = build(&resource, Some(&template), Some(&own), &[config]);
        expect![[r#"
            OBJECT                                          CLUSTER   STATUS      AGE   STATE
            Deployment shop/web                             -         1/2 ready   9m    -
            ├─ ResourceBinding shop/web-deployment          -         -           10m   Scheduled, FullyApplied=False: Applied in 1 of 2 clusters
            │  ├─ Work karmada-es-m1/web-1                  -         -           -     Applied
            │  │  └─ Deployment shop/web                    m1        2/2 ready   9m    Healthy
            │  └─ Work karmada-es-m2/web-1                  -         -           -     Applied=False: boom
            │     └─ Deployment shop/web                    m2        -           -     unknown: no connection
            └─ ConfigMap shop/settings                      -         -           -     required by it
               └─ ResourceBinding shop/settings-configmap   -         -           10m   Scheduled, FullyApplied=False: Applied in 1 of 2 clusters
                  └─ Work karmada-es-m1/settings-1          -         -           -     Applied
                     └─ ConfigMap shop/settings             m1        -           -     absent
        "#]]
        .assert_eq(&text(&root, now, None));
        assert_eq!(build(&resource, None, None, &[]).state, "deleted");
        assert_eq!(build(&resource, Some(&template), None, &[]).state, "not propagated");
        let value = serde_json::to_value(&root).expect("JSON");
        assert_eq!(value["children"][0]["children"][0]["children"][0]["cluster"], "m1");
    }
}
