//! Deployments: finds the new ReplicaSet, and reconciles the ReplicaSets. `rollout` computes their sizes,
//! `deployment_status` the status.

use std::collections::BTreeMap;

use apimachinery::hash::{fnv1a32, safe_encode};
use apimachinery::int_or_string::IntOrString;
use apimachinery::meta::null_as_default;
use apimachinery::object::ObjectTree as _;
use serde::Deserialize;
use serde_json::{Value, json};

use super::meta::Meta;
use super::replica_set::ReplicaSet;
use super::strategy::Strategy;
use super::{Action, Kind, Plan, deployment_status, rollout};

pub(crate) const REVISION: &str = "deployment.kubernetes.io/revision";
pub(crate) const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(crate) const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
pub(crate) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
const TEMPLATE_HASH: &str = "pod-template-hash";

/// Annotations that a Deployment does not copy to its ReplicaSets.
const OWN_ANNOTATIONS: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
];

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Deployment {
    pub metadata: Meta,
    pub spec: DeploymentSpec,
    /// The current status; [`deployment_status`] compares and replaces it.
    pub status: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeploymentSpec {
    pub replicas: Option<i64>,
    pub selector: Value,
    pub template: Value,
    #[serde(deserialize_with = "null_as_default")]
    strategy: Strategy<RollingUpdate>,
    #[serde(deserialize_with = "null_as_default")]
    pub min_ready_seconds: i64,
    pub revision_history_limit: Option<i64>,
    pub progress_deadline_seconds: Option<i64>,
    #[serde(deserialize_with = "null_as_default")]
    pub paused: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RollingUpdate {
    max_surge: Option<IntOrString>,
    max_unavailable: Option<IntOrString>,
}

impl Deployment {
    pub fn replicas(&self) -> i64 {
        self.spec.replicas.unwrap_or(1)
    }

    pub fn recreates(&self) -> bool {
        self.spec.strategy.type_ == "Recreate"
    }

    /// The number of pods that may exceed the desired ones, and of desired ones that may be missing. They are not both
    /// zero, because a rollout could never progress.
    pub fn slack(&self) -> (i64, i64) {
        if self.recreates() {
            return (0, 0);
        }
        let RollingUpdate { max_surge, max_unavailable } = &self.spec.strategy.rolling_update;
        let scaled = |value: &Option<IntOrString>, up: bool| {
            let value = value.clone().unwrap_or_else(|| "25%".into());
            value.scaled(self.replicas(), up).unwrap_or(0)
        };
        match (scaled(max_surge, true), scaled(max_unavailable, false)) {
            (0, 0) => (0, 1),
            (surge, unavailable) => (surge, unavailable.min(self.replicas())),
        }
    }
}

/// A ReplicaSet of the Deployment, and the number of its active pods.
#[derive(Clone, Debug)]
pub(crate) struct Owned {
    pub set: ReplicaSet,
    pub pods: usize,
}

/// The ReplicaSets of a Deployment, oldest first.
pub(crate) struct Sets<'s> {
    pub new: Option<&'s Owned>,
    pub old: Vec<&'s Owned>,
}

impl Sets<'_> {
    pub fn all(&self) -> impl Iterator<Item = &Owned> {
        self.old.iter().copied().chain(self.new)
    }
}

pub(crate) fn plan(deployment: &Deployment, owned: &[Owned], now: jiff::Timestamp) -> Plan {
    let hash = template_hash(&deployment.spec.template);
    let sets = sort(deployment, owned, &hash);
    let actions = if deployment.metadata.is_deleting() { Vec::new() } else { steps(deployment, &sets, &hash) };
    if !actions.is_empty() {
        return Plan { actions, again: None };
    }
    deployment_status::plan(deployment, &sets, now)
}

fn steps(deployment: &Deployment, sets: &Sets<'_>, hash: &str) -> Vec<Action> {
    let resized = |set: &Owned| {
        let desired = set.set.metadata.number(DESIRED_REPLICAS);
        set.set.replicas() > 0 && desired.is_some_and(|desired| desired != deployment.replicas())
    };
    if deployment.spec.paused || sets.all().any(resized) {
        let scaled = rollout::scale(deployment, sets);
        return resize(deployment, sets, &scaled);
    }
    let wait_for_old = deployment.recreates() && sets.old.iter().any(|set| set.pods > 0 || set.set.replicas() > 0);
    let Some(new) = sets.new else {
        if wait_for_old {
            return resize(deployment, sets, &rollout::to_zero(&sets.old));
        }
        return vec![Action::Create(Kind::ReplicaSet, new_set(deployment, sets, hash))];
    };
    if let Some(patch) = caught_up(deployment, sets, new) {
        return vec![patch];
    }
    if wait_for_old {
        return resize(deployment, sets, &rollout::to_zero(&sets.old));
    }
    let scaled = rollout::next(deployment, sets);
    let actions = resize(deployment, sets, &scaled);
    if actions.is_empty() && deployment_status::is_complete(deployment, sets) {
        surplus(deployment, sets)
    } else {
        actions
    }
}

fn sort<'s>(deployment: &Deployment, owned: &'s [Owned], hash: &str) -> Sets<'s> {
    let mut old: Vec<&Owned> = owned.iter().collect();
    old.sort_by(|a, b| a.set.metadata.age_order().cmp(&b.set.metadata.age_order()));
    let is_new = |owned: &&Owned| {
        let labelled = owned.set.metadata.labels.get(TEMPLATE_HASH).is_some_and(|label| label == hash);
        labelled || same_template(&owned.set.spec.template, &deployment.spec.template)
    };
    let new = old.iter().position(is_new).map(|position| old.remove(position));
    Sets { new, old }
}

