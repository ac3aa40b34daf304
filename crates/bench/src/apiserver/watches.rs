//! Watchers, each with a separate connection, while objects are created: the time from sending the create until its
//! event has arrived, over all watchers.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::connection::{Call, JSON};
use super::load::Load;
use super::objects::{config_map, name};
use super::{config_maps, namespace};

const CREATES: usize = 500;
const AT_ONCE: usize = 8;
/// Longest wait for the events of one phase.
const PATIENCE: Duration = Duration::from_secs(300);
/// Connections opened at once.
const OPENING: usize = 16;

pub async fn run(load: &Load, watchers: usize) -> anyhow::Result<()> {
    let ns = format!("watch-{watchers}");
    namespace(&load.connection, &ns).await?;
    let path = config_maps(&ns);
    let watch = format!("{path}?watch=1&resourceVersion=0&labelSelector=group%3D{ns}");
    let streams: Vec<Incoming> = stream::iter(0..watchers)
        .map(async |_| load.target.connect().await?.open(Call::get(watch.clone())).await)
        .buffer_unordered(OPENING)
        .try_collect()
        .await?;
    let sent: Arc<Vec<Mutex<Option<Instant>>>> = Arc::new((0..CREATES).map(|_| Mutex::new(None)).collect());
    let meter = load.meter().await?;
    let tasks: Vec<_> = streams.into_iter().map(|body| tokio::spawn(follow(body, Arc::clone(&sent)))).collect();
    let creating = stream::iter(0..CREATES)
        .map(|n| {
            let call = Call::send(Method::POST, path.clone(), JSON, config_map(n, &ns));
            let sent = Arc::clone(&sent);
            async move {
                *sent[n].lock() = Some(Instant::now());
                load.connection.count(call).await
            }
        })
        .buffer_unordered(AT_ONCE)
        .try_for_each(async |_| Ok(()));
    creating.await.context("creating what is watched")?;
    let arriving = futures::future::try_join_all(tasks);
    let arrived = tokio::time::timeout(PATIENCE, arriving).await.context("waiting for the events")??;
    let mut samples = Vec::with_capacity(watchers * CREATES);
    for arrived in arrived {
        samples.extend(arrived?);
    }
    ensure!(samples.len() == watchers * CREATES, "{} of {} events came", samples.len(), watchers * CREATES);
    let plural = if watchers == 1 { "" } else { "s" };
    load.report(&format!("watch, {watchers} watcher{plural}"), samples.len(), samples, meter).await
}

/// Reads one watch until every create has been seen.
async fn follow(mut body: Incoming, sent: Arc<Vec<Mutex<Option<Instant>>>>) -> anyhow::Result<Vec<Duration>> {
    let mut samples = Vec::with_capacity(CREATES);
    let mut line = Vec::new();
    while samples.len() < CREATES {
        let Some(frame) = body.frame().await else { bail!("a watch ended after {} events", samples.len()) };
        let Ok(data) = frame.context("reading a watch")?.into_data() else { continue };
        for piece in data.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let begun = sent[number(&line).context("an event without the name of an object")?].lock();
                samples.extend(begun.map(|begun| begun.elapsed()));
                line.clear();
            }
        }
    }
    Ok(samples)
}

/// The created object of an event. The metadata precedes the data.
fn number(event: &[u8]) -> Option<usize> {
    let head = &event[..event.len().min(1024)];
    let prefix = br#""name":"object-"#;
    let at = head.windows(prefix.len()).position(|window| window == prefix)? + prefix.len();
    let digits = head.get(at..at + name(0).len() - "object-".len())?;
    std::str::from_utf8(digits).ok()?.parse().ok().filter(|n| *n < CREATES)
}

#[cfg(test)]
mod tests {
    #[test]
    fn events_are_numbered_by_object_name() {
        let event = br#"{"type":"ADDED","object":{"metadata":{"labels":{},"name":"object-000123"}}}"#;
        assert_eq!(super::number(event), Some(123));
        assert_eq!(super::number(br#"{"name":"object-999999"}"#), None);
        assert_eq!(super::number(br#"{"name":"obj"}"#), None);
    }
}
