//! Starts the checks of other servers, and reconciles local APIServices.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use apimachinery::ObjectKey;
use apiserver::Shared;
use apiserver::bootstrap::objects as bootstrap_objects;
use client::{Client, DeleteOptions, Patch, PatchOptions, Preconditions};
use futures::future::join_all;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::automanaged::{Action, plan};
use crate::availability::Verdict;
use crate::check::{api_services, write_condition};
use crate::registered::{ApiService, Remote};
use crate::{Aggregation, Listing, Routed};

/// Until changes that failed are tried again.
const RETRY: Duration = Duration::from_secs(5);

/// The checks that run.
#[derive(Default)]
struct Checks(BTreeMap<String, (Arc<Remote>, CancellationToken)>);

impl Aggregation {
    /// Connects the aggregator to the server that it belongs to, and writes its local APIServices. `client` has all
    /// rights there.
    pub async fn begin(&self, server: &Arc<Shared>, client: &Client) {
        let _ = self.server.set(Arc::downgrade(server));
        self.counted.register(&server.metrics);
        let names: BTreeSet<String> = {
            let mut stored = self.stored.lock();
            self.publish(&mut stored);
            stored.services.keys().cloned().collect()
        };
        *self.at_start.lock() = Some(names);
        self.manage(server, client).await;
    }

    /// Runs until `stop`, after [`Self::begin`].
    pub async fn run(self: Arc<Self>, server: Arc<Shared>, client: Client, stop: CancellationToken) {
        let mut checks = Checks::default();
        loop {
            let (seen, generation) = (self.changes.get(), server.registry.snapshot().generation);
            self.adjust(&mut checks, &server, &client, &stop);
            let is_done = self.manage(&server, &client).await;
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = self.changes.wait_for(|now| *now > seen) => {}
                _ = server.registry.newer_than(generation) => {}
                () = tokio::time::sleep(RETRY), if !is_done => {}
            }
        }
    }

    /// Reconciles local APIServices. Returns whether all writes succeeded.
    async fn manage(&self, server: &Shared, client: &Client) -> bool {
        let mut desired = bootstrap_objects::api_services(server.registry.snapshot().iter());
        let routed = self.routed.load_full();
        desired.extend(routed.iter().filter_map(local));
        let mut services = self.stored.lock().services.clone();
        let undecided = |it: &&Routed| matches!(it.listing, Listing::Unknown);
        routed.iter().filter(undecided).for_each(|it| drop(services.remove(&name(it))));
        let actions = plan(&desired, &services, self.at_start.lock().as_ref());
        let done = join_all(actions.into_iter().map(|action| execute(client, action))).await;
        self.report_local(server, client, &services).await;
        let is_done = done.into_iter().all(|done| done);
        if is_done {
            *self.at_start.lock() = None;
        }
        is_done
    }

    /// Starts and ends checks.
    fn adjust(self: &Arc<Self>, checks: &mut Checks, server: &Arc<Shared>, client: &Client, stop: &CancellationToken) {
        let table = self.table.load_full();
        let to_check: BTreeMap<&str, &Arc<Remote>> =
            table.iter().map(|it| (it.remote.name.as_str(), &it.remote)).collect();
        checks.0.retain(|name, (remote, stop)| {
            let is_checked = to_check.get(name.as_str()) == Some(&&*remote);
            if !is_checked {
                stop.cancel();
                self.counted.forget(name);
            }
            is_checked
        });
        for (name, remote) in to_check {
            if checks.0.contains_key(name) {
                continue;
            }
            let stop = stop.child_token();
            checks.0.insert(name.to_owned(), (Arc::clone(remote), stop.clone()));
            let (server, client, remote) = (Arc::clone(server), client.clone(), Arc::clone(remote));
            tokio::spawn(Arc::clone(self).follow(server, client, remote, stop));
        }
    }

    /// The condition of APIServices whose group version this server serves although they name a service.
    async fn report_local(&self, server: &Shared, client: &Client, services: &BTreeMap<String, ApiService>) {
        let verdict = Verdict::built_in();
        for service in services.values() {
            let is_here = service.spec.service.is_some() && self.is_own(&service.spec.group, &service.spec.version);
            if is_here && !verdict.is_in(service.available.as_ref()) {
                let previous = service.available.as_ref();
                write_condition(server, client, (&service.name, &service.uid), &verdict, previous).await;
            }
        }
    }
}

fn name(routed: &Routed) -> String {
    format!("{}.{}", routed.version, routed.group)
}

/// The local APIService of a group version that a route serves, with its name; `None` if it is not listed.
fn local(routed: &Routed) -> Option<(String, Value)> {
    let Routed { group, version, priority, .. } = routed;
    let managed = match routed.listing {
        Listing::Always(_) => "onstart",
        Listing::Now(_) => "true",
        Listing::Unknown => return None,
    };
    let name = name(routed);
    let object = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": name, "labels": {bootstrap_objects::AUTOMANAGED: managed}},
        "spec": {"group": group, "version": version, "groupPriorityMinimum": priority.group, "versionPriority": priority.version},
    });
    Some((name, object))
}

/// Whether it is done, or no longer needed. A failure is logged.
async fn execute(client: &Client, action: Action) -> bool {
    let resource = api_services();
    let (name, outcome) = match action {
        Action::Create(object) => {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            (name, client.create(&resource, &object).await.map(drop))
        }
        Action::Patch { name, patch } => {
            let (key, options) = (ObjectKey::cluster(name.as_str()), PatchOptions::default());
            let outcome = client.patch(&resource, &key, &Patch::Merge(patch), &options).await.map(drop);
            (name, outcome)
        }
        Action::Delete { name, uid } => {
            let preconditions = Preconditions { uid: Some(uid), ..Preconditions::default() };
            let options = DeleteOptions { preconditions: Some(preconditions), ..DeleteOptions::default() };
            let outcome = client.delete(&resource, &ObjectKey::cluster(name.as_str()), &options).await.map(drop);
            (name, outcome)
        }
    };
    match outcome {
        Err(error) if error.is_not_found() || error.is_conflict() || error.is_already_exists() => true,
        Err(error) => {
            tracing::warn!(object = name, err = %error, "Local APIService cannot be written; retrying");
            false
        }
        Ok(()) => true,
    }
}