/// A template without the fields that the server or this controller adds.
fn bare(template: &Value) -> Value {
    let mut bare = template.clone();
    if let Some(metadata) = bare.metadata_mut() {
        metadata.remove("creationTimestamp");
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.remove(TEMPLATE_HASH);
        }
    }
    bare
}

fn same_template(a: &Value, b: &Value) -> bool {
    bare(a) == bare(b)
}

/// The hash of a template. Upstream hashes a dump of Go's structures; any stable hash works.
fn template_hash(template: &Value) -> String {
    safe_encode(fnv1a32(bare(template).to_string().as_bytes()))
}

fn revision(sets: &[&Owned]) -> i64 {
    sets.iter().filter_map(|owned| owned.set.metadata.number(REVISION)).max().unwrap_or(0)
}

/// The annotations that a ReplicaSet inherits.
fn passed_on(deployment: &Deployment) -> BTreeMap<&str, String> {
    let annotations = deployment.metadata.annotations.iter();
    annotations
        .filter(|(key, _)| !OWN_ANNOTATIONS.contains(&key.as_str()))
        .map(|(key, value)| (key.as_str(), value.clone()))
        .collect()
}

fn sizes(deployment: &Deployment) -> [(&'static str, String); 2] {
    let (surge, _) = deployment.slack();
    [(DESIRED_REPLICAS, deployment.replicas().to_string()), (MAX_REPLICAS, (deployment.replicas() + surge).to_string())]
}

fn new_set(deployment: &Deployment, sets: &Sets<'_>, hash: &str) -> Value {
    let mut annotations = passed_on(deployment);
    annotations.insert(REVISION, (revision(&sets.old) + 1).to_string());
    annotations.extend(sizes(deployment));
    let mut template = deployment.spec.template.clone();
    template["metadata"]["labels"][TEMPLATE_HASH] = hash.into();
    let mut selector = deployment.spec.selector.clone();
    selector["matchLabels"][TEMPLATE_HASH] = hash.into();
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{}-{hash}", deployment.metadata.name),
            "namespace": deployment.metadata.namespace,
            "labels": template["metadata"]["labels"],
            "annotations": annotations,
            "ownerReferences": deployment.metadata.owned_by_this("apps/v1", "Deployment"),
        },
        "spec": {
            "replicas": rollout::first_size(deployment, sets),
            "minReadySeconds": deployment.spec.min_ready_seconds,
            "selector": selector,
            "template": template,
        },
    })
}

/// Updates the new ReplicaSet's annotations; an old one that became the new one gets a new revision.
fn caught_up(deployment: &Deployment, sets: &Sets<'_>, new: &Owned) -> Option<Action> {
    let set = &new.set;
    let mut annotations = passed_on(deployment);
    annotations.retain(|key, value| set.metadata.annotations.get(*key) != Some(value));
    let (had, next_revision) = (set.metadata.number(REVISION).unwrap_or(0), revision(&sets.old) + 1);
    if had < next_revision {
        annotations.insert(REVISION, next_revision.to_string());
        let history = set.metadata.annotations.get(REVISION_HISTORY).map(|history| format!("{history},{had}"));
        if had > 0 {
            annotations.insert(REVISION_HISTORY, history.unwrap_or_else(|| had.to_string()));
        }
    }
    let mut patch = json!({"metadata": {"resourceVersion": set.metadata.resource_version}});
    if !annotations.is_empty() {
        patch["metadata"]["annotations"] = json!(annotations);
    }
    let patience = deployment.spec.min_ready_seconds;
    if patience != set.spec.min_ready_seconds {
        patch["spec"]["minReadySeconds"] = patience.into();
    }
    let differs = !annotations.is_empty() || patience != set.spec.min_ready_seconds;
    differs.then(|| Action::Patch(Kind::ReplicaSet, set.metadata.key(), patch))
}

/// Patches of the ReplicaSets whose size, or whose record of the Deployment's size, changes. Others are unchanged.
fn resize(deployment: &Deployment, sets: &Sets<'_>, sizes_by_uid: &BTreeMap<String, i64>) -> Vec<Action> {
    let records = sizes(deployment);
    let patch = |owned: &Owned| {
        let metadata = &owned.set.metadata;
        let size = *sizes_by_uid.get(&metadata.uid)?;
        let recorded = size == 0 || records.iter().all(|(key, value)| metadata.annotations.get(*key) == Some(value));
        (size != owned.set.replicas() || !recorded).then(|| {
            let annotations: BTreeMap<_, _> = records.iter().cloned().collect();
            let patch = json!({"metadata": {"resourceVersion": metadata.resource_version, "annotations": annotations},
                "spec": {"replicas": size}});
            Action::Patch(Kind::ReplicaSet, metadata.key(), patch)
        })
    };
    sets.all().filter_map(patch).collect()
}

/// Old ReplicaSets beyond the history limit, oldest revision first.
fn surplus(deployment: &Deployment, sets: &Sets<'_>) -> Vec<Action> {
    let limit = usize::try_from(deployment.spec.revision_history_limit.unwrap_or(10)).unwrap_or(0);
    let settled = |owned: &&&Owned| {
        let (set, status) = (&owned.set, &owned.set.status);
        set.replicas() == 0 && status.replicas == 0 && owned.pods == 0 && !set.metadata.is_deleting()
    };
    let mut old: Vec<&Owned> = sets.old.iter().filter(settled).copied().collect();
    old.sort_by_key(|owned| owned.set.metadata.number(REVISION).unwrap_or(0));
    let surplus = old.len().saturating_sub(limit);
    let delete = |owned: &&Owned| Action::Delete {
        kind: Kind::ReplicaSet,
        key: owned.set.metadata.key(),
        uid: owned.set.metadata.uid.clone(),
        now: false,
    };
    old.iter().take(surplus).map(delete).collect()
}
