//! A member that answers nonsense: while values of its answers are replaced or missing, nothing is deleted in it and no
//! component panics; when it answers again, everything converges. Events of watches stay whole: a cache keeps what a
//! well-formed event contains until the next one.
//!
//! `NONSENSE=100` runs that many rounds, from seed `NONSENSE_SEED` on.

use std::time::Duration;

use apimachinery::{ApiResource, Object, ObjectKey};
use client::{Client, Patch, PatchOptions};
use karmadactl::join::{JoinOptions, Member, join};
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use crate::fleet::{Fleet, until};
use crate::nonsense::{Front, Plan, number};
use crate::plane::{deployments, policies};

fn config_maps() -> ApiResource {
    ApiResource::namespaced("", "v1", "ConfigMap", "configmaps")
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

async fn objects(plane: &Client) {
    let labels = json!({"app": "web"});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
        "spec": {"containers": [{"name": "web", "image": "web:0"}]}}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"}, "spec": spec});
    plane.create(&deployments(), &deployment).await.expect("created");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"},
        "data": {"round": "0"}});
    plane.create(&config_maps(), &map).await.expect("created");
    let selectors = [("apps/v1", "Deployment"), ("v1", "ConfigMap")];
    let selectors = selectors.map(|(version, kind)| json!({"apiVersion": version, "kind": kind}));
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "all", "namespace": "default"},
        "spec": {"resourceSelectors": selectors, "placement": {"clusterAffinity": {"clusterNames": ["m9"]}}}});
    plane.create(&policies(), &policy).await.expect("created");
}

/// A change of both templates.
async fn change(plane: &Client, round: u64) {
    let options = PatchOptions::default();
    let patch = Patch::Merge(json!({"data": {"round": round.to_string()}}));
    plane.patch(&config_maps(), &key("c"), &patch, &options).await.expect("patched");
    let patch = Patch::Merge(json!({"spec": {"replicas": 1 + round % 3}}));
    plane.patch(&deployments(), &key("web"), &patch, &options).await.expect("patched");
}

async fn tree(client: &Client, resource: &ApiResource, name: &str) -> Value {
    let found = client.get_opt(resource, &key(name)).await.expect("the server answers");
    found.map_or(Value::Null, |object: std::sync::Arc<Object>| object.to_value().expect("an object"))
}

/// Waits until the member has the round's objects and the template has the member's status.
async fn converged(fleet: &Fleet, member: &Client, round: u64, about: &str) {
    let (plane, text) = (fleet.plane.client(), round.to_string());
    until(&format!("the member has round {round} ({about})"), async || {
        let map = tree(member, &config_maps(), "c").await;
        let (there, here) = (tree(member, &deployments(), "web").await, tree(plane, &deployments(), "web").await);
        let replicas = json!(1 + round % 3);
        let is_there = map["data"]["round"] == text.as_str() && there["spec"]["replicas"] == replicas;
        (is_there && here["status"]["readyReplicas"] == replicas).then_some(())
    })
    .await;
}

/// Panics of reconciles, from the metrics.
async fn panics(plane: &Client) -> f64 {
    let text = plane.document("/metrics", "text/plain").await.expect("metrics");
    let text = String::from_utf8(text.to_vec()).expect("text");
    let panics = text.lines().filter(|line| line.contains("panics_total") && !line.starts_with('#'));
    panics.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_deletes_nothing_and_passes() {
    let fleet = Fleet::start_with(&[], |options| {
        options.server.admission.allow_http_endpoints = true;
        options.settings.allow_http_endpoints = true;
    })
    .await;
    let plane = fleet.plane.client();
    let member = fleet.member("m9").await;
    let front = Front::start(member.client().clone()).await;
    let joining = Member {
        client: member.client().clone(),
        endpoint: front.url.clone(),
        insecure_skip_tls_verify: false,
        authority: None,
        proxy_url: None,
    };
    join(plane, &joining, "m9", &JoinOptions::default()).await.expect("the member joins");
    objects(plane).await;
    converged(&fleet, member.client(), 0, "without nonsense").await;
    let uids = async || {
        let (map, deployment) =
            (tree(member.client(), &config_maps(), "c").await, tree(member.client(), &deployments(), "web").await);
        (map["metadata"]["uid"].clone(), deployment["metadata"]["uid"].clone())
    };
    let before = uids().await;
    let first = number("NONSENSE_SEED").unwrap_or(0);
    let mut changed = 0;
    for round in first + 1..=first + number("NONSENSE").unwrap_or(6) {
        let one_in = [1, 2, 5][usize::try_from(round % 3).expect("small")];
        front.begin(Plan { after: 0, most: usize::MAX, one_in, watches: false, random: StdRng::seed_from_u64(round) });
        change(plane, round).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let done = front.begin(Plan::none());
        changed += done.changes.len();
        let about = format!("NONSENSE_SEED={}, {:#?}", round - 1, done.changes);
        converged(&fleet, member.client(), round, &about).await;
        assert_eq!(uids().await, before, "objects were replaced: {about}");
        let deletions: Vec<&String> = done.requests.iter().filter(|line| line.starts_with("DELETE")).collect();
        assert!(deletions.is_empty(), "{deletions:?}: {about}");
        assert_eq!(panics(plane).await, 0.0, "a reconcile panicked: {about}");
    }
    assert!(changed > 0, "no answer was changed");
}
