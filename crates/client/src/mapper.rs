//! Maps kinds to resources by discovery, which is refreshed when a kind is not found.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiResource, GroupVersionKind, GroupVersionResource};
use futures::future::BoxFuture;
use parking_lot::RwLock;
use tokio::time::Instant;

use crate::{Client, Discovery, Error, Result};

/// Why a kind has no resource.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// Discovery was just refreshed, and the server does not serve the kind.
    #[error("no matches for kind {:?} in version {:?}", .0.kind, .0.api_version())]
    NoMatch(GroupVersionKind),
    /// Discovery failed: whether the kind is served is unknown.
    #[error("cannot find the resource of {gvk}: {source}")]
    Discovery {
        /// The kind.
        gvk: GroupVersionKind,
        /// The error of discovery.
        source: Error,
    },
}

/// Maps kinds to resources. Discovery is read once, and again when a kind is not found.
#[derive(Clone)]
pub struct Mapper(Arc<MapperState>);

struct MapperState {
    client: Client,
    known: RwLock<Arc<Discovery>>,
    /// When discovery was last read; the lock makes concurrent misses share one refresh.
    refreshed: tokio::sync::Mutex<Option<Instant>>,
}

/// The least time between refreshes: an absent kind must not cause a discovery per lookup, and a new kind must appear
/// soon.
const MIN_REFRESH: Duration = Duration::from_millis(500);

impl Mapper {
    /// A mapper that reads discovery with `client`.
    pub fn new(client: Client) -> Self {
        Self(Arc::new(MapperState { client, known: RwLock::default(), refreshed: tokio::sync::Mutex::new(None) }))
    }

    /// The most recent discovery; empty before the first.
    pub fn known(&self) -> Arc<Discovery> {
        self.0.known.read().clone()
    }

    /// Refreshes discovery now.
    ///
    /// # Errors
    /// As [`Client::discovery`]; the previous discovery stays in effect.
    pub fn refresh<'a>(&'a self) -> BoxFuture<'a, Result<Arc<Discovery>>> {
        Box::pin(async move {
            let mut refreshed = self.0.refreshed.lock().await;
            self.read(&mut refreshed).await
        })
    }

    async fn read(&self, refreshed: &mut Option<Instant>) -> Result<Arc<Discovery>> {
        let mut fresh = self.0.client.discovery().await?;
        *refreshed = Some(Instant::now());
        let mut known = self.0.known.write();
        let failed = &fresh.failed;
        let kept: Vec<_> =
            known.resources.iter().filter(|r| failed.contains(&r.resource.group_version())).cloned().collect();
        fresh.resources.extend(kept);
        *known = Arc::new(fresh);
        Ok(known.clone())
    }

    /// The resource of a kind by the most recent discovery, without a request.
    pub fn cached(&self, gvk: &GroupVersionKind) -> Option<ApiResource> {
        self.0.known.read().by_kind(gvk).map(|r| r.resource.clone())
    }

    /// The resource of this name; discovery is refreshed when it is not found, at most every half second.
    ///
    /// # Errors
    /// Discovery could not be read.
    pub fn by_resource<'a>(&'a self, gvr: &'a GroupVersionResource) -> BoxFuture<'a, Result<Option<ApiResource>>> {
        Box::pin(async move {
            let known = || self.0.known.read().by_resource(gvr).map(|found| found.resource.clone());
            if let Some(resource) = known() {
                return Ok(Some(resource));
            }
            let mut refreshed = self.0.refreshed.lock().await;
            if known().is_none() && refreshed.is_none_or(|at| at.elapsed() >= MIN_REFRESH) {
                self.read(&mut refreshed).await?;
            }
            Ok(known())
        })
    }

    /// # Errors
    /// [`MapError::NoMatch`] only when a discovery that is at most half a second old does not have the kind;
    /// [`MapError::Discovery`] when discovery could not be read.
    pub fn resource<'a>(
        &'a self,
        gvk: &'a GroupVersionKind,
    ) -> BoxFuture<'a, std::result::Result<ApiResource, MapError>> {
        Box::pin(async move {
            if let Some(resource) = self.cached(gvk) {
                return Ok(resource);
            }
            let mut refreshed = self.0.refreshed.lock().await;
            if let Some(resource) = self.cached(gvk) {
                return Ok(resource);
            }
            if refreshed.is_none_or(|at| at.elapsed() >= MIN_REFRESH) {
                self.read(&mut refreshed).await.map_err(|source| MapError::Discovery { gvk: gvk.clone(), source })?;
            }
            self.cached(gvk).ok_or_else(|| MapError::NoMatch(gvk.clone()))
        })
    }
}
