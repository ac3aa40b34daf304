//! Two `karmada up` on a cluster of three etcds, under load and random faults: processes are killed and stopped for
//! longer than their Lease, members of etcd are killed, stopped and cut off, and their clocks jump. No acknowledged
//! write is lost, no address is allocated twice, and no controller acts on what another one has superseded: in the
//! member, an object is created once and never goes back to an older content.
//!
//! `KILLS_SECONDS` is the time of the faults (20), `KILLS_SEED` the seed:
//! `KILLS_SECONDS=3600 cargo test -p karmada --test it kills_on_etcd -- --nocapture`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use apimachinery::{ApiResource, Object, ObjectKey};
use client::{Client, ListOptions, WatchOptions};
use etcd::process::cluster::Cluster;
use futures::StreamExt;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use transport::WatchEvent;

use crate::on_etcd::{ELECTION, first_of_two};
use crate::process::Karmada;

const WRITERS: usize = 4;
const NAMESPACE: &str = "default";
/// After a refused request, and between the writes of a client: the faults are tested, not the throughput.
const PAUSE: Duration = Duration::from_millis(50);
/// Faults last longer than the Lease of three seconds.
const LONG: Duration = Duration::from_secs(5);

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn config_maps() -> ApiResource {
    ApiResource::namespaced("", "v1", "ConfigMap", "configmaps")
}

fn services() -> ApiResource {
    ApiResource::namespaced("", "v1", "Service", "services")
}

fn number(object: &Object) -> Option<u64> {
    object.to_value().ok()?["data"]["n"].as_str()?.parse().ok()
}

/// The two processes and their kubeconfigs, and what was acknowledged.
struct Planes {
    planes: [Mutex<Option<Karmada>>; 2],
    kubeconfigs: [PathBuf; 2],
    ends: AtomicBool,
    writes: AtomicUsize,
    /// The last acknowledged content of each counter, and each acknowledged Service with its address and port.
    counters: Mutex<BTreeMap<String, u64>>,
    services: Mutex<BTreeMap<String, Vec<String>>>,
}

fn allocations(service: &Value) -> Vec<String> {
    vec![service["spec"]["clusterIP"].to_string(), service["spec"]["ports"][0]["nodePort"].to_string()]
}

/// One client, of one server after the other: its counter grows by one with each write, and it creates Services.
async fn write(planes: Arc<Planes>, writer: usize) {
    let (maps, name) = (config_maps(), format!("counter-{writer}"));
    let (mut round, mut next) = (writer, 1);
    while !planes.ends.load(SeqCst) {
        round += 1;
        // The process may be away, and its port another one after a restart.
        let Ok(client) = Client::from_kubeconfig(&planes.kubeconfigs[round % 2], None).await else { continue };
        for step in 0..20 {
            let counter = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": NAMESPACE}, "data": {"n": next.to_string()}});
            let found = client.get_opt(&maps, &ObjectKey::namespaced(NAMESPACE, &*name)).await;
            let written = match found {
                Err(error) => Err(error),
                Ok(None) => {
                    assert_eq!(next, 1, "{name} was acknowledged and is gone");
                    client.create(&maps, &counter).await
                }
                Ok(Some(found)) => {
                    let now = number(&found).expect("a counter");
                    assert!(now + 1 >= next, "{name} was acknowledged at {} and is at {now}", next - 1);
                    next = now + 1;
                    let mut counter = counter.clone();
                    counter["data"]["n"] = next.to_string().into();
                    counter["metadata"]["resourceVersion"] = found.resource_version().into();
                    client.update(&maps, &counter).await
                }
            };
            if written.is_err() {
                sleep(PAUSE).await;
                break;
            }
            planes.counters.lock().insert(name.clone(), next);
            planes.writes.fetch_add(1, SeqCst);
            next += 1;
            if step % 5 == 0 {
                let service = format!("s{writer}-{round}-{step}");
                let object = json!({"apiVersion": "v1", "kind": "Service",
                    "metadata": {"name": service, "namespace": NAMESPACE},
                    "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
                if let Ok(created) = client.create(&services(), &object).await {
                    let allocated = allocations(&created.to_value().expect("JSON"));
                    planes.services.lock().insert(service, allocated);
                    planes.writes.fetch_add(1, SeqCst);
                }
            }
            sleep(PAUSE).await;
        }
    }
}

/// What the member's API shows of each propagated object: its UID, and its content.
async fn follow(client: Client, seen: Arc<Mutex<BTreeMap<String, (String, u64)>>>) {
    let list = client.list(&config_maps(), Some(NAMESPACE), &ListOptions::default()).await.expect("the member answers");
    let mut position = list.resource_version;
    loop {
        // The member ends a watch after a while.
        let options = WatchOptions { resource_version: Some(position.to_string()), ..WatchOptions::default() };
        let mut watch = client.watch(&config_maps(), Some(NAMESPACE), &options).await.expect("the member answers");
        while let Some(event) = watch.next().await {
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    position = object.revision();
                    if object.name().starts_with("counter-") {
                        note(&mut seen.lock(), &object);
                    }
                }
                WatchEvent::Deleted(object) => {
                    position = object.revision();
                    assert!(!object.name().starts_with("counter-"), "{} was deleted", object.name());
                }
                WatchEvent::Bookmark { resource_version, .. } => position = resource_version,
                WatchEvent::Error(status) => panic!("{status:?}"),
            }
        }
    }
}

