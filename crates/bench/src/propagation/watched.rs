//! Records when objects were first observed in their targets.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Context as _;
use apimachinery::{ApiResource, Object};
use client::Client;
use controller_runtime::Informer;
use tokio::time::Instant;

use super::documents::{NAMESPACE, deployments};
use crate::fleet::Fleet;
use crate::seen::{Seen, informer};

/// Watches members and bindings.
pub(super) struct Watched {
    members: Vec<(String, Arc<Seen>, Informer)>,
    bindings: Arc<Seen>,
    _bindings: Informer,
}

impl Watched {
    pub async fn start(fleet: &Fleet) -> Self {
        let follow = |client: &Client, resource: ApiResource, counts: fn(&Object) -> Option<String>| {
            let informer = informer(client, &resource);
            (Seen::follow(&informer, move |object| in_namespace(object).and_then(counts)), informer)
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

    /// When each object existed in the last of the members.
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

fn in_namespace(object: &Object) -> Option<&Object> {
    (object.namespace() == Some(NAMESPACE)).then_some(object)
}

/// The template's name, once its binding reports all members.
fn fully_applied(binding: &Object) -> Option<String> {
    let tree = binding.to_value().ok()?;
    let conditions = tree["status"]["conditions"].as_array()?;
    let applied =
        conditions.iter().any(|condition| condition["type"] == "FullyApplied" && condition["status"] == "True");
    applied.then(|| tree["spec"]["resource"]["name"].as_str().unwrap_or_default().to_owned())
}
