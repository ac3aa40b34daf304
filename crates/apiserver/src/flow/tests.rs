use http::Method;
use serde_json::{Value, json};
use tokio::time::advance;

use super::bootstrap;
use super::*;
use crate::request::RequestInfo;

/// A flow control with the suggested objects and others, as the store would have them.
fn flow(settings: Settings, more: &[Value]) -> Arc<FlowControl> {
    let flow = FlowControl::new(&Registry::default(), 7);
    let mut objects = bootstrap::priority_levels();
    objects.extend(bootstrap::flow_schemas());
    objects.extend(more.iter().cloned());
    for object in objects {
        observe(&flow, Some(object), None);
    }
    flow.set(settings);
    flow
}

fn observe(flow: &FlowControl, current: Option<Value>, previous: Option<Value>) {
    let of = |object: Value| Object::from_value(&object).expect("an object").shared();
    let event = Event { revision: 1, current: current.map(of), previous: previous.map(of) };
    let known = event.current.as_ref().or(event.previous.as_ref()).expect("an object");
    let plural = if known.kind() == "FlowSchema" { "flowschemas" } else { "prioritylevelconfigurations" };
    flow.observe(&format!("flowcontrol.apiserver.k8s.io/{plural}"), &event);
}

fn level(name: &str, shares: u32, queues: Option<u32>) -> Value {
    let response = match queues {
        None => json!({"type": "Reject"}),
        Some(length) => json!({"type": "Queue", "queuing": {"queues": 1, "handSize": 1, "queueLengthLimit": length}}),
    };
    json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration",
        "metadata": {"name": name, "uid": format!("uid-{name}")},
        "spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": shares, "borrowingLimitPercent": 0,
            "lendablePercent": 0, "limitResponse": response}}})
}

/// A schema for one user.
fn schema(name: &str, level: &str, user: &str) -> Value {
    json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema",
        "metadata": {"name": name, "uid": format!("uid-{name}")},
        "spec": {"matchingPrecedence": 50, "priorityLevelConfiguration": {"name": level},
            "rules": [{"subjects": [{"kind": "User", "user": {"name": user}}],
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]}]}]}})
}

fn identity(user: &str, groups: &[&str]) -> Identity {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    Identity { user: user.to_owned(), groups, ..Identity::default() }
}

fn cache() -> Arc<Cache> {
    use futures::FutureExt as _;
    let store = Arc::new(storage::memory::MemoryStore::new());
    let (cache, _) = Cache::start(store, Vec::new()).now_or_never().expect("in memory").expect("an empty store");
    cache
}

struct Entered {
    entry: Entry,
    classified: OnceLock<Arc<Schema>>,
}

fn enter(flow: &FlowControl, user: &Identity, method: &Method, url: &str) -> Entered {
    let info = RequestInfo::parse(method, &url.parse().expect("a URL"));
    let classified = OnceLock::new();
    let entry = flow.enter(&cache(), &info, user, flow.request_timeout(), &classified);
    Entered { entry, classified }
}

fn get(flow: &FlowControl, user: &str) -> Entry {
    enter(flow, &identity(user, &["system:authenticated"]), &Method::GET, "/api/v1/namespaces/a/pods/b").entry
}

fn code(entry: &Entry) -> &'static str {
    match entry {
        Entry::Runs(Some(_)) => "runs",
        Entry::Runs(None) => "unlimited",
        Entry::Waits(_) => "waits",
        Entry::Refused(status) => {
            assert_eq!(status.code, 429);
            "refused"
        }
    }
}

