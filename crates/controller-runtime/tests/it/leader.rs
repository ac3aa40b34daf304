//! Two replicas and one Lease, on virtual time.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use apiserver::auth::authn::Authentication;
use apiserver::{ApiServer, Authorization, ServerConfig};
use client::{Client, DeleteOptions, Error, Fence, Patch, PatchOptions};
use controller_runtime::LeaderElection;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use transport::{ApiService, Identity, Request, Response};
use world::World;

async fn server(world: &World) -> ApiServer {
    let config = ServerConfig {
        store: Arc::new(storage::memory::MemoryStore::new()),
        world: world.clone(),
        resources: kubernetes_api::resources(),
        admission: Vec::new(),
        authentication: Box::new(|_| Authentication::default()),
        authorization: Authorization::AlwaysAllow,
        routes: Vec::new(),
        crds: Vec::new(),
        converters: Default::default(),
        version: Default::default(),
    };
    ApiServer::start(config).await.expect("the server starts")
}

fn leases() -> ApiResource {
    ApiResource::namespaced("coordination.k8s.io", "v1", "Lease", "leases")
}

async fn spec(client: &Client) -> Value {
    let lease = client.get(&leases(), &ObjectKey::namespaced("default", "one")).await.expect("a Lease");
    lease.to_value().expect("JSON")["spec"].clone()
}

#[tokio::test(start_paused = true)]
async fn one_leader_works_at_a_time() {
    let world = World::simulated("2026-11-21T10:00:00Z".parse().expect("a time"), 7);
    let server = server(&world).await;
    let client = Client::in_process(server.service(), Identity::system("test"));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    client.create(&namespaces, &namespace).await.expect("a namespace");
    let election =
        |identity: &str| LeaderElection { identity: identity.into(), ..LeaderElection::new("default", "one", &world) };

    let (stop_a, stop_b) = (CancellationToken::new(), CancellationToken::new());
    let a = election("a").acquire(&client, &world, &stop_a).await.expect("no other candidate");
    let taken = spec(&client).await;
    assert_eq!((&taken["holderIdentity"], &taken["leaseDurationSeconds"]), (&json!("a"), &json!(15)));
    assert_eq!((&taken["leaseTransitions"], &taken["acquireTime"]), (&json!(0), &json!("2026-11-21T10:00:00.000000Z")));
    let a = tokio::spawn({
        let stop = stop_a.clone();
        async move { a.keep(&stop).await }
    });
    let (b, (waiting, clock)) = (election("b"), (client.clone(), world.clone()));
    let stop = stop_b.clone();
    let b = tokio::spawn(async move { b.acquire(&waiting, &clock, &stop).await });
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(!b.is_finished(), "a renews");
    assert_ne!(spec(&client).await["renewTime"], taken["renewTime"]);

    // A process that ends releases the Lease, so the next need not wait for its expiry.
    let ended = Instant::now();
    stop_a.cancel();
    assert!(a.await.expect("no panic"), "it was stopped, not beaten");
    let b = b.await.expect("no panic").expect("it is free");
    assert!(ended.elapsed() < Duration::from_secs(3), "{:?}", ended.elapsed());
    let taken = spec(&client).await;
    assert_eq!((&taken["holderIdentity"], &taken["leaseTransitions"]), (&json!("b"), &json!(1)));

    // A holder that stops renewing keeps the Lease until it expires.
    drop(b);
    let silent = Instant::now();
    let c = election("c").acquire(&client, &world, &stop_b).await.expect("it runs out");
    assert!(silent.elapsed() >= Duration::from_secs(15) && silent.elapsed() < Duration::from_secs(19));

    // A process that finds another holder has lost the Lease.
    let c = tokio::spawn(async move { c.keep(&CancellationToken::new()).await });
    tokio::time::sleep(Duration::from_secs(5)).await;
    let usurped = Patch::Merge(json!({"spec": {"holderIdentity": "d", "leaseDurationSeconds": 60}}));
    let key = ObjectKey::namespaced("default", "one");
    client.patch(&leases(), &key, &usurped, &PatchOptions::default()).await.expect("a patch");
    assert!(!c.await.expect("no panic"));
    client.delete(&leases(), &key, &DeleteOptions::default()).await.expect("it goes");
}

/// The clocks of both replicas and of the server go back and forth by a day. The Lease ends neither earlier nor later
/// by it.
#[tokio::test(start_paused = true)]
async fn wrong_clocks_move_no_lease() {
    const DAY: i64 = 86_400;
    let clocks: [Arc<AtomicI64>; 3] = Default::default();
    let [first, second, of_server] = clocks.clone().map(World::skewed_by);
    let server = server(&of_server).await;
    let client = Client::in_process(server.service(), Identity::system("test"));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    client.create(&namespaces, &namespace).await.expect("a namespace");
    let election =
        |identity: &str| LeaderElection { identity: identity.into(), ..LeaderElection::new("default", "one", &first) };
    let (stop, never) = (CancellationToken::new(), CancellationToken::new());
    let a = election("a").acquire(&client, &first, &stop).await.expect("no other candidate");
    let a = tokio::spawn({
        let stop = stop.clone();
        async move { a.keep(&stop).await }
    });
    let b = tokio::spawn({
        let (b, client, never) = (election("b"), client.clone(), never.clone());
        async move { b.acquire(&client, &second, &never).await }
    });
    for round in 0..60 {
        for (number, clock) in clocks.iter().enumerate() {
            clock.store(DAY * [0, 1, -1, 3][(round + number) % 4], SeqCst);
        }
        tokio::time::sleep(Duration::from_secs(7)).await;
        assert!(!a.is_finished(), "round {round}: the holder renews, whatever its clock shows");
        assert!(!b.is_finished(), "round {round}: the Lease is held");
    }
    // The holder is killed, with its clock a day ahead.
    clocks[0].store(DAY, SeqCst);
    tokio::time::sleep(Duration::from_secs(3)).await;
    a.abort();
    let killed = Instant::now();
    b.await.expect("no panic").expect("the Lease runs out");
    let waited = killed.elapsed();
    assert!(waited > Duration::from_secs(12) && waited < Duration::from_secs(18), "{waited:?}");
}

