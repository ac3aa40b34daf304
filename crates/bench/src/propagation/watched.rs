//! When objects were first seen where they should come to be.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use apimachinery::{ApiResource, Object};
use client::Client;
use controller_runtime::{Event, Informer, InformerSet};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use world::World;

use super::documents::{NAMESPACE, deployments};
use crate::fleet::Fleet;

/// Longest wait for one phase. Upstream needs 450 s for the bulk load on two cores.
const PATIENCE: Duration = Duration::from_secs(1200);

/// Members and bindings, followed.
pub(super) struct Watched {
    members: Vec<(String, Arc<Seen>, Informer)>,
    bindings: Arc<Seen>,
    _bindings: Informer,
}

#[derive(Default)]
struct Seen {
    at: Mutex<HashMap<String, Instant>>,
    changed: Notify,
}

impl Watched {
    pub async fn start(fleet: &Fleet) -> Self {
        let follow = |client: &Client, resource: ApiResource, counts: fn(&Object) -> Option<String>| {
            let informer = InformerSet::new(client.clone(), World::system()).informer(&resource);
            let seen = Arc::new(Seen::default());
            let told = seen.clone();
            informer.subscribe(move |event| told.note(event, counts));
            (seen, informer)
        };
        let members = fleet.members.iter().map(|member| {
            let (seen, informer) = follow(&member.client, deployments(), |object| Some(object.name().to_owned()));
            (member.name.clone(), seen, informer)
        });
        let bindings = ApiResource::namespaced("work.karmada.io", "v1alpha2", "ResourceBinding", "resourcebindings");
        let (seen, informer) = follow(&fleet.control, bindings, fully_applied);
        let watched = Self { members: members.collect(), bindings: seen, _bindings: informer };
        for (_, _, informer) in &watched.members {
            informer.synced().await;
        }
        watched
    }

    /// When each of these was there in the last of the members.
    pub async fn present(&self, names: &[String]) -> anyhow::Result<HashMap<String, Instant>> {
        let mut last: HashMap<String, Instant> = HashMap::new();
        for (member, seen, _) in &self.members {
            for (name, at) in seen.all(names).await.with_context(|| format!("waiting for member {member}"))? {
                let latest = last.entry(name).or_insert(at);
                *latest = at.max(*latest);
            }
        }
        Ok(last)
    }

    pub async fn applied(&self, names: &[String]) -> anyhow::Result<HashMap<String, Instant>> {
        self.bindings.all(names).await.context("waiting for the bindings")
    }

    pub async fn gone(&self) -> anyhow::Result<()> {
        for (member, seen, informer) in &self.members {
            seen.until(|| informer.cache().list(Some(NAMESPACE)).is_empty())
                .await
                .with_context(|| format!("waiting for member {member} to be empty"))?;
        }
        Ok(())
    }
}

impl Seen {
    fn note(&self, event: &Event, counts: fn(&Object) -> Option<String>) {
        let object = event.object();
        let is_ours = object.namespace() == Some(NAMESPACE);
        if is_ours
            && !matches!(event, Event::Deleted(_))
            && let Some(name) = counts(object)
        {
            self.at.lock().entry(name).or_insert_with(Instant::now);
        }
        self.changed.notify_one();
    }

    async fn all(&self, names: &[String]) -> anyhow::Result<HashMap<String, Instant>> {
        self.until(|| {
            let at = self.at.lock();
            at.len() >= names.len() && names.iter().all(|name| at.contains_key(name))
        })
        .await?;
        let at = self.at.lock();
        Ok(names.iter().filter_map(|name| Some((name.clone(), *at.get(name)?))).collect())
    }

    async fn until(&self, done: impl Fn() -> bool) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !done() {
            if tokio::time::timeout_at(deadline, self.changed.notified()).await.is_err() {
                bail!("not all after {} s; {} were seen", PATIENCE.as_secs(), self.at.lock().len());
            }
        }
        Ok(())
    }
}

/// The template's name, once its binding says that every member has it.
fn fully_applied(binding: &Object) -> Option<String> {
    let tree = binding.to_value().ok()?;
    let conditions = tree["status"]["conditions"].as_array()?;
    let applied =
        conditions.iter().any(|condition| condition["type"] == "FullyApplied" && condition["status"] == "True");
    applied.then(|| tree["spec"]["resource"]["name"].as_str().unwrap_or_default().to_owned())
}
