//! A server that starts on a store with many objects.

use std::path::Path;

use anyhow::Context as _;
use http::Method;
use http_body_util::BodyExt as _;
use tokio::time::Instant;

use super::connection::{Call, JSON};
use super::load::{Load, heading};
use super::objects::{config_map, name};
use super::{config_maps, namespace, start};
use crate::figures::line;
use crate::store::{Backend, Engine};

const NAMESPACE: &str = "many";

pub async fn run(binary: &Path, store: Engine, count: usize) -> anyhow::Result<()> {
    let directory = tempfile::tempdir().context("creating a data directory")?;
    let load = start(binary, directory.path(), Backend::start(store)?, "to be filled").await?;
    namespace(&load.connection, NAMESPACE).await?;
    let path = config_maps(NAMESPACE);
    heading();
    let create = |n| Call::send(Method::POST, path.clone(), JSON, config_map(n, "all"));
    load.phase(&format!("create {count} ConfigMaps, C=64"), count, 64, create).await?;
    load.memory("filled")?;
    // Killed, not stopped: a start after a crash follows.
    let Load { server, store, .. } = load;
    drop(server);
    let load = start(binary, directory.path(), store, "start on the full store").await?;
    load.memory("full, idle")?;
    heading();
    reads(&load, &path, count).await?;
    let create = |n| Call::send(Method::POST, path.clone(), JSON, config_map(count + n, "more"));
    load.phase("create ConfigMap, full store", 3000, 16, create).await?;
    first_events(&load, &path).await?;
    load.memory("full, after the load")
}

async fn reads(load: &Load, path: &str, count: usize) -> anyhow::Result<()> {
    let get = |n: usize| Call::get(format!("{path}/{}", name(n * 31 % count)));
    load.phase("get ConfigMap, full store", 6000, 16, get).await?;
    load.phase("list a page of 500, full store", 40, 1, |_| Call::get(format!("{path}?limit=500"))).await?;
    load.phase("list everything, full store", 3, 1, |_| Call::get(path)).await
}

/// A watch that starts with all objects.
async fn first_events(load: &Load, path: &str) -> anyhow::Result<()> {
    let begun = Instant::now();
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let meter = load.meter().await?;
    let mut body = load.connection.open(Call::get(format!("{path}?{query}"))).await?;
    let (mut lines, mut last) = (0, Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.context("reading a watch")?.into_data() else { continue };
        lines += data.iter().filter(|byte| **byte == b'\n').count();
        last.extend_from_slice(&data);
        last.drain(..last.len().saturating_sub(512));
        if last.windows(8).any(|window| window == b"BOOKMARK") {
            break;
        }
    }
    line("events of a watch that begins with everything", lines);
    load.report("watch list, full store", 1, vec![begun.elapsed()], meter).await
}
