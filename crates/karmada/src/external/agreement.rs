//! Where the servers on one etcd keep resources apart (`--etcd-servers-overrides`), as the servers record it for each
//! other.
//!
//! Components are elected with Leases. Servers that keep Leases in different places would let two processes be elected,
//! so a server does not start beside others that keep them elsewhere. Without other servers, the record is replaced.
//!
//! A place is known by a name that is stored there: servers reach it at different URLs, and etcd's identifiers of
//! clusters follow from their URLs, so that two clusters may have the same one.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail};
use etcd::EtcdStore;
use serde::{Deserialize, Serialize};
use storage::{Guard, Op, Store, Txn, TxnOutcome};
use world::World;

use super::Override;

/// Outside the keys of objects.
const KEY: &str = "/karmada-rs/overrides";
/// The name of an etcd.
const NAME: &str = "/karmada-rs/name";
const LEASES: &str = "coordination.k8s.io/leases";

/// The name of the etcd of each resource that is not in the main one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agreement(BTreeMap<String, String>);

impl Agreement {
    /// Of a server with this main store, these overrides and their stores.
    ///
    /// # Errors
    /// A store cannot be read, or named.
    pub async fn of(
        main: &EtcdStore,
        overrides: &[Override],
        stores: &[EtcdStore],
        world: &World,
    ) -> anyhow::Result<Self> {
        let mut places = BTreeMap::new();
        if overrides.is_empty() {
            return Ok(Self(places));
        }
        let main = name(main, world).await?;
        for (Override { resources, .. }, store) in overrides.iter().zip(stores) {
            let name = name(store, world).await?;
            // Another URL of the main etcd is no other place.
            if name != main {
                places.extend(resources.iter().map(|(group, plural)| (format!("{group}/{plural}"), name.clone())));
            }
        }
        Ok(Self(places))
    }

    /// Records the places of a server that starts. Another one is `alive` or not.
    ///
    /// # Errors
    /// The other servers keep Leases elsewhere, or the store cannot be read or written.
    pub async fn join(&self, store: &dyn Store, alive: bool) -> anyhow::Result<()> {
        let recorded = Self::recorded(store).await?;
        let differences = recorded.as_ref().map_or_else(Vec::new, |recorded| self.differences(recorded));
        if alive && !differences.is_empty() {
            if let Some(leases) = differences.iter().find(|it| it.contains(LEASES)) {
                bail!(
                    "another server on this etcd has other --etcd-servers-overrides: {leases}. Two processes of a component \
                     could be elected. Give this server the overrides of the others, or stop all servers and components first"
                );
            }
            tracing::warn!(?differences, "Another server on this etcd has other --etcd-servers-overrides");
        }
        if recorded.as_ref() == Some(self) {
            return Ok(());
        }
        let value = serde_json::to_vec(self).context("encoding the overrides")?.into();
        let ops = vec![Op::Put { key: KEY.into(), value, lease: None }];
        store.txn(Txn { guards: Vec::new(), ops }).await.map(drop).context("recording --etcd-servers-overrides")
    }

    /// Whether Leases are still where this server keeps them. They are not if this process was stopped while others started.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn agrees(&self, store: &dyn Store) -> anyhow::Result<bool> {
        let recorded = Self::recorded(store).await?.unwrap_or_default();
        let elsewhere = self.differences(&recorded).into_iter().find(|it| it.contains(LEASES));
        if let Some(leases) = &elsewhere {
            tracing::error!(
                %leases,
                "Servers on this etcd have other --etcd-servers-overrides; this one writes no Leases. Restart it with theirs"
            );
        }
        Ok(elsewhere.is_none())
    }

    async fn recorded(store: &dyn Store) -> anyhow::Result<Option<Self>> {
        let found = store.get(KEY.into(), None).await.context("reading the overrides of other servers")?;
        // A record that is not understood is one of a newer version, and is replaced.
        Ok(found.map(|kv| serde_json::from_slice(&kv.value).unwrap_or_default()))
    }

    /// What is elsewhere, in words.
    fn differences(&self, recorded: &Self) -> Vec<String> {
        let place = |of: &Self, resource: &str| {
            of.0.get(resource).map_or_else(|| "the main etcd".to_owned(), |id| format!("the etcd {id}"))
        };
        let all: BTreeSet<&String> = self.0.keys().chain(recorded.0.keys()).collect();
        let differ = all.into_iter().filter(|resource| self.0.get(*resource) != recorded.0.get(*resource));
        let shown = |resource: &String| {
            format!("{resource} are in {} here, and in {} there", place(self, resource), place(recorded, resource))
        };
        differ.map(shown).collect()
    }
}

/// The name of an etcd, which the first server gives it.
async fn name(store: &dyn Store, world: &World) -> anyhow::Result<String> {
    let failed = "reading the name of an etcd";
    if let Some(found) = store.get(NAME.into(), None).await.context(failed)? {
        return Ok(String::from_utf8_lossy(&found.value).into_owned());
    }
    let identifier = world.uuid();
    let ops = vec![Op::Put { key: NAME.into(), value: identifier.clone().into(), lease: None }];
    match store.txn(Txn { guards: vec![Guard::Absent(NAME.into())], ops }).await.context("naming an etcd")? {
        TxnOutcome::Committed { .. } => Ok(identifier),
        TxnOutcome::Failed { current, .. } => {
            let found = current.into_iter().flatten().next().context(failed)?;
            Ok(String::from_utf8_lossy(&found.value).into_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use storage::memory::MemoryStore;

    use super::*;

    fn agreement(places: &[(&str, &str)]) -> Agreement {
        Agreement(places.iter().map(|(resource, id)| ((*resource).to_owned(), (*id).to_owned())).collect())
    }

    #[tokio::test]
    async fn an_etcd_keeps_its_name() {
        let (store, world) = (MemoryStore::new(), World::system());
        let first = name(&store, &world).await.expect("a name");
        assert_eq!(name(&store, &world).await.expect("a name"), first);
        assert_ne!(name(&MemoryStore::new(), &world).await.expect("a name"), first);
    }

    #[tokio::test]
    async fn leases_in_two_places_are_refused_while_another_server_is_alive() {
        let store = MemoryStore::new();
        let (main, apart) = (agreement(&[]), agreement(&[(LEASES, "a"), ("/events", "a")]));
        let refusal = async |it: &Agreement, alive| it.join(&store, alive).await.err().map(|error| error.to_string());
        assert_eq!(refusal(&apart, true).await, None, "servers of earlier versions record nothing");
        assert_eq!(refusal(&apart, true).await, None);
        let refused = refusal(&main, true).await.expect("Leases are elsewhere");
        assert!(refused.contains("leases are in the main etcd here, and in the etcd a there"), "{refused}");
        let moved = agreement(&[(LEASES, "b"), ("/events", "a")]);
        assert!(refusal(&moved, true).await.is_some());
        assert_eq!(refusal(&apart, true).await, None, "a refused server records nothing");
        // Events may be elsewhere for a while.
        assert_eq!(refusal(&agreement(&[(LEASES, "a")]), true).await, None);
        assert_eq!(refusal(&main, false).await, None, "the others have ended");
        assert!(refusal(&apart, true).await.is_some());
    }
}