fn writes(client: &Client) -> u64 {
    client.request_counts().iter().filter(|count| count.verb != "get").map(|count| count.count).sum()
}

/// The process stands still for longer than its Lease, and another one takes it over. When it continues, any of its tasks may
/// run before the one that keeps the Lease.
#[tokio::test(start_paused = true)]
async fn a_leader_that_stood_still_writes_nothing() {
    let world = World::simulated("2026-11-21T10:00:00Z".parse().expect("a time"), 7);
    let server = server(&world).await;
    let client = Client::in_process(server.service(), Identity::system("test"));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    client.create(&namespaces, &namespace).await.expect("a namespace");
    let election = |who: &str| LeaderElection { identity: who.into(), ..LeaderElection::new("default", "one", &world) };
    let (stop, of_a) = (CancellationToken::new(), client.with_user_agent("a"));
    let a = election("a").acquire(&of_a, &world, &stop).await.expect("no other candidate");
    let work = client.fenced(Some(a.fence()));
    let maps = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}});
    work.create(&maps, &map("before")).await.expect("the Lease is valid");

    tokio::time::advance(Duration::from_secs(60)).await;
    let usurped = Patch::Merge(json!({"spec": {"holderIdentity": "b"}}));
    let key = ObjectKey::namespaced("default", "one");
    client.patch(&leases(), &key, &usurped, &PatchOptions::default()).await.expect("another one takes over");
    let refused = work.create(&maps, &map("after")).await;
    assert!(matches!(refused, Err(Error::Fenced { .. })), "{refused:?}");
    work.get(&maps, &ObjectKey::namespaced("default", "before")).await.expect("reads are allowed");
    let before = writes(&of_a);
    assert!(!a.keep(&stop).await, "it is lost");
    assert_eq!(writes(&of_a), before, "nothing was sent");
    let refused = work.create(&maps, &map("after")).await;
    assert!(matches!(refused, Err(Error::Fenced { .. })), "{refused:?}");
}

type Answer = BoxFuture<'static, Result<Response, Infallible>>;

/// A server whose responses to requests with `method` arrive after `delay`.
fn slow(service: ApiService, method: http::Method, delay: Duration) -> ApiService {
    ApiService::new(tower::service_fn(move |request: Request| {
        let is_late = request.method() == method;
        // The request is sent when this is awaited.
        let answer: Answer = Box::pin(service.clone().oneshot(request));
        let late: Answer = Box::pin(async move {
            let answer = answer.await;
            if is_late {
                tokio::time::sleep(delay).await;
            }
            answer
        });
        late
    }))
}

/// The leader of an election without other candidates. The responses to its requests of a method are late.
async fn only_candidate(method: http::Method, delay: Duration) -> (Fence, JoinHandle<bool>, CancellationToken) {
    let world = World::simulated("2026-11-21T10:00:00Z".parse().expect("a time"), 7);
    let server = server(&world).await;
    let client = Client::in_process(server.service(), Identity::system("test"));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    client.create(&namespaces, &namespace).await.expect("a namespace");
    let late = Client::in_process(slow(server.service(), method, delay), Identity::system("test"));
    let election = LeaderElection { identity: "a".into(), ..LeaderElection::new("default", "one", &world) };
    let stop = CancellationToken::new();
    let a = election.acquire(&late, &world, &stop).await.expect("no other candidate");
    let fence = a.fence();
    let kept = tokio::spawn({
        let stop = stop.clone();
        async move { a.keep(&stop).await }
    });
    (fence, kept, stop)
}

/// The Lease is valid from the time before its renewal was sent: the process stood still between the write and its response.
#[tokio::test(start_paused = true)]
async fn a_renewal_whose_response_is_late_is_worth_nothing() {
    let (fence, a, _stop) = only_candidate(http::Method::PUT, Duration::from_secs(1)).await;
    // During the response to the first renewal, two seconds after the start.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert!(fence.is_open() && !a.is_finished());
    tokio::time::advance(Duration::from_secs(20)).await;
    assert!(!fence.is_open());
    assert!(!a.await.expect("no panic"), "the Lease may be another's");
    assert!(!fence.is_open());
}

/// Many processes start at once, so the response to the write that acquires the Lease takes most of the deadline, or more.
#[tokio::test(start_paused = true)]
async fn a_lease_that_was_acquired_slowly_is_kept() {
    for delay in [8_500, 9_900, 11_000] {
        let (fence, a, stop) = only_candidate(http::Method::POST, Duration::from_millis(delay)).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(fence.is_open() && !a.is_finished(), "{delay} ms: the Lease is renewed");
        stop.cancel();
        assert!(a.await.expect("no panic"), "{delay} ms: it was stopped");
    }
}
