//! The changes that the control plane would make in a held member after a resume: a function of the Works and the
//! member's objects, which uses the functions of the execution controller.

use std::collections::{BTreeMap, BTreeSet};

use interpreter::Interpreter;
use karmada_api::constants::{annotations, labels};
use propagation::compare::{Difference, covers, differences};
use propagation::deletion::may_delete;
use propagation::retain::{Update, is_managed, plan_update};
use propagation::template::Template;
use serde::Serialize;
use serde_json::Value;

use crate::answers::text;

/// An object in a member, in any version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Id {
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
}

impl Id {
    pub fn of(object: &Value) -> Self {
        let api_version = text(&object["apiVersion"]);
        let group = api_version.split_once('/').map_or("", |(group, _)| group).to_owned();
        let metadata = &object["metadata"];
        Self {
            kind: text(&object["kind"]),
            group,
            namespace: text(&metadata["namespace"]),
            name: text(&metadata["name"]),
        }
    }
}

/// `Deployment default/nginx`.
impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}

/// The state of a member.
#[derive(Debug, Default)]
pub struct Member {
    /// Every object of the kinds that were read; of those that are not managed, only the ones that a Work names.
    pub objects: BTreeMap<Id, Value>,
    /// Kinds that the member does not serve, and kinds that could not be read, each with the reason.
    pub unreadable: BTreeMap<(String, String), String>,
}

/// The planned changes in a member.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    pub overwritten: Vec<Overwritten>,
    /// In a Work, and absent in the member.
    pub recreated: Vec<Id>,
    /// Their Works are being deleted.
    pub deleted: Vec<Id>,
    /// Managed by this control plane in the member, without a Work: they stay.
    pub left: Vec<Id>,
    /// A Work cannot be applied to them.
    pub blocked: Vec<Blocked>,
    pub unchanged: usize,
    /// Works whose dispatching is suspended.
    pub suspended: usize,
}

#[derive(Debug, PartialEq, Serialize)]
pub struct Overwritten {
    #[serde(flatten)]
    pub id: Id,
    pub differences: Vec<Shown>,
}

#[derive(Debug, PartialEq, Serialize)]
pub struct Blocked {
    #[serde(flatten)]
    pub id: Id,
    pub reason: String,
}

/// The printed form of a [`Difference`].
#[derive(Debug, PartialEq, Serialize)]
pub struct Shown {
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<Value>,
    pub desired: Value,
}

impl From<Difference> for Shown {
    fn from(it: Difference) -> Self {
        Self { path: it.path, observed: it.observed, desired: it.desired }
    }
}

/// Plans the resumption of `cluster`, whose Works are in the namespace `namespace`.
pub fn plan(cluster: &str, namespace: &str, works: &[Value], member: &Member, interpreter: &Interpreter) -> Plan {
    let mut plan = Plan::default();
    let mut claimed = BTreeSet::new();
    for work in works {
        let deleting = work["metadata"]["deletionTimestamp"].is_string();
        for manifest in work["spec"]["workload"]["manifests"].as_array().into_iter().flatten() {
            let id = Id::of(manifest);
            claimed.insert(id.clone());
            if deleting {
                plan.end(work, id, member);
            } else if work["spec"]["suspendDispatching"] == true {
                plan.suspended += 1;
            } else {
                plan.apply(cluster, manifest, id, member, interpreter);
            }
        }
    }
    let is_own = |object: &Value| {
        let metadata = &object["metadata"];
        metadata["labels"][labels::MANAGED] == "true"
            && metadata["annotations"][annotations::WORK_NAMESPACE] == namespace
            && metadata["deletionTimestamp"].is_null()
    };
    let left = member.objects.iter().filter(|(id, object)| !claimed.contains(*id) && is_own(object));
    plan.left.extend(left.map(|(id, _)| id.clone()));
    plan.left.sort();
    plan.overwritten.sort_by(|a, b| a.id.cmp(&b.id));
    plan.blocked.sort_by(|a, b| a.id.cmp(&b.id));
    plan.recreated.sort();
    plan.deleted.sort();
    plan
}

impl Plan {
    /// A Work that is being deleted.
    fn end(&mut self, work: &Value, id: Id, member: &Member) {
        let Some(observed) = member.objects.get(&id) else { return };
        let is_deleting = observed["metadata"]["deletionTimestamp"].is_string();
        let work_id = Template(work).label(labels::WORK_ID).unwrap_or_default();
        if work["spec"]["preserveResourcesOnDeletion"] == true || !is_managed(Template(observed)) || is_deleting {
            self.unchanged += 1;
        } else if may_delete(Template(observed), work_id) {
            self.deleted.push(id);
        } else {
            // A later Work wrote it, which this store does not have.
            self.left.push(id);
        }
    }

