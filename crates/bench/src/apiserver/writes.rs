//! Writes, and reads of single objects.

use http::Method;

use super::connection::{Call, JSON};
use super::load::Load;
use super::objects::{config_map, deployment, name, status};
use super::{config_maps, namespace};

const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
/// The namespaces of the creates at 16 and at 64 at once; later phases use their content.
pub const MAIN: &str = "bench-16";
const SECOND: &str = "bench-64";
pub const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/bench-16/deployments";

pub async fn run(load: &Load, maps: usize, deployments: usize) -> anyhow::Result<()> {
    for (ns, scenario, count, at_once) in [
        ("bench-1", "create ConfigMap, C=1", maps.div_ceil(6), 1),
        (MAIN, "create ConfigMap, C=16", maps, 16),
        (SECOND, "create ConfigMap, C=64", maps, 64),
    ] {
        namespace(&load.connection, ns).await?;
        let path = config_maps(ns);
        let create = |n| Call::send(Method::POST, path.clone(), JSON, config_map(n, "all"));
        load.phase(scenario, count, at_once, create).await?;
    }
    let base = config_maps(MAIN);
    let map = |n: usize| format!("{base}/{}", name(n % maps));
    load.phase("get ConfigMap", 2 * maps, 16, |n| Call::get(map(n))).await?;
    load.phase("get ConfigMap, rv=0", 2 * maps, 16, |n| Call::get(map(n) + "?resourceVersion=0")).await?;
    let patch = |n| Call::send(Method::PATCH, map(n), MERGE, r#"{"data":{"p":"1"}}"#);
    load.phase("patch ConfigMap", maps, 16, patch).await?;
    let update = |n| Call::send(Method::PUT, map(n), JSON, config_map(n, "updated"));
    load.phase("update ConfigMap", maps, 16, update).await?;
    let create = |n| Call::send(Method::POST, DEPLOYMENTS, JSON, deployment(n, 1));
    load.phase("create Deployment", deployments, 16, create).await?;
    let path = |n: usize| format!("{DEPLOYMENTS}/{}", name(n % deployments.max(1)));
    let report = |n| Call::send(Method::PATCH, path(n) + "/status", MERGE, status(n % 5));
    load.phase("patch Deployment status", deployments, 16, report).await?;
    let apply = |n, replicas| {
        Call::send(Method::PATCH, path(n) + "?fieldManager=bench&force=true", APPLY, deployment(n, replicas))
    };
    load.phase("server-side apply", deployments, 16, |n| apply(n, 2 + n % 7)).await?;
    load.phase("server-side apply, no change", deployments / 2, 16, |n| apply(n, 2 + n % 7)).await
}

pub async fn deletes(load: &Load, maps: usize) -> anyhow::Result<()> {
    let base = config_maps(SECOND);
    let delete = |n| Call { method: Method::DELETE, ..Call::get(format!("{base}/{}", name(n))) };
    load.phase("delete ConfigMap", maps, 16, delete).await?;
    let all = |_| Call { method: Method::DELETE, ..Call::get(config_maps(MAIN)) };
    load.phase("deletecollection of 3,000", 1, 1, all).await
}