fn note(seen: &mut BTreeMap<String, (String, u64)>, object: &Object) {
    let now = (object.uid().to_owned(), number(object).expect("a counter"));
    let before = seen.insert(object.name().to_owned(), now.clone());
    if let Some((uid, content)) = before {
        assert_eq!(uid, now.0, "{} was created a second time", object.name());
        assert!(now.1 >= content, "{} went from {content} back to {}", object.name(), now.1);
    }
}

/// xorshift.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).expect("less than the bound")
    }
}

/// Starts a process again. It ends by itself when etcd does not answer for ten seconds; a service manager starts it
/// again.
fn restart(data_dir: &Path, flags: &[&str]) -> Karmada {
    (0..10).find_map(|_| Karmada::try_up_with(data_dir, flags)).expect("it starts within ten attempts")
}

/// One fault, until it is over.
async fn fault(dice: &mut Dice, planes: &Planes, cluster: &mut Cluster, flags: &[&str], directory: &Path) {
    let (number, leader) = (dice.below(2), cluster.leader().await);
    match dice.below(6) {
        0 => {
            if let Some(plane) = planes.planes[number].lock().take() {
                plane.kill();
            }
            let data_dir = directory.join(["one", "other"][number]);
            let plane = tokio::task::block_in_place(|| restart(&data_dir, flags));
            *planes.planes[number].lock() = Some(plane);
        }
        1 => {
            let signal = |signal: &str| planes.planes[number].lock().iter().for_each(|plane| plane.signal(signal));
            signal("-STOP");
            sleep(LONG).await;
            signal("-CONT");
        }
        2 => {
            cluster.kill(leader);
            cluster.successor(leader).await;
            tokio::task::block_in_place(|| cluster.restart(leader)).expect("etcd starts");
        }
        3 => {
            cluster.stop(leader).expect("it runs");
            cluster.successor(leader).await;
            sleep(Duration::from_secs(1)).await;
            cluster.proceed(leader).expect("it runs");
        }
        4 => match cluster.clock((leader + dice.below(2)) % 3) {
            Ok(clock) => {
                let days = i64::try_from(dice.below(800)).expect("below 800") - 400;
                clock.set_time_of_day(days * 86_400).expect("it runs");
                clock.advance(LONG).expect("it runs");
            }
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::Unsupported, "{error}"),
        },
        _ => {
            let member = (leader + dice.below(2)) % 3;
            cluster.cut_off(member);
            cluster.successor(member).await;
            sleep(Duration::from_secs(2)).await;
            cluster.network().heal();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[cfg_attr(any(no_kubectl, no_etcd), ignore = "kubectl or etcd is not on PATH")]
async fn random_kills_lose_nothing_and_repeat_no_action() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut cluster = Cluster::start(&directory.path().join("etcd"), 3).await.expect("etcd starts");
    let urls: Vec<_> = (0..3).map(|number| cluster.url(number)).collect();
    let servers = format!("--etcd-servers={}", urls.join(","));
    let flags = [&[servers.as_str()][..], ELECTION].concat();
    let (member, one) = tokio::task::block_in_place(|| first_of_two(directory.path(), &flags));
    let other = tokio::task::block_in_place(|| crate::on_etcd::second_of_two(directory.path(), &flags));
    let kubeconfigs = [one.kubeconfig().into(), other.kubeconfig().into()];
    let planes = Arc::new(Planes {
        planes: [Mutex::new(Some(one)), Mutex::new(Some(other))],
        kubeconfigs,
        ends: AtomicBool::new(false),
        writes: AtomicUsize::new(0),
        counters: Mutex::default(),
        services: Mutex::default(),
    });
    let seen = Arc::new(Mutex::new(BTreeMap::new()));
    let of_member = Client::from_kubeconfig(Path::new(member.kubeconfig()), None).await.expect("a client");
    let follower = tokio::spawn(follow(of_member, Arc::clone(&seen)));
    let writers: Vec<_> = (0..WRITERS).map(|writer| tokio::spawn(write(Arc::clone(&planes), writer))).collect();

    let (begin, time) = (Instant::now(), Duration::from_secs(setting("KILLS_SECONDS", 20)));
    let (mut dice, mut faults) = (Dice(setting("KILLS_SEED", 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1), 0);
    while begin.elapsed() < time {
        fault(&mut dice, &planes, &mut cluster, &flags, directory.path()).await;
        faults += 1;
        assert!(writers.iter().all(|writer| !writer.is_finished()) && !follower.is_finished());
        sleep(Duration::from_secs(1)).await;
    }
    planes.ends.store(true, SeqCst);
    for writer in writers {
        writer.await.expect("a writer found its writes");
    }
    stored_and_propagated(&planes, &seen, &follower).await;
    let writes = planes.writes.load(SeqCst);
    eprintln!("{} s, {faults} faults, {writes} acknowledged writes", begin.elapsed().as_secs());
    follower.abort();
}

/// Every acknowledged write is stored, no address is there twice, and the member comes to the last content.
async fn stored_and_propagated(
    planes: &Planes,
    seen: &Mutex<BTreeMap<String, (String, u64)>>,
    follower: &tokio::task::JoinHandle<()>,
) {
    let client = Client::from_kubeconfig(&planes.kubeconfigs[0], None).await.expect("a client");
    let list = client.list(&services(), None, &ListOptions::default()).await.expect("the server answers");
    let (mut owners, mut stored) = (BTreeMap::new(), BTreeMap::new());
    for service in &list.items {
        let allocated = allocations(&service.to_value().expect("JSON"));
        for allocation in allocated.iter().filter(|it| *it != "null") {
            let other = owners.insert(allocation.clone(), service.name().to_owned());
            assert_eq!(other, None, "{} has {allocation} as well", service.name());
        }
        stored.insert(service.name().to_owned(), allocated);
    }
    for (name, allocated) in &*planes.services.lock() {
        assert_eq!(stored.get(name), Some(allocated), "the Service {name} was acknowledged");
    }
    let counters = planes.counters.lock().clone();
    assert!(!counters.is_empty());
    let mut last = BTreeMap::new();
    for (name, acknowledged) in counters {
        let found = client.get(&config_maps(), &ObjectKey::namespaced(NAMESPACE, &*name)).await.expect("a counter");
        let now = number(&found).expect("a counter");
        assert!(now >= acknowledged, "{name} was acknowledged at {acknowledged} and is at {now}");
        last.insert(name, now);
    }
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let in_member: BTreeMap<String, u64> = seen.lock().iter().map(|(name, (_, n))| (name.clone(), *n)).collect();
        if in_member == last {
            return;
        }
        assert!(Instant::now() < deadline, "the member has {in_member:?}, and {last:?} is stored");
        assert!(!follower.is_finished(), "the member's objects were changed twice");
        sleep(PAUSE).await;
    }
}
