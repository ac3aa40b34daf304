//! Watches that are not read.

use futures::StreamExt as _;

use super::*;

const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=1";

#[tokio::test(start_paused = true)]
async fn unread_watches_are_closed_and_others_miss_nothing() {
    let rig = Rig::new(Bytes::default()).await;
    let sender = rig.http2(4 << 10).await;
    let mut stuck = Vec::new();
    for _ in 0..300 {
        stuck.push(send(&sender, WATCH, &[]).await);
    }
    let reading = send(&sender, WATCH, &[]).await;
    let reader = tokio::spawn(async move {
        let mut lines = Vec::new();
        let mut frames = reading.into_body().into_data_stream();
        while lines.iter().filter(|byte| **byte == b'\n').count() < 1500 {
            lines.extend_from_slice(&frames.next().await.expect("it goes on").expect("it is not cut"));
        }
        lines
    });
    let begun = Instant::now();
    let mut most = 0;
    for n in 0..1500 {
        let object = config_map(n, &"x".repeat(2000));
        rig.client.create(&crate::objects::config_maps(), &object).await.expect("a config map");
        tokio::time::sleep(Duration::from_millis(100)).await;
        most = most.max(rig.in_flight());
    }
    // Each has a frame or two, of 32 KiB and an event.
    assert!(most > 0 && most <= 300 * 3 * (36 << 10), "{most} bytes in flight");
    assert_eq!(rig.cut("stream"), 300);
    let lines = reader.await.expect("no panic");
    let names: Vec<String> = String::from_utf8(lines)
        .expect("text")
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("an event"))
        .map(|event| event["object"]["metadata"]["name"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert!(names.iter().enumerate().all(|(n, name)| *name == format!("c{n:06}")), "events are missing");
    for response in stuck {
        assert!(response.into_body().collect().await.is_err(), "it is cut");
    }
    assert!(begun.elapsed() > LATEST);
    settle().await;
    assert_eq!(rig.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_idle_watch_is_not_closed() {
    let rig = Rig::new(Bytes::default()).await;
    let sender = rig.http2(4 << 10).await;
    let mut watch = send(&sender, WATCH, &[]).await.into_body().into_data_stream();
    for n in 0..3 {
        rig.fill_one(n).await;
        let event = watch.next().await.expect("it goes on").expect("it is not cut");
        assert!(event.starts_with(b"{\"type\":\"ADDED\""));
        tokio::time::sleep(5 * LATEST).await;
    }
    assert_eq!(rig.cut("stream") + rig.cut("connection"), 0);
}

/// Bookmarks are events without a change. Watches whose clients read nothing are ended by their first one, hold little
/// until then, and others get theirs each minute.
#[tokio::test(start_paused = true)]
async fn bookmarks_that_are_not_read_end_their_watch_and_no_other() {
    let rig = Rig::new(Bytes::default()).await;
    let path = format!("{WATCH}&allowWatchBookmarks=true");
    let (deaf, reading) = (rig.http2(0).await, rig.http2(64 << 10).await);
    let mut stuck = Vec::new();
    for _ in 0..200 {
        stuck.push(send(&deaf, &path, &[]).await);
    }
    let mut events = send(&reading, &path, &[]).await.into_body().into_data_stream();
    let begun = Instant::now();
    let (mut lines, mut most) = (Vec::new(), 0);
    while begun.elapsed() < Duration::from_secs(600) {
        let frame = tokio::time::timeout(Duration::from_secs(61), events.next()).await.expect("once a minute");
        lines.extend_from_slice(&frame.expect("it goes on").expect("it is not ended"));
        settle().await;
        most = most.max(rig.in_flight());
    }
    let bookmarks = lines.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"{\"type\":\"BOOKMARK\""));
    assert_eq!(bookmarks.count(), 10);
    assert!(most > 0 && most <= 200 * 1024, "{most} bytes in flight");
    assert_eq!(rig.cut("stream"), 200);
    for response in stuck {
        assert!(response.into_body().collect().await.is_err(), "it is ended");
    }
    assert_eq!(rig.in_flight(), 0);
}

impl Rig {
    async fn fill_one(&self, n: usize) {
        self.client.create(&crate::objects::config_maps(), &config_map(n, "x")).await.expect("a config map");
    }
}
