//! `karmada up` is killed repeatedly on one data directory: while clients write, while it checkpoints, while it starts
//! and right after that. Each time all acknowledged writes are present.
//!
//! A normal run kills 5 times; `KILLS=500 cargo test -p karmada --test it kills` kills 500 times.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiResource, Object, ObjectKey};
use client::{Client, DeleteOptions, ListOptions, WatchOptions};
use futures::StreamExt;
use parking_lot::Mutex;
use serde_json::{Value, json};
use transport::WatchEvent;

use crate::process::Karmada;

const WRITERS: usize = 8;
/// More objects than this are deleted, so that a long run stays fast.
const OBJECTS: usize = 1500;

/// The acknowledged writes.
#[derive(Default)]
struct Acknowledged {
    /// Objects that are written once: revision and content.
    objects: BTreeMap<String, (u64, usize)>,
    /// Objects that are rewritten, each by one writer: the last content.
    counters: BTreeMap<String, usize>,
    /// Each acknowledged creation since the last deletion: revision and name.
    order: Vec<(u64, String)>,
    deleted: Vec<String>,
    revision: u64,
    total: usize,
}

fn config_maps() -> ApiResource {
    ApiResource::namespaced("", "v1", "ConfigMap", "configmaps")
}

fn object(name: &str, n: usize, size: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "kills"},
        "data": {"n": n.to_string(), "rest": "x".repeat(size)}})
}

fn content(object: &Object) -> usize {
    let tree = object.to_value().expect("an object of the server");
    tree["data"]["n"].as_str().and_then(|n| n.parse().ok()).expect("a number")
}

/// Writes until the server is killed.
async fn write(client: Client, known: Arc<Mutex<Acknowledged>>, (round, writer): (usize, usize), size: usize) {
    let counter = format!("counter-{writer}");
    for n in 0.. {
        let name = format!("r{round}-w{writer}-{n}");
        let Ok(created) = client.create(&config_maps(), &object(&name, n, size)).await else { return };
        let last = {
            let mut known = known.lock();
            known.revision = known.revision.max(created.revision());
            known.objects.insert(name.clone(), (created.revision(), n));
            known.order.push((created.revision(), name));
            known.total += 1;
            known.counters.get(&counter).copied()
        };
        let next = object(&counter, last.map_or(0, |last| last + 1), 10);
        let written = match last {
            None => client.create(&config_maps(), &next).await,
            Some(_) => client.update(&config_maps(), &next).await,
        };
        // Created by a request of the previous round, whose response was lost.
        let Ok(written) = written else {
            let Ok(found) = client.get(&config_maps(), &ObjectKey::namespaced("kills", &*counter)).await else {
                return;
            };
            known.lock().counters.insert(counter.clone(), content(&found));
            continue;
        };
        let mut known = known.lock();
        known.revision = known.revision.max(written.revision());
        known.counters.insert(counter.clone(), content(&written));
        known.total += 1;
    }
}

/// Compares a client's reads with the acknowledged writes.
async fn check(client: &Client, known: &mut Acknowledged, what: &str) {
    client.request(http::Method::GET, "/readyz", None).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    let list = client.list(&config_maps(), Some("kills"), &ListOptions::default()).await;
    let list = list.unwrap_or_else(|error| panic!("{what}: {error}"));
    let revision = list.resource_version;
    // The namespace also has one of the control plane.
    let user_objects = list.items.iter().filter(|object| !object.name().starts_with("kube-"));
    let found: BTreeMap<&str, &Arc<Object>> = user_objects.map(|object| (object.name(), object)).collect();
    for (name, (written, n)) in &known.objects {
        let object = found.get(name.as_str()).unwrap_or_else(|| panic!("{what}: {name} was acknowledged and is lost"));
        assert_eq!((object.revision(), content(object)), (*written, *n), "{what}: {name}");
    }
    for (name, last) in &mut known.counters {
        let object = found.get(name.as_str()).unwrap_or_else(|| panic!("{what}: {name} is lost"));
        let now = content(object);
        assert!(now == *last || now == *last + 1, "{what}: {name} is {now} after {last}");
        *last = now;
    }
    for name in &known.deleted {
        assert!(!found.contains_key(name.as_str()), "{what}: {name} is back");
    }
    for (name, object) in &found {
        let n = name.rsplit('-').next().and_then(|n| n.parse::<usize>().ok()).expect("a name of this test");
        assert!(name.starts_with("counter") || content(object) == n, "{what}: {name}");
        assert!(object.revision() <= revision, "{what}: {name}");
    }
    assert!(revision >= known.revision, "{what}: revision {} after {}", revision, known.revision);
    known.revision = revision;
    follow(client, known, what).await;
}

