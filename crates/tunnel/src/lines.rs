//! The connected tunnels of all clusters, in the order of arrival.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::client::conn::http2::SendRequest;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::connection::STREAMS;
use crate::decide::{self, TunnelCapacity};

/// The maximum number of tunnels per cluster; one more replaces the oldest. A cluster has one or two agents, and an
/// agent that loses its connection silently leaves a dead tunnel for half a minute.
const TUNNELS: usize = 4;
/// Those, and the ones that are being opened or replaced.
const PLACES: usize = 2 * TUNNELS;

pub(crate) type Sender = SendRequest<Empty<Bytes>>;

/// One connected tunnel.
#[derive(Clone)]
pub(crate) struct Tunnel {
    pub id: u64,
    pub sender: Sender,
    pub free: Arc<Semaphore>,
    end: CancellationToken,
}

/// The tunnels of one cluster.
struct Line {
    /// In the order of arrival.
    tunnels: Vec<Tunnel>,
    /// When the last one ended, if none is connected.
    lost: Option<Instant>,
    places: Arc<Semaphore>,
    end: CancellationToken,
}

impl Default for Line {
    fn default() -> Self {
        let (places, end) = (Arc::new(Semaphore::new(PLACES)), CancellationToken::new());
        Self { tunnels: Vec::new(), lost: None, places, end }
    }
}

#[derive(Default)]
pub(crate) struct Lines {
    lines: Mutex<HashMap<String, Line>>,
    last: std::sync::atomic::AtomicU64,
}

impl Lines {
    /// The permission to open one more tunnel, and its cancellation; `None` at the limit.
    pub fn place(&self, cluster: &str) -> Option<(OwnedSemaphorePermit, CancellationToken)> {
        let mut lines = self.lines.lock();
        let line = lines.entry(cluster.to_owned()).or_default();
        let place = Arc::clone(&line.places).try_acquire_owned().ok()?;
        Some((place, line.end.child_token()))
    }

    /// Adds the newest tunnel. `end` ends it, also when a newer one replaces it.
    pub fn connect(&self, cluster: &str, sender: Sender, end: CancellationToken) -> u64 {
        let id = self.last.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let free = Arc::new(Semaphore::new(STREAMS));
        let mut lines = self.lines.lock();
        let line = lines.entry(cluster.to_owned()).or_default();
        line.tunnels.push(Tunnel { id, sender, free, end });
        line.lost = None;
        if line.tunnels.len() > TUNNELS {
            line.tunnels.remove(0).end.cancel();
        }
        id
    }

    pub fn disconnect(&self, cluster: &str, id: u64) {
        let mut lines = self.lines.lock();
        let Some(line) = lines.get_mut(cluster) else { return };
        let before = line.tunnels.len();
        line.tunnels.retain(|tunnel| tunnel.id != id);
        if line.tunnels.is_empty() && before > 0 {
            line.lost = Some(Instant::now());
        }
    }

    /// Ends all tunnels of a removed cluster.
    pub fn forget(&self, cluster: &str) {
        if let Some(line) = self.lines.lock().remove(cluster) {
            line.end.cancel();
        }
    }

    /// The connected tunnels in the order of arrival.
    pub fn connected(&self, cluster: &str) -> Vec<Tunnel> {
        let lines = self.lines.lock();
        let tunnels = lines.get(cluster).map(|line| line.tunnels.as_slice()).unwrap_or_default();
        tunnels.iter().filter(|tunnel| !tunnel.sender.is_closed()).cloned().collect()
    }

    pub fn is_expected(&self, cluster: &str) -> bool {
        let lines = self.lines.lock();
        let Some(line) = lines.get(cluster) else { return false };
        decide::is_expected(line.tunnels.len(), line.lost.map(|lost| lost.elapsed()))
    }

    /// For each cluster with a tunnel: the number of tunnels and of their connections.
    pub fn counts(&self) -> Vec<(String, usize, usize)> {
        let lines = self.lines.lock();
        let count = |(cluster, line): (&String, &Line)| {
            let streams = line.tunnels.iter().map(|it| STREAMS - it.free.available_permits()).sum();
            (cluster.clone(), line.tunnels.len(), streams)
        };
        lines.iter().map(count).collect()
    }
}

impl Tunnel {
    pub fn capacity(&self) -> TunnelCapacity {
        TunnelCapacity { id: self.id, free: self.free.available_permits() }
    }
}
