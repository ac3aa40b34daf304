//! The server's own service `default/kubernetes` stays: if a user deletes it or its endpoints, they are created again,
//! as by kube-apiserver every ten seconds. This server creates them at once, and neither reads nor writes otherwise.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::ObjectKey;
use apiserver::Admission;
use apiserver::bootstrap::objects::Front;
use apiserver::cache::{Event, keys};
use client::Client;
use storage::Store;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{bootstrap, peers};

/// Between attempts. The first one may still read an object whose deletion was observed.
const RETRY: Duration = Duration::from_secs(1);

/// The deleted objects of a server.
pub struct Deletions {
    front: Front,
    /// The resources of the objects.
    places: Vec<String>,
    /// A bit for each place.
    missing: watch::Sender<u8>,
}

impl Deletions {
    pub fn new(front: Front) -> Self {
        let places = bootstrap::front(front, &[]).map(|(it, _)| keys::group_resource(&it.group, &it.plural)).collect();
        Self { front, places, missing: watch::Sender::new(0) }
    }

    /// Starts the task that creates deleted objects again, until the token is cancelled.
    pub fn start(self: Arc<Self>, client: Client, store: Arc<dyn Store>) -> (CancellationToken, JoinHandle<()>) {
        let stop = CancellationToken::new();
        (stop.clone(), tokio::spawn(self.undo(client, store, stop)))
    }

    async fn undo(self: Arc<Self>, client: Client, store: Arc<dyn Store>, stop: CancellationToken) {
        let mut missing = self.missing.subscribe();
        let undoing = async {
            while missing.wait_for(|missing| *missing != 0).await.is_ok() {
                if let Err(error) = self.restore(&client, &*store).await {
                    let err = format!("{error:#}");
                    tracing::warn!(
                        err,
                        "Service default/kubernetes or its endpoints cannot be created again; retrying"
                    );
                }
                tokio::time::sleep(RETRY).await;
            }
        };
        stop.run_until_cancelled(undoing).await;
    }

    async fn restore(&self, client: &Client, store: &dyn Store) -> anyhow::Result<()> {
        let servers = peers::registered(store).await?;
        bootstrap::ensure_front(client, self.front, &servers).await
    }
}

impl Admission for Deletions {
    fn concerns(&self, _: &str, _: &str) -> bool {
        false
    }

    fn observe(&self, place: &str, event: &Event) {
        let Some(bit) = self.places.iter().position(|known| known == place).map(|at| 1 << at) else { return };
        let Some(object) = event.current.as_ref().or(event.previous.as_ref()) else { return };
        if object.key() == ObjectKey::namespaced("default", "kubernetes") {
            self.missing.send_modify(|missing| match event.current {
                Some(_) => *missing &= !bit,
                None => *missing |= bit,
            });
        }
    }
}
