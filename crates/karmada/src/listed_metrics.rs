//! Custom and external metrics in discovery: they are listed while a member offers any.
//!
//! Members are read when their API enablements change, and every minute while one serves a group, because its metrics
//! may have changed. A member that does not respond removes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use aggregation::{Listing, Routed};
use apiserver::documents::discovery::{ExternalVersion, Priority};
use fleet_api::measured::Measured;
use fleet_metrics::discovery::Listed;
use fleet_metrics::groups::{CUSTOM, EXTERNAL, GroupVersion};
use metrics_adapter::{MetricsApi, Names, group_versions, with_metrics};
use tokio_util::sync::CancellationToken;
use world::World;

/// Until members that serve a group are read again, as kube-aggregator does with other servers.
const REREAD: Duration = Duration::from_secs(60);
/// Until the clusters are read again, when they are not known yet.
const RETRY: Duration = Duration::from_secs(5);

/// The metrics that members offer; `None` while unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offered {
    custom: Option<Names>,
    external: Option<Names>,
}

/// The group versions with their documents, without metrics.
pub struct Versions(Vec<(GroupVersion, Priority, ExternalVersion)>);

impl Default for Versions {
    fn default() -> Self {
        Self(group_versions())
    }
}

impl Versions {
    /// The groups that this server lists.
    pub fn routed(&self, offered: &Offered) -> Vec<Routed> {
        let routed = |(version, priority, documents): &(GroupVersion, Priority, ExternalVersion)| {
            let listing = match offered.of(version.group) {
                None => Listing::Always(documents.clone()),
                Some(None) => Listing::Unknown,
                Some(Some(names)) if !names.listed.is_empty() => {
                    Listing::Now(with_metrics(*version, documents, &names.listed))
                }
                Some(Some(names)) if names.is_complete => return None,
                Some(Some(_)) => Listing::Unknown,
            };
            let (group, version) = (version.group.to_owned(), version.version.to_owned());
            Some(Routed { group, version, priority: *priority, listing })
        };
        self.0.iter().filter_map(routed).collect()
    }
}

impl Offered {
    /// The metrics by group.
    pub fn by_group(&self) -> BTreeMap<&'static str, BTreeSet<Listed>> {
        let listed = |names: &Option<Names>| names.as_ref().map(|names| names.listed.clone()).unwrap_or_default();
        BTreeMap::from([(CUSTOM, listed(&self.custom)), (EXTERNAL, listed(&self.external))])
    }

    /// `None` for a group that does not depend on members.
    fn of(&self, group: &str) -> Option<Option<&Names>> {
        match group {
            CUSTOM => Some(self.custom.as_ref()),
            EXTERNAL => Some(self.external.as_ref()),
            _ => None,
        }
    }
}

/// Calls `publish` with the members' metrics, first and after every change, until `stop`.
pub async fn follow(
    api: Arc<MetricsApi>,
    measured: Arc<Measured>,
    world: World,
    stop: CancellationToken,
    publish: impl Fn(&Offered),
) {
    let mut last = None;
    loop {
        let seen = measured.changes().get();
        let now = world.now().as_second();
        let (custom, external) = futures::join!(api.listed(CUSTOM, now), api.listed(EXTERNAL, now));
        let offered = Offered { custom: custom.ok(), external: external.ok() };
        let again = match &offered {
            Offered { custom: Some(_), external: Some(_) } => {
                measured.any_serves(&[CUSTOM, EXTERNAL]).then_some(REREAD)
            }
            _ => Some(RETRY),
        };
        if last.as_ref() != Some(&offered) {
            publish(&offered);
            last = Some(offered);
        }
        let pause = async {
            match again {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            _ = measured.changes().wait_for(|now| *now != seen) => {}
            () = pause => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(listed: &[&str], is_complete: bool) -> Option<Names> {
        Some(Names { listed: listed.iter().map(|it| ((*it).to_owned(), true)).collect(), is_complete })
    }

    #[test]
    fn groups_are_listed_on_evidence() {
        let versions = Versions::default();
        let shown = |custom: Option<Names>, external: Option<Names>| {
            let routed = versions.routed(&Offered { custom, external });
            let show = |it: &Routed| {
                let listing = match &it.listing {
                    Listing::Always(_) => "always".to_owned(),
                    Listing::Now(documents) => documents.resources[0]["resource"].to_string(),
                    Listing::Unknown => "unknown".to_owned(),
                };
                format!("{}/{} {listing}", it.group, it.version)
            };
            routed.iter().map(show).collect::<Vec<_>>().join(", ")
        };
        let resource = "metrics.k8s.io/v1beta1 always";
        assert_eq!(shown(names(&[], true), names(&[], true)), resource);
        assert_eq!(
            shown(names(&["pods/hits"], false), names(&["jobs"], true)),
            format!(
                "{resource}, custom.metrics.k8s.io/v1beta1 \"pods\", custom.metrics.k8s.io/v1beta2 \"pods\", \
                 external.metrics.k8s.io/v1beta1 \"jobs\""
            )
        );
        let unknown = "custom.metrics.k8s.io/v1beta1 unknown, custom.metrics.k8s.io/v1beta2 unknown";
        assert_eq!(shown(None, names(&[], true)), format!("{resource}, {unknown}"));
        assert_eq!(shown(names(&[], false), names(&[], true)), format!("{resource}, {unknown}"));
    }
}
