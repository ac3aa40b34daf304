//! StatefulSets: pods with a name and an ordinal, created, deleted and replaced one by one.

use std::collections::BTreeMap;
use std::ops::Range;

use apimachinery::meta::null_as_default;
use serde::Deserialize;
use serde_json::{Value, json};

use super::meta::Meta;
use super::pod::{self, PodFacts};
use super::revision::{self, ControllerRevision, HASH_LABEL};
use super::strategy::Strategy;
use super::{Action, Kind, Plan};

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// The maximum number of pods that a reconcile creates or deletes with parallel pod management.
const BURST: usize = 500;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StatefulSet {
    pub metadata: Meta,
    pub spec: Spec,
    pub status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Spec {
    replicas: Option<i64>,
    template: Value,
    #[serde(deserialize_with = "null_as_default")]
    service_name: String,
    #[serde(deserialize_with = "null_as_default")]
    pod_management_policy: String,
    #[serde(deserialize_with = "null_as_default")]
    update_strategy: Strategy<RollingUpdate>,
    #[serde(deserialize_with = "null_as_default")]
    volume_claim_templates: Vec<Value>,
    #[serde(deserialize_with = "null_as_default")]
    min_ready_seconds: i64,
    #[serde(deserialize_with = "null_as_default")]
    ordinals: Ordinals,
    revision_history_limit: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RollingUpdate {
    #[serde(deserialize_with = "null_as_default")]
    partition: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Ordinals {
    #[serde(deserialize_with = "null_as_default")]
    start: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status {
    replicas: i64,
    ready_replicas: i64,
    available_replicas: i64,
    current_replicas: i64,
    updated_replicas: i64,
    current_revision: String,
    update_revision: String,
    observed_generation: i64,
}

impl StatefulSet {
    fn ordinals(&self) -> Range<i64> {
        let start = self.spec.ordinals.start;
        start..start.saturating_add(self.spec.replicas.unwrap_or(1))
    }

    fn in_order(&self) -> bool {
        self.spec.pod_management_policy != "Parallel"
    }

    fn pod_name(&self, ordinal: i64) -> String {
        format!("{}-{ordinal}", self.metadata.name)
    }

    fn ordinal(&self, pod: &PodFacts) -> Option<i64> {
        pod.key.name().strip_prefix(self.metadata.name.as_str())?.strip_prefix('-')?.parse().ok()
    }
}

/// A set with its pods and revisions.
struct View<'v> {
    set: &'v StatefulSet,
    pods: BTreeMap<i64, &'v PodFacts>,
    known: &'v [ControllerRevision],
    /// The hashes of the current and of the updated template.
    current: String,
    update: String,
    now: jiff::Timestamp,
}

pub(crate) fn plan<'p>(
    set: &StatefulSet,
    pods: impl Iterator<Item = &'p PodFacts>,
    known: &[ControllerRevision],
    now: jiff::Timestamp,
) -> Plan {
    if set.metadata.is_deleting() {
        return Plan::nothing();
    }
    if let Some(action) = revision::record(&set.metadata, "StatefulSet", &set.spec.template, known) {
        return Plan::one(action);
    }
    let (update, _) = revision::name(&set.metadata, &set.spec.template);
    let current = set.status.current_revision.strip_prefix(&format!("{}-", set.metadata.name));
    let current = current.map_or_else(|| update.clone(), str::to_owned);
    let pods = pods.filter_map(|pod| Some((set.ordinal(pod)?, pod))).collect();
    let view = View { set, pods, known, current, update, now };
    let mut plan = Plan { actions: view.steps(), again: view.next_available() };
    let (status, settled) = view.status();
    if status != set.status {
        plan.actions.push(Action::Status(Kind::StatefulSet, set.metadata.with_status(printed(&status))));
    } else if settled && plan.actions.is_empty() {
        let in_use = [status.current_revision.as_str(), status.update_revision.as_str()];
        plan.actions = revision::surplus(known, set.spec.revision_history_limit, &in_use);
    }
    plan
}

impl View<'_> {
    fn is_available(&self, pod: &PodFacts) -> bool {
        let since = pod.available_since(self.set.spec.min_ready_seconds);
        !pod.deleting && since.is_some_and(|since| since <= self.now)
    }

    fn next_available(&self) -> Option<std::time::Duration> {
        let since = self.pods.values().filter_map(|pod| pod.available_since(self.set.spec.min_ready_seconds));
        let next = since.filter(|since| *since > self.now).min()?;
        Some(std::time::Duration::try_from(next.duration_since(self.now)).unwrap_or_default())
    }

    /// Creates missing pods from the lowest ordinal, deletes surplus pods from the highest, replaces outdated pods from
    /// the highest; with ordered pod management each waits until the previous one is available.
    fn steps(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for ordinal in self.set.ordinals() {
            let action = match self.pods.get(&ordinal) {
                None => Some(self.create(ordinal)),
                Some(pod) if pod.is_terminal() && !pod.deleting => Some(vec![delete(pod)]),
                Some(pod) if self.is_available(pod) || !self.set.in_order() => None,
                Some(_) => return actions,
            };
            actions.extend(action.into_iter().flatten());
            if (self.set.in_order() && !actions.is_empty()) || actions.len() >= BURST {
                return actions;
            }
        }
        for (_, pod) in self.pods.iter().rev().filter(|(ordinal, _)| !self.set.ordinals().contains(ordinal)) {
            if pod.deleting && self.set.in_order() {
                return actions;
            }
            if !pod.deleting {
                actions.push(delete(pod));
            }
            if (self.set.in_order() && !actions.is_empty()) || actions.len() >= BURST {
                return actions;
            }
        }
        if actions.is_empty() { self.replace_one() } else { actions }
    }

    fn replace_one(&self) -> Vec<Action> {
        let Strategy { type_, rolling_update } = &self.set.spec.update_strategy;
        if type_ == "OnDelete" {
            return Vec::new();
        }
        let first = self.set.ordinals().start.max(rolling_update.partition);
        for (_, pod) in self.pods.range(first..).rev() {
            if pod.template_hash.as_ref() != self.update && !pod.deleting {
                return vec![delete(pod)];
            }
            if !self.is_available(pod) {
                return Vec::new();
            }
        }
        Vec::new()
    }

    /// A pod below the partition keeps the current template.
    fn create(&self, ordinal: i64) -> Vec<Action> {
        let set = self.set;
        let keeps = ordinal < set.spec.update_strategy.rolling_update.partition;
        let old = self.known.iter().find(|known| known.metadata.labels.get(HASH_LABEL) == Some(&self.current));
        let (template, hash) = match old.filter(|_| keeps) {
            Some(old) => (old.template(), &self.current),
            None => (&set.spec.template, &self.update),
        };
        let (name, index) = (set.pod_name(ordinal), ordinal.to_string());
        let labels = [(POD_NAME, name.as_str()), (POD_INDEX, &index), (HASH_LABEL, hash)];
        let mut pod = pod::from_template(template, &set.metadata, "apps/v1", "StatefulSet", &labels);
        pod["metadata"]["name"] = name.as_str().into();
        pod["spec"]["hostname"] = name.as_str().into();
        if !set.spec.service_name.is_empty() {
            pod["spec"]["subdomain"] = set.spec.service_name.as_str().into();
        }
        let mut actions: Vec<Action> =
            set.spec.volume_claim_templates.iter().map(|claim| self.claim(claim, &name)).collect();
        for claim in &set.spec.volume_claim_templates {
            mount(&mut pod, &claim["metadata"]["name"], &name);
        }
        actions.push(Action::Create(Kind::Pod, pod));
        actions
    }

    /// The volume claim of a pod; it outlives the pod.
    fn claim(&self, template: &Value, pod: &str) -> Action {
        let mut claim = template.clone();
        claim["apiVersion"] = "v1".into();
        claim["kind"] = "PersistentVolumeClaim".into();
        claim["metadata"]["name"] = claim_name(&template["metadata"]["name"], pod).into();
        claim["metadata"]["namespace"] = self.set.metadata.namespace.as_str().into();
        for (key, value) in self.set.spec.template["metadata"]["labels"].as_object().into_iter().flatten() {
            claim["metadata"]["labels"][key] = value.clone();
        }
        Action::Ensure(Kind::PersistentVolumeClaim, claim)
    }

    /// The status, and whether every pod has the updated template.
    fn status(&self) -> (Status, bool) {
        let set = self.set;
        let full = |hash: &str| format!("{}-{hash}", set.metadata.name);
        let living: Vec<&&PodFacts> = self.pods.values().filter(|pod| !pod.is_terminal()).collect();
        let count = |holds: &dyn Fn(&PodFacts) -> bool| {
            i64::try_from(living.iter().filter(|pod| holds(pod)).count()).unwrap_or(i64::MAX)
        };
        let of = |hash: &str| count(&|pod| !pod.deleting && pod.template_hash.as_ref() == hash);
        let mut status = Status {
            replicas: count(&|_| true),
            ready_replicas: count(&PodFacts::is_ready),
            available_replicas: count(&|pod| self.is_available(pod)),
            current_replicas: of(&self.current),
            updated_replicas: of(&self.update),
            current_revision: full(&self.current),
            update_revision: full(&self.update),
            observed_generation: set.metadata.generation,
        };
        let desired = set.spec.replicas.unwrap_or(1);
        let settled = [status.replicas, status.updated_replicas, status.ready_replicas].iter().all(|&n| n == desired);
        if settled {
            status.current_revision.clone_from(&status.update_revision);
            status.current_replicas = status.updated_replicas;
        }
        (status, settled)
    }
}

fn delete(pod: &PodFacts) -> Action {
    super::replica_set::delete(pod)
}

fn claim_name(template: &Value, pod: &str) -> String {
    format!("{}-{pod}", template.as_str().unwrap_or_default())
}

/// Mounts the pod's claim under the template's name, replacing a volume of that name.
fn mount(pod: &mut Value, template: &Value, name: &str) {
    let volume = json!({"name": template, "persistentVolumeClaim": {"claimName": claim_name(template, name), "readOnly": false}});
    let mut volumes = pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    volumes.retain(|volume| &volume["name"] != template);
    volumes.push(volume);
    pod["spec"]["volumes"] = volumes.into();
}

fn printed(status: &Status) -> Value {
    let mut printed = json!({
        "observedGeneration": status.observed_generation, "replicas": status.replicas,
        "availableReplicas": status.available_replicas, "collisionCount": 0,
        "currentRevision": status.current_revision, "updateRevision": status.update_revision,
    });
    for (field, count) in [
        ("readyReplicas", status.ready_replicas),
        ("currentReplicas", status.current_replicas),
        ("updatedReplicas", status.updated_replicas),
    ] {
        if count > 0 {
            printed[field] = count.into();
        }
    }
    printed
}
