//! `failover release CLUSTER...`.

use std::sync::Arc;

use apimachinery::meta::Time;
use client::{Client, Patch, PatchOptions};
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::annotations::EVICTIONS_RELEASED;
use propagation::failover::brake;
use serde_json::json;

use super::FailoverArgs;
use crate::Context;
use crate::error::Error;
use crate::placement::source::clusters;
use crate::resources;

pub async fn run(context: &Context, args: &FailoverArgs, named: &[&str]) -> Result<(), Error> {
    if args.all != named.is_empty() {
        return Err(Error::arguments("release needs the names of clusters, or --all"));
    }
    let control = context.control_plane().await?;
    let known = clusters(&control).await?;
    if let Some(unknown) = named.iter().find(|name| !known.iter().any(|it| it.metadata.name == **name)) {
        return Err(Error::message(format!("cluster {unknown} does not exist; nothing is released")));
    }
    for (cluster, since) in paused(&known, named) {
        let name = &cluster.metadata.name;
        match since {
            Some(since) => {
                release(&control, cluster, since, args.dry_run).await?;
                let suffix = if args.dry_run { " (server dry run)" } else { "" };
                context.print(&format!("cluster {name}: evictions are released{suffix}\n"));
            }
            None => context.log(&format!("cluster {name}: evictions are not paused\n")),
        }
    }
    Ok(())
}

/// The clusters that are named, or all that are paused; since when.
fn paused<'a>(known: &'a [Arc<Cluster>], named: &[&str]) -> Vec<(&'a Cluster, Option<Time>)> {
    let all = known.iter().map(|cluster| (&**cluster, brake::paused_since(cluster)));
    let meant = |(cluster, since): &(&Cluster, Option<Time>)| match named {
        [] => since.is_some(),
        named => named.contains(&cluster.metadata.name.as_str()),
    };
    all.filter(meant).collect()
}

/// Releases the pause that was read: a later one is another.
async fn release(control: &Client, cluster: &Cluster, since: Time, dry_run: bool) -> Result<(), Error> {
    let name = &cluster.metadata.name;
    let metadata = json!({"uid": cluster.metadata.uid, "annotations": {EVICTIONS_RELEASED: since}});
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    let key = apimachinery::ObjectKey::cluster(name.as_str());
    let options = PatchOptions { dry_run, ..PatchOptions::default() };
    let patched = control.patch(&resources::CLUSTER, &key, &patch, &options).await;
    patched.map(drop).map_err(Error::client(format!("release evictions from cluster {name}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn clusters_to_release() {
        let cluster = |name: &str, status: &str| {
            let paused =
                json!({"type": "EvictionsPaused", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"});
            let cluster = json!({"metadata": {"name": name}, "spec": {}, "status": {"conditions": [paused]}});
            Arc::new(serde_json::from_value::<Cluster>(cluster).expect("a cluster"))
        };
        let known = [cluster("m1", "True"), cluster("m2", "False"), cluster("m3", "True")];
        for (named, expected) in
            [(&[][..], "m1:true m3:true"), (&["m2"], "m2:false"), (&["m3", "m2"], "m2:false m3:true")]
        {
            let found = paused(&known, named);
            let shown: Vec<String> =
                found.iter().map(|(cluster, since)| format!("{}:{}", cluster.metadata.name, since.is_some())).collect();
            assert_eq!(shown.join(" "), expected, "{named:?}");
        }
    }
}
