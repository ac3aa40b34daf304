//! What users, members and bad luck do, drawn from a seed.

use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use client::{DeleteOptions, Error, Patch, PatchOptions};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::MEMBERS;
use crate::harness::Plane;
use crate::network::Weather;

/// Of each kind, policies and overrides included, this many names are used.
pub const NAMES: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Deployment,
    ConfigMap,
}

impl Kind {
    pub const ALL: [Self; 2] = [Self::Deployment, Self::ConfigMap];

    /// The kind that an object or a reference names.
    pub fn of(named: &Value) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| named["kind"] == *kind.resource().kind)
    }

    pub fn resource(self) -> ApiResource {
        match self {
            Self::Deployment => ApiResource::namespaced("apps", "v1", "Deployment", "deployments"),
            Self::ConfigMap => ApiResource::namespaced("", "v1", "ConfigMap", "configmaps"),
        }
    }

    /// Where the value is kept that histories change.
    pub fn pointer(self) -> &'static str {
        match self {
            Self::Deployment => "/spec/template/spec/containers/0/image",
            Self::ConfigMap => "/data/v",
        }
    }

    fn patch(self, value: &str) -> Value {
        match self {
            Self::Deployment => {
                json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": value}]}}}})
            }
            Self::ConfigMap => json!({"data": {"v": value}}),
        }
    }

    fn object(self, name: &str, value: &str, replicas: i64, colour: &str) -> Value {
        let metadata = json!({"name": name, "namespace": "demo", "labels": {"colour": colour}});
        match self {
            Self::Deployment => json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
                "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {
                    "metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": value}]}}}}),
            Self::ConfigMap => {
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"v": value}})
            }
        }
    }
}

#[derive(Clone, Debug)]
pub struct PolicySpec {
    kind: Kind,
    selects: Selects,
    clusters: Vec<&'static str>,
    divided: bool,
    overwrite: bool,
}

