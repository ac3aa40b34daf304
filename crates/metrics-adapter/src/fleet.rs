//! The members, as the route needs them.

use apimachinery::Status;
use fleet_metrics::resource::ResourceRequest;
use readings::Connect;

/// A cluster of the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// Why it is not read; `None` if it is.
    pub excluded: Option<String>,
}

impl Target {
    /// A cluster that is read.
    pub fn ready(name: &str) -> Self {
        Self { name: name.to_owned(), excluded: None }
    }
}

/// The clusters and their members.
pub trait Fleet: Connect + 'static {
    /// All clusters, by name.
    ///
    /// # Errors
    /// They are not known yet.
    fn clusters(&self) -> Result<Vec<Target>, Status>;

    /// Whether a member may have an object of the request; `true` if unknown. Callers skip members without any, as
    /// upstream does.
    fn may_have(&self, cluster: &str, requested: &ResourceRequest) -> bool;

    /// Whether a member may serve an API group; `true` if it is not known.
    fn may_serve(&self, _cluster: &str, _group: &str) -> bool {
        true
    }
}
