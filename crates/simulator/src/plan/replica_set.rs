//! ReplicaSets: the desired number of pods of one template.

use apimachinery::meta::{LabelSelector, null_as_default};
use serde::Deserialize;
use serde_json::{Value, json};

use super::meta::Meta;
use super::pod::{self, PodFacts};
use super::{Action, Kind, Plan};

/// The maximum number of pods that a reconcile creates or deletes; upstream's burst.
const BURST: usize = 500;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ReplicaSet {
    pub metadata: Meta,
    pub spec: ReplicaSetSpec,
    pub status: ReplicaSetStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReplicaSetSpec {
    pub replicas: Option<i64>,
    #[serde(deserialize_with = "null_as_default")]
    pub min_ready_seconds: i64,
    pub selector: LabelSelector,
    pub template: Value,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReplicaSetStatus {
    pub replicas: i64,
    pub ready_replicas: i64,
    pub available_replicas: i64,
    pub fully_labeled_replicas: i64,
    pub observed_generation: i64,
}

impl ReplicaSet {
    pub fn replicas(&self) -> i64 {
        self.spec.replicas.unwrap_or(1)
    }
}

pub(crate) fn plan<'p>(set: &ReplicaSet, pods: impl Iterator<Item = &'p PodFacts>, now: jiff::Timestamp) -> Plan {
    if set.metadata.is_deleting() {
        return Plan::nothing();
    }
    let mut active: Vec<&PodFacts> = pods.filter(|pod| pod.is_active()).collect();
    let desired = usize::try_from(set.replicas()).unwrap_or(0);
    if active.len() < desired {
        let pod = pod::from_template(&set.spec.template, &set.metadata, "apps/v1", "ReplicaSet", &[]);
        let missing = (desired - active.len()).min(BURST);
        return Plan { actions: vec![Action::Create(Kind::Pod, pod); missing], again: None };
    }
    if active.len() > desired {
        active.sort_by_key(|pod| leaves_last(pod));
        let surplus = active.iter().take((active.len() - desired).min(BURST));
        return Plan { actions: surplus.map(|pod| delete(pod)).collect(), again: None };
    }
    let (status, again) = status(set, &active, now);
    let mut plan = Plan { actions: Vec::new(), again };
    if status != set.status {
        plan.actions.push(Action::Status(Kind::ReplicaSet, set.metadata.with_status(printed(&status))));
    }
    plan
}

pub(crate) fn delete(pod: &PodFacts) -> Action {
    Action::Delete { kind: Kind::Pod, key: pod.key.clone(), uid: pod.uid.to_string(), now: false }
}

/// The order of deletion: unscheduled pods first, then not running, then not ready, then the youngest.
pub(crate) fn leaves_last(pod: &PodFacts) -> impl Ord + use<> {
    let youngest_first = |time: Option<apimachinery::meta::Time>| std::cmp::Reverse(time);
    (
        !pod.node.is_empty(),
        pod.phase,
        pod.is_ready(),
        youngest_first(pod.ready_since),
        youngest_first(pod.created),
        pod.key.clone(),
    )
}

/// The status, and when it changes without an event.
fn status(
    set: &ReplicaSet,
    active: &[&PodFacts],
    now: jiff::Timestamp,
) -> (ReplicaSetStatus, Option<std::time::Duration>) {
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let since = |pod: &&PodFacts| pod.available_since(set.spec.min_ready_seconds);
    let available = active.iter().filter_map(since).filter(|since| *since <= now).count();
    let next = active.iter().filter_map(since).filter(|since| *since > now).min();
    let status = ReplicaSetStatus {
        replicas: count(active.len()),
        ready_replicas: count(active.iter().filter(|pod| pod.is_ready()).count()),
        available_replicas: count(available),
        fully_labeled_replicas: count(active.len()),
        observed_generation: set.metadata.generation,
    };
    let again = next.map(|next| std::time::Duration::try_from(next.duration_since(now)).unwrap_or_default());
    (status, again)
}

/// Zero counts are omitted, except for the first.
fn printed(status: &ReplicaSetStatus) -> Value {
    let mut printed = json!({"replicas": status.replicas, "observedGeneration": status.observed_generation});
    for (field, count) in [
        ("fullyLabeledReplicas", status.fully_labeled_replicas),
        ("readyReplicas", status.ready_replicas),
        ("availableReplicas", status.available_replicas),
    ] {
        if count > 0 {
            printed[field] = count.into();
        }
    }
    printed
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::pod::Pod;
    use super::*;

    /// A pod from `name [node] [ready]`.
    fn facts(text: &str) -> PodFacts {
        let words: Vec<&str> = text.split(' ').collect();
        let mut object =
            json!({"metadata": {"name": words[0], "namespace": "ns", "uid": words[0]}, "spec": {}, "status": {}});
        if words.contains(&"node") {
            object["spec"]["nodeName"] = "n".into();
        }
        if words.contains(&"ready") {
            object["status"] = json!({"phase": "Running", "conditions":
                [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-21T00:00:00Z"}]});
        }
        PodFacts::new(&serde_json::from_value::<Pod>(object).expect("a pod"))
    }

    fn check(replicas: i64, min_ready: i64, pods: &[&str], expected: expect_test::Expect) {
        let set = json!({"metadata": {"name": "rs", "namespace": "ns", "uid": "u", "generation": 2},
            "spec": {"replicas": replicas, "minReadySeconds": min_ready, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {}}}});
        let set: ReplicaSet = serde_json::from_value(set).expect("a ReplicaSet");
        let pods: Vec<PodFacts> = pods.iter().map(|text| facts(text)).collect();
        let plan = plan(&set, pods.iter(), "2026-11-21T00:00:10Z".parse().expect("a time"));
        let mut shown: Vec<String> = plan
            .actions
            .iter()
            .map(|action| match action {
                Action::Create(_, pod) => format!("create {}", pod["metadata"]["generateName"]),
                Action::Delete { key, .. } => format!("delete {key}"),
                Action::Status(_, body) => body["status"].to_string(),
                Action::Patch(..) | Action::Ensure(..) => "other".to_owned(),
            })
            .collect();
        shown.extend(plan.again.map(|pause| format!("again after {pause:?}")));
        expected.assert_eq(&shown.join("\n"));
    }

    #[test]
    fn pods_are_created_deleted_and_counted() {
        check(2, 0, &["a node ready"], expect![[r#"create "rs-""#]]);
        check(
            1,
            0,
            &["a node ready", "b node", "c"],
            expect![[r#"
            delete ns/c
            delete ns/b"#]],
        );
        check(
            2,
            0,
            &["a node ready", "b node"],
            expect![[
                r#"{"availableReplicas":1,"fullyLabeledReplicas":2,"observedGeneration":2,"readyReplicas":1,"replicas":2}"#
            ]],
        );
        check(
            1,
            30,
            &["a node ready"],
            expect![[r#"
            {"fullyLabeledReplicas":1,"observedGeneration":2,"readyReplicas":1,"replicas":1}
            again after 20s"#]],
        );
        check(0, 0, &[], expect![[r#"{"observedGeneration":2,"replicas":0}"#]]);
    }
}