#[derive(Clone, Debug)]
enum Selects {
    Name(u8),
    Colour(&'static str),
    All,
}

#[derive(Clone, Debug)]
pub enum Action {
    Template { kind: Kind, n: u8, value: String, replicas: i64, colour: &'static str },
    DropTemplate { kind: Kind, n: u8 },
    Policy { cluster_wide: bool, n: u8, spec: PolicySpec },
    DropPolicy { cluster_wide: bool, n: u8 },
    Override { n: u8, kind: Kind, member: &'static str, value: String },
    DropOverride { n: u8 },
    EditInMember { member: &'static str, kind: Kind, n: u8, disown: bool },
    DeleteInMember { member: &'static str, kind: Kind, n: u8 },
    CreateInMember { member: &'static str, kind: Kind, n: u8 },
    Cut(&'static str),
    Heal(&'static str),
    Unjoin(&'static str),
    Join(&'static str),
    Restart,
    Weather(Weather),
    Wait(Duration),
}

pub fn policies(cluster_wide: bool) -> ApiResource {
    let group = ("policy.karmada.io", "v1alpha1");
    match cluster_wide {
        false => ApiResource::namespaced(group.0, group.1, "PropagationPolicy", "propagationpolicies"),
        true => ApiResource::cluster(group.0, group.1, "ClusterPropagationPolicy", "clusterpropagationpolicies"),
    }
}

pub fn overrides() -> ApiResource {
    ApiResource::namespaced("policy.karmada.io", "v1alpha1", "OverridePolicy", "overridepolicies")
}

fn key(name: impl Into<String>) -> ObjectKey {
    ObjectKey::namespaced("demo", name.into())
}

fn policy_key(cluster_wide: bool, n: u8) -> ObjectKey {
    if cluster_wide { ObjectKey::cluster(format!("p{n}")) } else { key(format!("p{n}")) }
}

/// The history of a seed. A share of the steps only lets time pass, so that some actions meet a system at rest and some
/// one that is busy.
pub fn draw(seed: u64) -> Vec<Action> {
    let mut rng = StdRng::seed_from_u64(seed);
    let steps = rng.random_range(8..30);
    (0..steps).map(|step| action(&mut rng, seed, step)).collect()
}

fn action(rng: &mut StdRng, seed: u64, step: usize) -> Action {
    fn one<T: Copy>(rng: &mut StdRng, of: &[T]) -> T {
        of[rng.random_range(0..of.len())]
    }
    let (kind, n, member) = (one(rng, &Kind::ALL), rng.random_range(0..NAMES), one(rng, &MEMBERS));
    let cluster_wide = rng.random_range(0..3) == 0;
    match rng.random_range(0..100) {
        0..18 => {
            let (replicas, colour) = (rng.random_range(0..7), one(rng, &["red", "blue"]));
            Action::Template { kind, n, value: format!("v{step}"), replicas, colour }
        }
        18..24 => Action::DropTemplate { kind, n },
        24..40 => {
            let selects = match rng.random_range(0..4) {
                0 | 1 => Selects::Name(rng.random_range(0..NAMES)),
                2 => Selects::Colour(one(rng, &["red", "blue"])),
                _ => Selects::All,
            };
            let clusters = MEMBERS.into_iter().filter(|_| rng.random_range(0..3) > 0).collect();
            let (divided, overwrite) = (rng.random_range(0..2) == 0, rng.random_range(0..4) == 0);
            Action::Policy { cluster_wide, n, spec: PolicySpec { kind, selects, clusters, divided, overwrite } }
        }
        40..46 => Action::DropPolicy { cluster_wide, n },
        46..51 => Action::Override { n, kind, member, value: format!("o{step}") },
        51..53 => Action::DropOverride { n },
        53..58 => Action::EditInMember { member, kind, n, disown: rng.random_range(0..4) == 0 },
        58..62 => Action::DeleteInMember { member, kind, n },
        62..65 => Action::CreateInMember { member, kind, n },
        65..69 => Action::Cut(member),
        69..73 => Action::Heal(member),
        73..75 => Action::Unjoin(member),
        75..77 => Action::Join(member),
        77..80 => Action::Restart,
        80..84 => Action::Weather(Weather { seed: seed ^ step as u64, lost: one(rng, &[0, 20, 100, 300]) }),
        84..92 => Action::Wait(Duration::from_millis(rng.random_range(1..3_000))),
        _ => Action::Wait(Duration::from_secs(rng.random_range(3..90))),
    }
}

/// What a step that comes too late or too early is answered is no mistake of anybody.
fn tolerant<T>(result: Result<T, Error>) {
    if let Err(error) = result {
        let expected = error.is_not_found() || error.is_already_exists() || error.is_conflict();
        // A namespace that goes away takes nothing new; a webhook-like rule may refuse what a policy says.
        assert!(expected || error.status().is_some(), "{error}");
    }
}

async fn create_or_merge(client: &client::Client, resource: &ApiResource, key: &ObjectKey, object: Value) {
    match client.create(resource, &object).await {
        Err(error) if error.is_already_exists() => {
            let patch = Patch::Merge(json!({"metadata": {"labels": object["metadata"]["labels"]},
                "spec": object["spec"], "data": object["data"]}));
            tolerant(client.patch(resource, key, &patch, &PatchOptions::default()).await);
        }
        other => tolerant(other),
    }
}

impl Action {
    pub async fn perform(&self, plane: &mut Plane) {
        let delete = DeleteOptions::background();
        match self {
            Self::Template { kind, n, value, replicas, colour } => {
                let name = format!("t{n}");
                let object = kind.object(&name, value, *replicas, colour);
                create_or_merge(&plane.client, &kind.resource(), &key(name), object).await;
            }
            Self::DropTemplate { kind, n } => {
                tolerant(plane.client.delete(&kind.resource(), &key(format!("t{n}")), &delete).await);
            }
            Self::Policy { cluster_wide, n, spec } => {
                let (resource, at) = (policies(*cluster_wide), policy_key(*cluster_wide, *n));
                let object = spec.object(&resource.kind, &at);
                match plane.client.create(&resource, &object).await {
                    Err(error) if error.is_already_exists() => {
                        // Whole, as `kubectl replace` has it: what the new one does not say is gone.
                        if let Some(mut live) = plane.get(&resource, &at).await {
                            live["spec"] = object["spec"].clone();
                            tolerant(plane.client.update(&resource, &live).await);
                        }
                    }
                    other => tolerant(other),
                }
            }
            Self::DropPolicy { cluster_wide, n } => {
                let resource = policies(*cluster_wide);
                tolerant(plane.client.delete(&resource, &policy_key(*cluster_wide, *n), &delete).await);
            }
            Self::Override { n, kind, member, value } => {
                let at = key(format!("o{n}"));
                let resource = kind.resource();
                let object = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
                    "metadata": {"name": at.name, "namespace": "demo"}, "spec": {
                        "resourceSelectors": [{"apiVersion": resource.api_version(), "kind": resource.kind}],
                        "overrideRules": [{"targetCluster": {"clusterNames": [member]}, "overriders": {
                            "plaintext": [{"path": kind.pointer(), "operator": "replace", "value": value}]}}]}});
                create_or_merge(&plane.client, &overrides(), &at, object).await;
            }
            Self::DropOverride { n } => {
                tolerant(plane.client.delete(&overrides(), &key(format!("o{n}")), &delete).await);
            }
            Self::EditInMember { member, kind, n, disown } => {
                let mut patch = kind.patch("edited");
                if *disown {
                    patch["metadata"] = json!({"labels": {"karmada.io/managed": null}});
                }
                let client = plane.member(member);
                let patch = Patch::Strategic(patch);
                tolerant(client.patch(&kind.resource(), &key(format!("t{n}")), &patch, &PatchOptions::default()).await);
            }
            Self::DeleteInMember { member, kind, n } => {
                tolerant(plane.member(member).delete(&kind.resource(), &key(format!("t{n}")), &delete).await);
            }
            Self::CreateInMember { member, kind, n } => {
                let object = kind.object(&format!("t{n}"), "theirs", 1, "none");
                tolerant(plane.member(member).create(&kind.resource(), &object).await);
            }
            Self::Cut(member) => plane.network.cut(member),
            Self::Heal(member) => plane.network.heal(member),
            Self::Unjoin(member) => {
                tolerant(plane.client.delete(&Cluster::api_resource(), &ObjectKey::cluster(*member), &delete).await);
            }
            Self::Join(member) => {
                if plane.get(&Cluster::api_resource(), &ObjectKey::cluster(*member)).await.is_none() {
                    plane.join(member).await;
                }
            }
            Self::Restart => plane.restart_controllers().await,
            Self::Weather(weather) => plane.network.set_weather(Some(*weather)),
            Self::Wait(time) => tokio::time::sleep(*time).await,
        }
    }
}

impl PolicySpec {
    fn object(&self, kind: &str, key: &ObjectKey) -> Value {
        let resource = self.kind.resource();
        let mut selector = json!({"apiVersion": resource.api_version(), "kind": resource.kind, "namespace": "demo"});
        match self.selects {
            Selects::Name(n) => selector["name"] = json!(format!("t{n}")),
            Selects::Colour(colour) => selector["labelSelector"] = json!({"matchLabels": {"colour": colour}}),
            Selects::All => {}
        }
        let mut placement = json!({"clusterAffinity": {"clusterNames": self.clusters}});
        if self.clusters.is_empty() {
            placement = json!({});
        }
        if self.divided {
            placement["replicaScheduling"] =
                json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"});
        }
        json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": kind,
            "metadata": {"name": key.name, "namespace": key.namespace()},
            "spec": {"resourceSelectors": [selector], "placement": placement,
                "conflictResolution": if self.overwrite { "Overwrite" } else { "Abort" }}})
    }
}
