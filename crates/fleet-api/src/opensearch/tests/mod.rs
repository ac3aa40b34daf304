//! A writer against a simulated OpenSearch, in virtual time.

mod attacks;
mod fake;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiResource, Object, ObjectKey};
use client::{Client, Endpoint};
use controller_runtime::Involved;
use metrics::Registry;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use transport::Identity;
use world::World;

use super::DOCUMENTS;
use super::pending::Pending;
use super::report::Reports;
use super::service::{Access, Service};
use super::source::{Known, Place, Source};
use super::writer::Writer;
use fake::{Fake, Fault};

/// The objects of a simulated member, with its connection.
#[derive(Clone, Default)]
pub(super) struct Member(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    objects: BTreeMap<ObjectKey, Arc<Object>>,
    is_lost: bool,
}

impl Member {
    pub fn put(&self, object: Object) -> Arc<Object> {
        let object = object.shared();
        self.0.lock().objects.insert(object.key(), object.clone());
        object
    }

    pub fn delete(&self, name: &str) -> Arc<Object> {
        self.0.lock().objects.remove(&ObjectKey::namespaced("default", name)).expect("an object")
    }

    pub fn lose(&self) {
        self.0.lock().is_lost = true;
    }

    pub fn find(&self) {
        self.0.lock().is_lost = false;
    }
}

impl Known for Member {
    fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.0.lock().objects.get(key).cloned()
    }

    fn all(&self) -> Vec<Arc<Object>> {
        self.0.lock().objects.values().cloned().collect()
    }

    fn is_complete(&self) -> bool {
        !self.0.lock().is_lost
    }
}

pub(super) fn source(cluster: &str, member: &Member) -> Source {
    let place = Place { cluster: cluster.to_owned(), resource: ApiResource::namespaced("", "v1", "Pod", "pods") };
    Source::new(place, "kubernetes-pod".to_owned(), Arc::new(member.clone()), BTreeSet::new())
}

/// A pod whose UID is its name.
pub(super) fn object(name: &str, version: u64) -> Object {
    let tree = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default",
        "uid": name, "resourceVersion": version.to_string()}, "spec": {"version": version}});
    Object::from_value(&tree).expect("an object")
}

/// A writer, its service and a member.
struct Harness {
    fake: Arc<Mutex<Fake>>,
    pending: Arc<Pending>,
    access: watch::Sender<Option<Access>>,
    metrics: Registry,
    stop: CancellationToken,
}

fn access(user: &str) -> Access {
    use base64::Engine as _;
    let text = base64::prelude::BASE64_STANDARD.encode(user);
    Access::of(&Object::from_value(&json!({"data": {"username": text}})).expect("a secret")).expect("credentials")
}

impl Harness {
    fn start(fake: Fake) -> Self {
        Self::with_addresses(Arc::new(Mutex::new(fake)), &["http://os:9200"], None)
    }

