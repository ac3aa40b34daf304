//! `clusters/NAME/tunnel`: an agent opens the tunnel of its member with an upgraded request.

use apimachinery::{Status, StatusReason};
use apiserver::Shared;
use apiserver::cache::Event;
use apiserver::{Admission, RequestInfo, method_not_allowed};
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, StatusCode};
use hyper::upgrade::OnUpgrade;
use karmada_api::agents;
use karmada_api::cluster::v1alpha1::SyncMode;
use transport::{Identity, Request, Response};
use tunnel::{PROTOCOL, Tunnels};

use super::{ClusterProxy, GROUP, decoded};

/// The reason to forbid a request that RBAC allows: an agent may open the tunnel of its own cluster only.
fn refusal_of_user(user: &str, cluster: &str) -> Option<String> {
    let own = agents::cluster_of(user).filter(|own| *own != cluster)?;
    Some(format!("the agent of cluster {own} may open the tunnel of its own cluster only"))
}

impl ClusterProxy {
    pub(super) async fn open_tunnel(
        &self,
        server: &Shared,
        info: &RequestInfo,
        user: &Identity,
        mut request: Request,
    ) -> Result<Response, Status> {
        let name = info.name.as_str();
        if info.verb != "create" || !info.subpath.is_empty() {
            return Err(method_not_allowed());
        }
        if let Some(why) = refusal_of_user(&user.user, name) {
            return Err(Status::forbidden(GROUP, "clusters", name, &why));
        }
        let known = self.clusters(server).await?.get(name)?;
        let cluster = known.ok_or_else(|| Status::not_found(GROUP, "clusters", name))?;
        let cluster = decoded(&cluster)?;
        if cluster.spec.sync_mode != SyncMode::Pull {
            let why = "it is registered in Push mode, the control plane connects to it without a tunnel";
            return Err(Status::conflict(GROUP, "clusters", name, why));
        }
        if request.headers().get(UPGRADE).is_none_or(|protocol| protocol != PROTOCOL) {
            return Err(Status::bad_request(format!("a tunnel is opened with the header Upgrade: {PROTOCOL}")));
        }
        let Some(upgrade) = request.extensions_mut().remove::<OnUpgrade>() else {
            return Err(Status::bad_request("this connection cannot be upgraded"));
        };
        let place = self.tunnels.place(name).ok_or_else(|| {
            let why = format!("cluster {name} has too many agent tunnels, try again later");
            Status::failure(StatusReason::TooManyRequests, why)
        })?;
        let ending = server.ending();
        let cluster = name.to_owned();
        tokio::spawn(async move {
            match upgrade.await {
                Ok(io) => place.hold(io, ending).await,
                Err(error) => tracing::debug!(%cluster, err = %error, "Tunnel cannot be upgraded"),
            }
        });
        let mut response = Response::new(transport::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        response.headers_mut().insert(UPGRADE, HeaderValue::from_static(PROTOCOL));
        Ok(response)
    }
}

/// Closes the tunnels of deleted Clusters.
pub struct EndsTunnels(pub Tunnels);

impl Admission for EndsTunnels {
    fn concerns(&self, _: &str, _: &str) -> bool {
        false
    }

    fn observe(&self, place: &str, event: &Event) {
        if let ("cluster.karmada.io/clusters", None, Some(previous)) = (place, &event.current, &event.previous) {
            self.0.forget(previous.name());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_open_their_own_tunnel() {
        for (user, allowed) in [
            ("system:karmada:agent:m1", true),
            ("system:karmada:agent:m2", false),
            ("system:karmada:agent:m1x", false),
            ("kubernetes-admin", true),
        ] {
            assert_eq!(refusal_of_user(user, "m1").is_none(), allowed, "{user}");
        }
    }
}
