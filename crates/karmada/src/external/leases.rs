//! Writes of Leases on an etcd that other servers use: refused while servers that keep Leases elsewhere may run, so that no
//! two processes of a component are elected.

use apimachinery::{Status, StatusReason};
use apiserver::{Admission, AdmissionRequest};
use client::Fence;
use futures::future::BoxFuture;

/// Open while this server has its place among the servers on the etcd.
pub struct LeasesHere(pub Fence);

impl Admission for LeasesHere {
    fn concerns(&self, group: &str, plural: &str) -> bool {
        (group, plural) == ("coordination.k8s.io", "leases")
    }

    fn validate<'a>(&'a self, _: &'a AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        let refused = || {
            let message = "this server writes no Leases, because other servers on its etcd may keep them elsewhere \
                (--etcd-servers-overrides): it was stopped for a while, or cannot reach etcd";
            Status::failure(StatusReason::ServiceUnavailable, message)
        };
        let checked = if self.0.is_open() { Ok(()) } else { Err(refused()) };
        Box::pin(std::future::ready(checked))
    }
}