#[tokio::test(start_paused = true)]
async fn requests_match_kube_apiservers_schemas_and_levels() {
    let flow = flow(Settings::default(), &[]);
    let account = "system:serviceaccount:kube-system:generic-garbage-collector";
    let accounts = &["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"][..];
    for (user, groups, method, url, expected) in [
        ("admin", &["system:masters", "system:authenticated"][..], Method::GET, "/api/v1/pods", "exempt/exempt"),
        ("jane", &["system:authenticated"], Method::GET, "/healthz", "probes/exempt"),
        ("system:anonymous", &["system:unauthenticated"], Method::GET, "/readyz", "probes/exempt"),
        ("jane", &["system:authenticated"], Method::GET, "/readyz/etcd", "global-default/global-default"),
        ("jane", &["system:authenticated"], Method::GET, "/api/v1/pods", "global-default/global-default"),
        ("jane", &["system:authenticated"], Method::GET, "/api/v1/pods?watch=1", "global-default/global-default"),
        ("jane", &["system:authenticated"], Method::GET, "/api/v1/namespaces/a/pods/b/log", "-"),
        ("jane", &[], Method::GET, "/api/v1/pods", "catch-all/catch-all"),
        (account, accounts, Method::GET, "/api/v1/pods", "kube-system-service-accounts/workload-high"),
        (
            "system:serviceaccount:a:b",
            &["system:serviceaccounts"],
            Method::GET,
            "/api/v1/pods",
            "service-accounts/workload-low",
        ),
        (
            "system:kube-scheduler",
            &[],
            Method::PUT,
            "/apis/coordination.k8s.io/v1/namespaces/a/leases/b",
            "system-leader-election/leader-election",
        ),
        ("system:kube-scheduler", &[], Method::GET, "/api/v1/pods", "kube-scheduler/workload-high"),
        ("system:node:n", &["system:nodes"], Method::PATCH, "/api/v1/nodes/n/status", "system-node-high/node-high"),
        ("system:node:n", &["system:nodes"], Method::GET, "/api/v1/pods", "system-nodes/system"),
    ] {
        let entered = enter(&flow, &identity(user, groups), &method, url);
        let found = entered.classified.get();
        let found = found.map_or("-".to_owned(), |schema| format!("{}/{}", schema.name, schema.level.name()));
        assert_eq!(found, expected, "{user} {method} {url}");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_are_queued_rejected_and_cancelled() {
    // One of 100 shares, so one seat, and the other levels have 245 shares.
    let settings = Settings { reads: 10, writes: 0, ..Settings::default() };
    let flow = flow(settings, &[level("narrow", 1, Some(2)), schema("jane", "narrow", "jane")]);
    let first = get(&flow, "jane");
    let Entry::Waits(mut second) = get(&flow, "jane") else { panic!("one seat") };
    let third = get(&flow, "jane");
    assert_eq!([code(&first), code(&third), code(&get(&flow, "jane"))], ["runs", "waits", "refused"]);
    assert_eq!(code(&get(&flow, "other")), "runs", "another level");
    assert!(futures::poll!(&mut second).is_pending());
    drop(third);
    assert_eq!(code(&get(&flow, "jane")), "waits", "the place of one that left");
    drop(first);
    let second = second.await.expect("its turn");
    // A quarter of a minute.
    let Entry::Waits(late) = get(&flow, "jane") else { panic!("one seat") };
    let refused = late.await.expect_err("nothing ends");
    let text = serde_json::to_string(&refused).expect("JSON");
    assert!(text.contains("Too many requests, please try again later.") && text.contains(r#""retryAfterSeconds":1"#));
    drop(second);
    assert_eq!(code(&get(&flow, "jane")), "runs");
    let text = {
        let mut samples = Vec::new();
        for schema in flow.plan.load().schemas.iter().filter(|schema| schema.name == "jane") {
            samples.push((
                schema.stats.refusals(),
                schema.stats.executing.load(Relaxed),
                schema.stats.waiting.load(Relaxed),
            ));
        }
        samples
    };
    assert_eq!(text, [([1, 1, 2], 0, 0)]);
}

#[tokio::test(start_paused = true)]
async fn a_seat_granted_to_a_cancelled_request_is_released() {
    let settings = Settings { reads: 1, writes: 0, ..Settings::default() };
    let flow = flow(settings, &[level("narrow", 1, Some(9)), schema("jane", "narrow", "jane")]);
    for _ in 0..3 {
        let first = get(&flow, "jane");
        assert_eq!(code(&first), "runs");
        let second = get(&flow, "jane");
        drop(first);
        // The seat is granted, but the request has not been polled yet.
        drop(second);
    }
    assert_eq!(code(&get(&flow, "jane")), "runs");
}

#[tokio::test(start_paused = true)]
async fn changed_objects_take_effect_at_once() {
    let settings = Settings { reads: 10, writes: 0, ..Settings::default() };
    let objects = [level("narrow", 1, None), schema("jane", "narrow", "jane")];
    let flow = flow(settings, &objects);
    let mut held = vec![get(&flow, "jane"), get(&flow, "jane")];
    assert_eq!([code(&held[0]), code(&held[1])], ["runs", "refused"]);
    observe(&flow, Some(level("narrow", 1, Some(5))), None);
    held.push(get(&flow, "jane"));
    assert_eq!(code(&held[2]), "waits");
    observe(&flow, Some(level("narrow", 100_000, Some(5))), None);
    let Some(Entry::Waits(waits)) = held.pop() else { panic!("it waits") };
    let more = waits.await.expect("the level has more seats now");
    observe(&flow, None, Some(objects[0].clone()));
    let user = identity("jane", &["system:authenticated"]);
    let entered = enter(&flow, &user, &Method::GET, "/api/v1/pods");
    assert_eq!(
        entered.classified.get().expect("classified").name,
        "global-default",
        "a schema without a level is ignored"
    );
    drop((more, held));
    for object in bootstrap::flow_schemas().into_iter().chain(bootstrap::priority_levels()) {
        observe(&flow, None, Some(object));
    }
    let entered = enter(&flow, &user, &Method::GET, "/api/v1/pods");
    assert_eq!(
        entered.classified.get().expect("classified").name,
        "catch-all",
        "mandatory objects are always in effect"
    );
}

#[tokio::test(start_paused = true)]
async fn an_idle_level_lends_its_seats() {
    let settings = Settings { reads: 40, writes: 0, ..Settings::default() };
    let mut borrows = level("narrow", 25, Some(500));
    borrows["spec"]["limited"]["borrowingLimitPercent"] = Value::Null;
    let flow = flow(settings, &[borrows, schema("jane", "narrow", "jane")]);
    let mut entries: Vec<Entry> = (0..60).map(|_| get(&flow, "jane")).collect();
    let running = |entries: &[Entry]| entries.iter().filter(|entry| code(entry) == "runs").count();
    assert_eq!(running(&entries), 4, "25 of 270 shares of 40 seats");
    let waiting: Vec<_> = entries.split_off(4).into_iter().map(tokio_test_wait).collect();
    advance(Duration::from_secs(11)).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let served = waiting.iter().filter(|task| task.is_finished()).count();
    assert!(served > 10, "{served} more with the seats of idle levels");
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

/// Waits in a task, and holds the seat until the end of the test.
fn tokio_test_wait(entry: Entry) -> tokio::task::JoinHandle<Option<Seat>> {
    tokio::spawn(async move {
        match entry {
            Entry::Waits(wait) => wait.await.ok(),
            _ => None,
        }
    })
}

#[tokio::test(start_paused = true)]
async fn without_fairness_reads_and_writes_have_one_limit_each() {
    let settings = Settings { reads: 1, writes: 1, is_fair: false, ..Settings::default() };
    let flow = flow(settings, &[]);
    let user = identity("jane", &["system:authenticated"]);
    let masters = identity("admin", &["system:masters"]);
    let held = get(&flow, "jane");
    let write = enter(&flow, &user, &Method::POST, "/api/v1/namespaces/a/pods");
    assert_eq!([code(&held), code(&write.entry)], ["runs", "runs"]);
    assert_eq!(code(&get(&flow, "other")), "refused");
    assert_eq!(code(&enter(&flow, &masters, &Method::GET, "/api/v1/pods").entry), "unlimited");
    assert_eq!(code(&enter(&flow, &user, &Method::GET, "/api/v1/pods?watch=1").entry), "unlimited");
    drop(held);
    let again = enter(&flow, &user, &Method::GET, "/api/v1/pods");
    assert_eq!((code(&again.entry), again.classified.get().is_some()), ("runs", false));
}

#[test]
fn settings_are_checked() {
    let none = Settings { reads: 0, writes: 0, ..Settings::default() };
    assert!(none.check().expect_err("no seats").contains("--enable-priority-and-fairness"));
    assert_eq!(Settings { is_fair: false, ..none }.check(), Ok(()));
    assert!(Settings { request_timeout: Duration::ZERO, ..Settings::default() }.check().is_err());
    assert_eq!(Settings::default().check(), Ok(()));
}

#[test]
fn lists_and_initial_watches_are_charged_by_objects() {
    let listing = |url: &str| {
        let listing = listing(&cache(), &RequestInfo::parse(&Method::GET, &url.parse().expect("a URL")));
        (listing.limit, listing.has_selector, listing.is_cached)
    };
    for (url, expected) in [
        ("/api/v1/pods", (0, false, true)),
        ("/api/v1/pods?limit=500", (500, false, false)),
        ("/api/v1/pods?limit=500&resourceVersion=0", (500, false, true)),
        ("/api/v1/pods?limit=500&labelSelector=a", (500, true, false)),
        ("/api/v1/pods?fieldSelector=metadata.name%3Db", (0, false, false)),
        ("/api/v1/pods?watch=1", (0, false, true)),
        ("/api/v1/pods?watch=1&resourceVersion=5", (0, false, false)),
        ("/api/v1/pods?watch=1&resourceVersion=5&sendInitialEvents=true", (0, false, true)),
    ] {
        assert_eq!(listing(url), expected, "{url}");
    }
}

/// Measures requests that find a free seat, `REQUESTS` of them for `USER`: the cost is the difference to a run without
/// requests (docs/benchmarks.md).
#[tokio::test]
#[ignore = "counts nothing by itself: run it with valgrind or perf"]
async fn measure_requests_with_a_free_seat() {
    let of = |name: &str, default: &str| std::env::var(name).unwrap_or(default.to_owned());
    let count: usize = of("REQUESTS", "1000").parse().expect("a number");
    let (flow, cache) = (flow(Settings::default(), &[]), cache());
    let user = match of("USER", "jane").as_str() {
        "admin" => identity("admin", &["system:masters", "system:authenticated"]),
        user => identity(user, &["system:authenticated"]),
    };
    let url = "/api/v1/namespaces/a/configmaps/b".parse().expect("a URL");
    let info = RequestInfo::parse(&Method::GET, &url);
    for _ in 0..count {
        let classified = OnceLock::new();
        let entry = flow.enter(&cache, &info, &user, Duration::from_secs(60), &classified);
        assert!(matches!(entry, Entry::Runs(Some(_))) && classified.get().is_some());
    }
}