    fn apply(&mut self, cluster: &str, manifest: &Value, id: Id, member: &Member, interpreter: &Interpreter) {
        if let Some(reason) = member.unreadable.get(&(id.group.clone(), id.kind.clone())) {
            self.blocked.push(Blocked { id, reason: reason.clone() });
            return;
        }
        let Some(observed) = member.objects.get(&id) else {
            self.recreated.push(id);
            return;
        };
        if is_managed(Template(observed)) && covers(observed, manifest) {
            self.unchanged += 1;
            return;
        }
        match plan_update(manifest, observed, interpreter, cluster) {
            Ok(Update::Unchanged) => self.unchanged += 1,
            Ok(Update::Put(desired)) => {
                let mut differences: Vec<Shown> =
                    differences(observed, &desired).into_iter().map(Shown::from).collect();
                // User-written fields are first.
                differences.sort_by_key(|it| it.path.starts_with("metadata"));
                match differences.is_empty() {
                    true => self.unchanged += 1,
                    false => self.overwritten.push(Overwritten { id, differences }),
                }
            }
            Err(error) => self.blocked.push(Blocked { id, reason: error.to_string() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn manifest(name: &str, data: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns",
            "labels": {"karmada.io/managed": "true"},
            "annotations": {"work.karmada.io/namespace": "karmada-es-m1", "work.karmada.io/name": "w"}}, "data": {"k": data}})
    }

    fn work(spec: Value, metadata: Value, manifests: &[Value]) -> Value {
        let mut work = json!({"metadata": metadata, "spec": spec});
        work["spec"]["workload"] = json!({"manifests": manifests});
        work
    }

    fn observed(name: &str, data: &str) -> Value {
        let mut object = manifest(name, data);
        object["metadata"]["uid"] = json!("u");
        object["metadata"]["resourceVersion"] = json!("7");
        object["metadata"]["annotations"]["resume.karmada.io/mark"] = json!("x");
        object
    }

    #[test]
    fn each_object_has_one_action() {
        let mut unmanaged = observed("foreign", "1");
        unmanaged["metadata"]["labels"] = json!({});
        let mut of_another = observed("of-another", "1");
        of_another["metadata"]["annotations"]["work.karmada.io/namespace"] = json!("karmada-es-m2");
        let going =
            json!({"deletionTimestamp": "2026-11-23T00:00:00Z", "labels": {"work.karmada.io/permanent-id": "1"}});
        let mut rewritten = observed("rewritten", "1");
        rewritten["metadata"]["labels"]["work.karmada.io/permanent-id"] = json!("2");
        let works = [
            work(json!({}), json!({}), &[manifest("same", "1"), manifest("changed", "1")]),
            work(json!({}), json!({}), &[manifest("absent", "1"), manifest("foreign", "2")]),
            work(
                json!({}),
                going.clone(),
                &[manifest("going", "1"), manifest("gone", "1"), manifest("rewritten", "1")],
            ),
            work(json!({"preserveResourcesOnDeletion": true}), going, &[manifest("preserved", "1")]),
            work(json!({"suspendDispatching": true}), json!({}), &[manifest("suspended", "1")]),
            work(json!({}), json!({}), &[json!({"apiVersion": "a.b/v1", "kind": "K", "metadata": {"name": "k"}})]),
        ];
        let objects = [
            observed("same", "1"),
            observed("changed", "2"),
            unmanaged,
            observed("going", "1"),
            observed("preserved", "1"),
            observed("suspended", "9"),
            observed("left", "1"),
            of_another,
            rewritten,
        ];
        let member = Member {
            objects: objects.into_iter().map(|it| (Id::of(&it), it)).collect(),
            unreadable: [(("a.b".to_owned(), "K".to_owned()), "not served".to_owned())].into(),
        };
        let plan = plan("m1", "karmada-es-m1", &works, &member, &Interpreter::default());
        let names = |ids: &[Id]| ids.iter().map(Id::to_string).collect::<Vec<_>>();
        assert_eq!(plan.overwritten.len(), 1);
        assert_eq!(plan.overwritten[0].id.to_string(), "ConfigMap ns/changed");
        let expected = Shown { path: "data.k".to_owned(), observed: Some(json!("2")), desired: json!("1") };
        assert_eq!(plan.overwritten[0].differences, [expected]);
        assert_eq!(names(&plan.recreated), ["ConfigMap ns/absent"]);
        assert_eq!(names(&plan.deleted), ["ConfigMap ns/going"]);
        assert_eq!(names(&plan.left), ["ConfigMap ns/left", "ConfigMap ns/rewritten"]);
        let blocked: Vec<_> = plan.blocked.iter().map(|it| it.id.to_string()).collect();
        assert_eq!(blocked, ["ConfigMap ns/foreign", "K k"]);
        assert_eq!((plan.unchanged, plan.suspended), (2, 1));
    }
}