    /// `connect` replaces the connection to the simulated service.
    fn with_addresses(fake: Arc<Mutex<Fake>>, addresses: &[&str], connect: Option<super::service::Connect>) -> Self {
        let (world, stop) =
            (World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 7), CancellationToken::new());
        let (metrics, pending) = (Registry::default(), Arc::new(Pending::default()));
        let events = Client::in_process(fake::refusing(), Identity::default());
        let reports = Reports::start(events, world.clone(), &metrics, &stop);
        let report = reports.of(&pending, vec![Involved { name: "registry".to_owned(), ..Involved::default() }]);
        let service = fake::service(&fake);
        let in_process = move |endpoint: &Endpoint| {
            assert!(endpoint.guarded);
            Ok(Client::in_process(service.clone(), Identity::default()))
        };
        let connect = connect.unwrap_or_else(|| Arc::new(in_process));
        let service = Service::new(addresses.iter().map(|it| (*it).to_owned()).collect(), connect);
        let (access, receiver) = watch::channel(Some(access("user")));
        let writer = Writer::new(service, receiver, pending.clone(), report, world);
        let ends = stop.clone();
        tokio::spawn(async move { ends.run_until_cancelled(writer.run()).await });
        Self { fake, pending, access, metrics, stop }
    }

    fn add(&self, cluster: &str, member: &Member) -> Arc<Source> {
        let source = Arc::new(source(cluster, member));
        self.pending.add(&source);
        source
    }

    /// Changes an object in a member.
    fn put(&self, source: &Arc<Source>, member: &Member, name: &str, version: u64) {
        self.pending.mark(source, &member.put(object(name, version)));
    }

    fn delete(&self, source: &Arc<Source>, member: &Member, name: &str) {
        self.pending.mark(source, &member.delete(name));
    }

    /// Waits until the documents are those with these ids and versions.
    async fn until(&self, expected: &[(&str, u64)]) {
        let expected: BTreeMap<String, u64> =
            expected.iter().map(|(id, version)| ((*id).to_owned(), *version)).collect();
        let waited = tokio::time::timeout(Duration::from_secs(3600), async {
            while self.fake.lock().versions() != expected {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        if waited.await.is_err() {
            let fake = self.fake.lock();
            panic!("expected {expected:?}, there are {:?} after {:#?}", fake.versions(), fake.log);
        }
    }

    fn count(&self, result: &str) -> u64 {
        self.metrics.counters(&DOCUMENTS).value(&[result])
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

#[tokio::test(start_paused = true)]
async fn documents_follow_objects() {
    let (harness, member) = (Harness::start(Fake::default()), Member::default());
    for n in 0..2500 {
        member.put(object(&format!("pod-{n}"), 1));
    }
    let source = harness.add("m1", &member);
    while harness.fake.lock().versions().len() < 2500 {
        seconds(1).await;
    }
    let requests = ["POST /_bulk", "PUT /kubernetes-pod"].map(|it| harness.fake.lock().count(it));
    assert_eq!(requests, [3, 1]);
    assert_eq!(harness.fake.lock().mappings["kubernetes-pod"]["labels"]["type"], "flat_object");
    let document = harness.fake.lock().documents["kubernetes-pod"]["pod-7"].clone();
    assert_eq!(document["metadata"]["annotations"]["resource.karmada.io/cached-from-cluster"], "m1");
    assert_eq!(document["spec"], "{\"version\":1}");

    // A hundred changes of one object are few documents.
    let before = harness.count("written");
    for version in 2..=100 {
        harness.put(&source, &member, "pod-7", version);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    seconds(5).await;
    assert_eq!(harness.fake.lock().versions()["pod-7"], 100);
    assert!(harness.count("written") - before <= 3, "{}", harness.count("written") - before);
    (0..2499).for_each(|n| harness.delete(&source, &member, &format!("pod-{n}")));
    harness.until(&[("pod-2499", 1)]).await;
    assert_eq!(harness.count("deleted"), 2499);
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_only_differences_are_sent() {
    let mut fake = Fake { page: 2, ..Fake::default() };
    for (id, cluster, version) in
        [("same", "m1", 1), ("old", "m1", 1), ("gone", "m1", 1), ("gone-too", "m1", 1), ("other", "m2", 1)]
    {
        fake.put("kubernetes-pod", id, cluster, version);
    }
    let (harness, member) = (Harness::start(fake), Member::default());
    for (name, version) in [("same", 1), ("old", 2), ("new", 1)] {
        member.put(object(name, version));
    }
    member.lose();
    harness.add("m1", &member);
    seconds(120).await;
    // An incomplete cache proves nothing, and is not compared.
    assert_eq!(harness.fake.lock().log, Vec::<String>::new());
    member.find();
    harness.until(&[("same", 1), ("old", 2), ("new", 1), ("other", 1)]).await;
    assert_eq!((harness.count("written"), harness.count("deleted")), (2, 2));
    assert_eq!(harness.fake.lock().count("DELETE /_search/scroll"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_recreated_object_has_a_new_document() {
    let (harness, member) = (Harness::start(Fake::default()), Member::default());
    let source = harness.add("m1", &member);
    harness.put(&source, &member, "a", 1);
    harness.until(&[("a", 1)]).await;
    let old = member.delete("a");
    let mut tree = object("a", 2).to_value().expect("an object");
    tree["metadata"]["uid"] = json!("b");
    let new = member.put(Object::from_value(&tree).expect("an object"));
    harness.pending.mark(&source, &old);
    harness.pending.mark(&source, &new);
    harness.until(&[("b", 2)]).await;
}

#[tokio::test(start_paused = true)]
async fn only_selected_namespaces_are_written() {
    let (harness, member) = (Harness::start(Fake::default()), Member::default());
    member.put(object("a", 1));
    let source = Arc::new(source("m1", &member));
    source.select(&BTreeSet::from(["elsewhere".to_owned()]));
    harness.pending.add(&source);
    seconds(60).await;
    assert_eq!(harness.count("written"), 0);
    assert!(source.select(&BTreeSet::new()));
    harness.pending.unknown(&source);
    harness.until(&[("a", 1)]).await;
    // What is no longer selected stays, because it is not deleted.
    source.select(&BTreeSet::from(["elsewhere".to_owned()]));
    harness.pending.unknown(&source);
    seconds(60).await;
    harness.until(&[("a", 1)]).await;
}

/// The mapping of a service without flat objects.
#[tokio::test(start_paused = true)]
async fn older_services_get_a_simpler_mapping() {
    for (unknown, expected) in [(&["flat_object"][..], "flattened"), (&["flat_object", "flattened"], "object")] {
        let fake = Fake { unknown_types: unknown.iter().map(|it| (*it).to_owned()).collect(), ..Fake::default() };
        let (harness, member) = (Harness::start(fake), Member::default());
        member.put(object("a", 1));
        harness.add("m1", &member);
        harness.until(&[("a", 1)]).await;
        assert_eq!(harness.fake.lock().mappings["kubernetes-pod"]["labels"]["type"], expected);
    }
}

#[tokio::test(start_paused = true)]
async fn new_credentials_are_used_at_once() {
    let fake = Fake { user: Some("new".to_owned()), ..Fake::default() };
    let (harness, member) = (Harness::start(fake), Member::default());
    member.put(object("a", 1));
    harness.add("m1", &member);
    seconds(600).await;
    assert_eq!(harness.fake.lock().versions().len(), 0);
    harness.access.send_replace(Some(access("new")));
    seconds(2).await;
    assert_eq!(harness.fake.lock().versions().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn certificates_are_verified_if_the_secret_has_their_authority() {
    let seen = Arc::<Mutex<Vec<(bool, bool)>>>::default();
    let fake = Arc::new(Mutex::new(Fake::default()));
    let (service, endpoints) = (fake::service(&fake), seen.clone());
    let connect = move |endpoint: &Endpoint| {
        endpoints.lock().push((endpoint.insecure, endpoint.ca_bundle.is_some()));
        Ok(Client::in_process(service.clone(), Identity::default()))
    };
    let (harness, member) =
        (Harness::with_addresses(fake, &["https://os:9200"], Some(Arc::new(connect))), Member::default());
    let source = harness.add("m1", &member);
    harness.put(&source, &member, "a", 1);
    harness.until(&[("a", 1)]).await;
    let secret = json!({"data": {"ca.crt": "cGVt"}});
    let verified = Access::of(&Object::from_value(&secret).expect("a secret")).expect("an authority");
    harness.access.send_replace(Some(verified));
    harness.put(&source, &member, "a", 2);
    harness.until(&[("a", 2)]).await;
    assert_eq!(*seen.lock(), [(true, false), (false, true)]);
}

#[tokio::test(start_paused = true)]
async fn an_index_that_cannot_be_searched_is_written() {
    for code in [400, 403, 405] {
        let mut fake = Fake::default();
        fake.put("kubernetes-pod", "gone", "m1", 1);
        fake.faults.insert("POST /kubernetes-pod/_search".to_owned(), vec![Fault::Status(code); 1000]);
        let (harness, member) = (Harness::start(fake), Member::default());
        member.put(object("a", 1));
        harness.add("m1", &member);
        harness.until(&[("a", 1), ("gone", 1)]).await;
    }
}

/// The value at the path of a JSON document.
fn at<'v>(value: &'v Value, path: &[&str]) -> &'v Value {
    path.iter().fold(value, |value, key| &value[*key])
}