/// A watch from an acknowledged revision delivers all later acknowledged writes, in order.
async fn follow(client: &Client, known: &Acknowledged, what: &str) {
    let mut order = known.order.clone();
    order.sort();
    let Some((first, rest)) = order[order.len().saturating_sub(300)..].split_first() else { return };
    let options = WatchOptions { resource_version: Some(first.0.to_string()), ..WatchOptions::default() };
    let watch = client.watch(&config_maps(), Some("kills"), &options).await;
    let mut watch = watch.unwrap_or_else(|error| panic!("{what}: {error}"));
    let (mut last, mut expected) = (first.0, rest.iter());
    let mut next = expected.next();
    while let Some((revision, name)) = next {
        match watch.next().await {
            Some(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                assert!(object.revision() > last, "{what}: {} after {last}", object.revision());
                last = object.revision();
                assert!(last <= *revision, "{what}: the watch skips {name} at {revision}");
                if last == *revision {
                    assert_eq!(object.name(), name, "{what}");
                    next = expected.next();
                }
            }
            Some(WatchEvent::Bookmark { .. } | WatchEvent::Deleted(_)) => {}
            other => panic!("{what}: {other:?}"),
        }
    }
}

/// Starts a server and kills it before it is ready, at any stage.
fn kill_while_it_starts(data: &Path, after: Duration) {
    let mut child = Karmada::begin_up(data);
    pause(after);
    child.kill().expect("the process is ours");
    child.wait().expect("the process is ours");
}

#[expect(clippy::disallowed_methods, reason = "another process is killed at some moment: time is real here")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

async fn clear(client: &Client, known: &mut Acknowledged) {
    let (all, options) = (ListOptions::default(), DeleteOptions::default());
    client.delete_collection(&config_maps(), Some("kills"), &all, &options).await.expect("a deletion");
    known.deleted = std::mem::take(&mut known.objects).into_keys().collect();
    known.counters.clear();
    known.order.clear();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_lose_no_acknowledged_write() {
    let kills: usize = std::env::var("KILLS").map_or(5, |kills| kills.parse().expect("a number"));
    let root = tempfile::tempdir().expect("a directory");
    let data = root.path().join("up");
    let known = Arc::new(Mutex::new(Acknowledged::default()));
    let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    for round in 0..kills {
        // A fifth of the kills each: some writes, many, large ones that fill the log, during the start, right after it.
        let what = format!("kill {round}");
        let (writes, size) = match round % 5 {
            0 => (20 + round * 7 % 60, 100),
            1 => (200 + round * 13 % 300, 2000),
            2 => (150 + round % 50, 60_000),
            3 => {
                kill_while_it_starts(&data, Duration::from_millis(5 + (round as u64 * 37) % 700));
                continue;
            }
            _ => (0, 0),
        };
        let plane = Karmada::up(&data);
        if writes == 0 {
            plane.kill();
            continue;
        }
        let client = Client::from_kubeconfig(Path::new(plane.kubeconfig()), None).await.expect("a client");
        if round == 0 {
            client.create(&namespaces, &json!({"metadata": {"name": "kills"}})).await.expect("a namespace");
        }
        let mut seen = std::mem::take(&mut *known.lock());
        check(&client, &mut seen, &what).await;
        if seen.objects.len() > OBJECTS {
            clear(&client, &mut seen).await;
        }
        let until = seen.total + writes;
        *known.lock() = seen;
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| tokio::spawn(write(client.clone(), Arc::clone(&known), (round, writer), size)))
            .collect();
        while known.lock().total < until {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        plane.kill();
        for writer in writers {
            writer.await.expect("a writer ends");
        }
    }
    let plane = Karmada::up(&data);
    let client = Client::from_kubeconfig(Path::new(plane.kubeconfig()), None).await.expect("a client");
    let mut known = std::mem::take(&mut *known.lock());
    check(&client, &mut known, "at last").await;
    assert!(known.total >= kills * 20, "{} writes", known.total);
    eprintln!("{kills} kills, {} acknowledged writes", known.total);
}
