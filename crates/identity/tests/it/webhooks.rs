//! Webhooks that review tokens and requests.

use std::sync::Arc;
use std::time::Duration;

use apiserver::auth::authz::{self, Attributes, Authorizer, Decision, ResourceAttributes, Selectors};
use identity::authorization::{Authorizer as Configured, Configuration};
use identity::{Chain, Entry, Reviewer, Version, WebhookTokens};
use serde_json::{Value, json};
use tokio::time::Instant;
use transport::Identity;

use crate::loopback::{Loopback, Reply};

const TIMEOUT: Duration = Duration::from_secs(30);

fn answered(review: &Value, status: Value) -> Reply {
    let mut review = review.clone();
    review["status"] = status;
    Reply::json(&review)
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

#[tokio::test]
async fn tokens_are_reviewed() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Loopback::start(|_, review| {
        let user = json!({"username": "ann", "uid": "7", "groups": ["a"], "extra": {"k": ["v"]}});
        let good = |more: Value| {
            let mut status = json!({"authenticated": true, "user": user});
            status.as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
            answered(review, status)
        };
        match review["spec"]["token"].as_str().unwrap_or_default() {
            "good" => good(json!({})),
            "aware" => good(json!({"audiences": ["one"]})),
            "nameless" => answered(review, json!({"authenticated": true, "user": {}})),
            "bad" => answered(review, json!({"authenticated": false, "error": "no"})),
            "other" => Reply::json(&json!({"apiVersion": "v1", "kind": "Pod"})),
            "html" => Reply::Body(200, "<html>".into()),
            "deep" => Reply::Body(200, "[".repeat(1 << 19)),
            "empty" => Reply::Body(204, String::new()),
            "text" => answered(review, json!("authenticated")),
            "yes" => answered(review, json!({"authenticated": "true", "user": user})),
            "odd" => {
                answered(review, json!({"authenticated": true, "user": {"username": 7, "groups": "system:masters"}}))
            }
            "groups" => {
                answered(review, json!({"authenticated": true, "user": {"username": "ann", "groups": {"a": 1}}}))
            }
            "forbidden" => Reply::Body(403, String::new()),
            _ => Reply::Body(200, "x".repeat(2 << 20)),
        }
    })
    .await;
    let reviewer = Reviewer::of_kubeconfig(&server.kubeconfig(directory.path()), TIMEOUT).await.expect("a webhook");
    let webhook = WebhookTokens::new(reviewer, Version::V1, Duration::from_secs(60));
    let own = texts(&["https://own"]);
    let found = webhook.user("good", &own, &own).await.expect("valid");
    let ann = Identity {
        user: "ann".into(),
        uid: "7".into(),
        groups: texts(&["a"]),
        extra: vec![("k".into(), texts(&["v"]))],
    };
    assert_eq!(found, (ann, own.clone()));
    for (token, requested, expected) in [
        ("good", &["https://own", "x"][..], Some(&["https://own"][..])),
        ("good", &["x"], None),
        ("aware", &["one", "two"], Some(&["one"])),
        ("aware", &["two"], None),
        ("nameless", &["https://own"], None),
        ("bad", &["https://own"], None),
        ("other", &["https://own"], None),
        ("html", &["https://own"], None),
        ("deep", &["https://own"], None),
        ("empty", &["https://own"], None),
        ("text", &["https://own"], None),
        ("yes", &["https://own"], None),
        ("odd", &["https://own"], None),
        ("groups", &["https://own"], Some(&["https://own"])),
        ("forbidden", &["https://own"], None),
    ] {
        let found = webhook.user(token, &texts(requested), &own).await.map(|(_, audiences)| audiences);
        assert_eq!(found, expected.map(texts), "{token} {requested:?}");
    }
    // Answers are remembered, failures are not; an oversized token is no question.
    server.take_requests();
    for token in ["good", "bad"] {
        webhook.user(token, &own, &own).await;
        assert!(server.take_requests().is_empty(), "{token}");
    }
    webhook.user("html", &own, &own).await;
    let requests = server.take_requests();
    assert_eq!((requests.len(), requests[0].0.as_str()), (1, "/review"));
    assert_eq!(requests[0].1["spec"], json!({"token": "html", "audiences": ["https://own"]}));
    assert!(webhook.user(&"x".repeat(70_000), &own, &own).await.is_none() && server.take_requests().is_empty());
}

struct Rbac;

impl Authorizer for Rbac {
    fn authorize(&self, user: &Identity, _: &Attributes) -> Decision {
        if user.user == "ann" { Decision::Allow("RBAC".into()) } else { Decision::NoOpinion(String::new()) }
    }
}

/// The authorizers of a configuration with this webhook.
async fn chain(server: &Loopback, order: &[&str], changes: Value) -> Chain {
    let directory = tempfile::tempdir().expect("a directory");
    let places = server.kubeconfig(directory.path());
    let authorizers = order.iter().map(|type_| {
        let mut item = json!({"type": type_, "name": type_.to_lowercase()});
        if *type_ == "Webhook" {
            item["webhook"] = json!({"timeout": "3s", "subjectAccessReviewVersion": "v1",
                "matchConditionSubjectAccessReviewVersion": "v1", "failurePolicy": "NoOpinion",
                "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": "/x"}});
            item["webhook"].as_object_mut().expect("a map").extend(changes.as_object().expect("a map").clone());
        }
        item
    });
    let file = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration",
                      "authorizers": authorizers.collect::<Vec<_>>()});
    let parsed = Configuration::parse(file.to_string().as_bytes()).expect("a configuration");
    let mut entries = Vec::new();
    for authorizer in parsed.authorizers {
        entries.push(match authorizer {
            Configured::Webhook(settings) => {
                let reviewer = Reviewer::of_kubeconfig(&places, settings.timeout).await.expect("a webhook");
                Entry::webhook(settings, reviewer)
            }
            Configured::AlwaysDeny => Entry::AlwaysDeny,
            _ => Entry::Local(Arc::new(Rbac)),
        });
    }
    Chain::new(entries)
}

fn requested(verb: &str) -> Attributes {
    Attributes::Resource(ResourceAttributes {
        verb: verb.into(),
        version: "v1".into(),
        resource: "pods".into(),
        namespace: "ns".into(),
        selectors: Selectors::of("spec.nodeName=n1", "app in (a,b),!c"),
        ..ResourceAttributes::default()
    })
}

fn user(name: &str, groups: &[&str]) -> Identity {
    Identity { user: name.into(), groups: texts(groups), ..Identity::default() }
}

async fn shown(chain: &Chain, name: &str, verb: &str) -> String {
    match authz::decide(chain, &user(name, &["g"]), &requested(verb)).await {
        Decision::Allow(reason) => format!("allow {reason}"),
        Decision::Deny(reason) => format!("deny {reason}"),
        Decision::NoOpinion(reason) => format!("none {reason}"),
    }
}

/// The verb selects the webhook's response.
async fn authorizing() -> Loopback {
    Loopback::start(|_, review| {
        let verb = review["spec"]["resourceAttributes"]["verb"].as_str().unwrap_or_default().to_owned();
        match verb.as_str() {
            "allow" => answered(review, json!({"allowed": true, "reason": "hook"})),
            "deny" => answered(review, json!({"allowed": false, "denied": true, "reason": "hook"})),
            "both" => answered(review, json!({"allowed": true, "denied": true})),
            "none" => answered(review, json!({"allowed": false, "reason": "not mine"})),
            "silent" => Reply::Silence,
            "close" => Reply::Close,
            "begin" => Reply::Begun("{\"status\":".into()),
            "huge" => Reply::Body(200, "x".repeat(2 << 20)),
            "deep" => Reply::Body(200, "[".repeat(1 << 19)),
            "text" => answered(review, json!("allowed")),
            "yes" => answered(review, json!({"allowed": "true"})),
            "failing" => Reply::Body(500, String::new()),
            _ => Reply::Body(403, String::new()),
        }
    })
    .await
}

#[tokio::test]
async fn authorizers_decide_in_order() {
    let server = authorizing().await;
    let first = chain(&server, &["Webhook", "RBAC"], json!({})).await;
    let last = chain(&server, &["RBAC", "Webhook"], json!({})).await;
    let closed = chain(&server, &["Webhook", "AlwaysDeny"], json!({"failurePolicy": "Deny"})).await;
    for (chain, name, verb, expected) in [
        (&first, "ann", "allow", "allow hook"),
        (&first, "ann", "deny", "deny hook"),
        (&first, "ann", "none", "allow RBAC"),
        (&first, "bob", "none", "none not mine"),
        (&first, "ann", "both", "allow RBAC"),
        (&first, "ann", "refuse", "allow RBAC"),
        (&last, "ann", "deny", "allow RBAC"),
        (&last, "bob", "deny", "deny hook"),
        (&last, "bob", "allow", "allow hook"),
        (&first, "ann", "huge", "allow RBAC"),
        (&first, "ann", "deep", "allow RBAC"),
        (&first, "bob", "yes", "none "),
        (&first, "bob", "text", "none "),
        (&closed, "ann", "huge", "deny authorization webhook \"webhook\" did not decide"),
        (&closed, "ann", "both", "deny authorization webhook \"webhook\" did not decide"),
        (&closed, "ann", "none", "none not mine\nEverything is forbidden."),
    ] {
        assert_eq!(shown(chain, name, verb).await, expected, "{name} {verb}");
    }
    // Administrators are allowed before any webhook, so that a broken one locks no administrator out.
    server.take_requests();
    let masters = user("root", &["system:masters"]);
    assert!(
        authz::decide(&closed, &masters, &requested("deny")).await.is_allowed() && server.take_requests().is_empty()
    );
}

#[tokio::test]
async fn reviews_describe_the_request_and_are_remembered() {
    let server = authorizing().await;
    let hook = chain(&server, &["Webhook"], json!({"unauthorizedTTL": "10s", "authorizedTTL": "20s"})).await;
    assert_eq!(shown(&hook, "bob", "allow").await, "allow hook");
    assert_eq!(
        server.take_requests()[0].1["spec"],
        json!({"user": "bob", "groups": ["g"], "resourceAttributes": {
            "namespace": "ns", "verb": "allow", "version": "v1", "resource": "pods",
            "fieldSelector": {"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n1"]}]},
            "labelSelector": {"requirements": [{"key": "app", "operator": "In", "values": ["a", "b"]},
                                               {"key": "c", "operator": "DoesNotExist"}]}}})
    );
    assert_eq!(shown(&hook, "bob", "none").await, "none not mine");
    server.take_requests();
    // Recent decisions are returned without a call, which secondary checks rely on.
    assert!(hook.authorize(&user("bob", &["g"]), &requested("allow")).is_allowed());
    assert!(!hook.authorize(&user("eve", &["g"]), &requested("allow")).is_allowed(), "nothing is known of her");
    // Without a cached decision, the failure policy applies.
    for (policy, expected) in [("NoOpinion", true), ("Deny", false)] {
        let chain = chain(&server, &["Webhook", "RBAC"], json!({ "failurePolicy": policy })).await;
        assert_eq!(chain.authorize(&user("ann", &[]), &requested("allow")).is_allowed(), expected, "{policy}");
    }
    assert_eq!(shown(&hook, "bob", "allow").await, "allow hook");
    assert!(server.take_requests().is_empty());
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    shown(&hook, "bob", "allow").await;
    assert!(server.take_requests().is_empty(), "allowing answers stay longer");
    shown(&hook, "bob", "none").await;
    assert_eq!(server.take_requests().len(), 1);
    let old = chain(&server, &["Webhook"], json!({"subjectAccessReviewVersion": "v1beta1"})).await;
    shown(&old, "bob", "allow").await;
    let review = server.take_requests().remove(0).1;
    assert_eq!(
        (&review["apiVersion"], &review["spec"]["group"]),
        (&json!("authorization.k8s.io/v1beta1"), &json!(["g"]))
    );
    assert!(review["spec"]["resourceAttributes"]["labelSelector"].is_null());
    let forgetful = chain(&server, &["Webhook"], json!({"cacheAuthorizedRequests": false})).await;
    for _ in 0..2 {
        shown(&forgetful, "bob", "allow").await;
    }
    assert_eq!(server.take_requests().len(), 2);
}

#[tokio::test]
async fn conditions_choose_the_requests() {
    let server = authorizing().await;
    let of = |expressions: &[&str], policy: &str| {
        let conditions: Vec<Value> = expressions.iter().map(|it| json!({ "expression": it })).collect();
        json!({"matchConditions": conditions, "failurePolicy": policy})
    };
    let pods = "has(request.resourceAttributes) && request.resourceAttributes.resource == 'pods'";
    let missing = "request.resourceAttributes.fieldSelector.rawSelector == ''";
    for (conditions, expected) in [
        (of(&[pods], "Deny"), "allow hook"),
        (of(&[pods, "request.user != 'bob'"], "Deny"), "none "),
        (of(&[missing], "Deny"), "deny authorization webhook \"webhook\" did not decide"),
        (of(&[missing], "NoOpinion"), "none "),
        (of(&[missing, "false"], "Deny"), "none "),
        (of(&["request.resourceAttributes.__namespace__ == 'ns'"], "Deny"), "allow hook"),
        (of(&["'g' in request.groups"], "Deny"), "allow hook"),
    ] {
        let hook = chain(&server, &["Webhook"], conditions.clone()).await;
        assert_eq!(shown(&hook, "bob", "allow").await, expected, "{conditions}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_webhook_delays_its_own_requests_alone() {
    tokio::time::resume();
    let server = authorizing().await;
    let hook = Arc::new(chain(&server, &["RBAC", "Webhook"], json!({"failurePolicy": "Deny"})).await);
    let slow = {
        let hook = Arc::clone(&hook);
        tokio::spawn(async move { shown(&hook, "bob", "silent").await })
    };
    assert_eq!(shown(&hook, "ann", "silent").await, "allow RBAC");
    assert_eq!(shown(&hook, "bob", "allow").await, "allow hook");
    assert!(!slow.is_finished());
    tokio::time::pause();
    let begun = Instant::now();
    assert_eq!(slow.await.expect("no panic"), "deny authorization webhook \"webhook\" did not decide");
    for verb in ["close", "begin", "failing"] {
        assert_eq!(shown(&hook, "bob", verb).await, "deny authorization webhook \"webhook\" did not decide", "{verb}");
    }
    assert!(begun.elapsed() <= Duration::from_secs(4 * 3 + 1), "each within its time-out: {:?}", begun.elapsed());
}

/// Requests with unknown tokens come before anything is known of their senders.
#[tokio::test]
async fn a_hanging_webhook_holds_a_bounded_number_of_tokens_for_a_bounded_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Loopback::start(|_, _| Reply::Silence).await;
    let reviewer = Reviewer::of_kubeconfig(&server.kubeconfig(directory.path()), TIMEOUT).await.expect("a webhook");
    let tokens = Arc::new(WebhookTokens::new(reviewer, Version::V1, Duration::from_secs(60)));
    let user = |token: String| {
        let (tokens, own) = (Arc::clone(&tokens), texts(&["own"]));
        tokio::spawn(async move { tokens.user(&token, &own, &own).await })
    };
    // Requests with the same token share a review, also once the first of them is cancelled.
    let first = user("same".into());
    let same: Vec<_> = (0..50).map(|_| user("same".into())).collect();
    while server.received() == 0 {
        tokio::task::yield_now().await;
    }
    first.abort();
    while server.received() == 1 {
        tokio::task::yield_now().await;
    }
    let others: Vec<_> = (0..3_000).map(|n| user(format!("t{n}"))).collect();
    let refused = || others.iter().filter(|other| other.is_finished()).count();
    // The cancelled one, its successor, and 99 others.
    while server.received() < 101 || refused() < 1_050 {
        tokio::task::yield_now().await;
    }
    for _ in 0..10_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        (server.received(), refused()),
        (101, 1_050),
        "2,000 requests wait, those with the same token among them"
    );
    tokio::time::pause();
    let begun = Instant::now();
    for request in same.into_iter().chain(others) {
        assert_eq!(request.await.expect("no panic"), None);
    }
    assert!(begun.elapsed() <= TIMEOUT + Duration::from_secs(1), "{:?}", begun.elapsed());
    tokio::time::resume();
    // Nothing of it is left.
    server.answer_with(|_, review| answered(review, json!({"authenticated": true, "user": {"username": "ann"}})));
    assert!(user("same".into()).await.expect("no panic").is_some());
    let all: Vec<_> = (0..1_500).map(|n| user(format!("t{n}"))).collect();
    for request in all {
        assert!(request.await.expect("no panic").is_some());
    }
}

#[test]
fn configurations_are_validated() {
    let webhook = json!({"timeout": "3s", "subjectAccessReviewVersion": "v1", "failurePolicy": "Deny",
        "matchConditionSubjectAccessReviewVersion": "v1", "connectionInfo": {"type": "InClusterConfig"}});
    let with = |field: &str, value: Value| {
        let mut webhook = webhook.clone();
        webhook[field] = value;
        json!([{"type": "Webhook", "name": "a", "webhook": webhook}])
    };
    for (authorizers, expected) in [
        (json!([{"type": "RBAC", "name": "a"}, {"type": "Node", "name": "b"}]), "valid"),
        (json!([{"type": "Webhook", "name": "a", "webhook": webhook}]), "valid"),
        (json!([]), "authorizers: Required value: at least one authorization mode must be defined"),
        (
            json!([{"type": "RBAC", "name": "a"}, {"type": "RBAC", "name": "b"}]),
            "authorizers[1].type: Duplicate value: \"RBAC\"",
        ),
        (
            json!([{"type": "RBAC", "name": "a"}, {"type": "Node", "name": "a"}]),
            "authorizers[1].name: Duplicate value: \"a\"",
        ),
        (
            json!([{"type": "ABAC", "name": "a"}]),
            "authorizers[0].type: Invalid value: \"ABAC\": ABAC policies cannot be changed through the API and are not supported here: write roles and bindings",
        ),
        (
            json!([{"type": "Magic", "name": "a"}]),
            "authorizers[0].type: Unsupported value: \"Magic\": supported values: \"ABAC\", \"AlwaysAllow\", \"AlwaysDeny\", \"Node\", \"RBAC\", \"Webhook\"",
        ),
        (
            json!([{"type": "Webhook", "name": "a"}]),
            "authorizers[0].webhook: Required value: required when type=Webhook",
        ),
        (with("timeout", json!("31s")), "authorizers[0].webhook.timeout: Invalid value: \"31s\": must be <= 30s"),
        (with("timeout", json!("0s")), "authorizers[0].webhook.timeout: Invalid value: \"0s\": must be > 0s"),
        (with("failurePolicy", json!("")), "authorizers[0].webhook.failurePolicy: Required value"),
        (
            with("subjectAccessReviewVersion", json!("v2")),
            "authorizers[0].webhook.subjectAccessReviewVersion: Unsupported value: \"v2\": supported values: \"v1\", \"v1beta1\"",
        ),
        (
            with("connectionInfo", json!({"type": "KubeConfigFile", "kubeConfigFile": "x"})),
            "authorizers[0].webhook.connectionInfo.kubeConfigFile: Invalid value: \"x\": must be an absolute path",
        ),
        (
            with("matchConditions", json!([{"expression": "request.user"}])),
            "authorizers[0].webhook.matchConditions[0].expression: Invalid value: \"request.user\": must evaluate to bool but got string",
        ),
    ] {
        let file = json!({"apiVersion": "apiserver.config.k8s.io/v1beta1", "kind": "AuthorizationConfiguration",
                          "authorizers": authorizers});
        let parsed = Configuration::parse(file.to_string().as_bytes());
        assert_eq!(parsed.map_or_else(|error| error.to_string(), |_| "valid".into()), expected, "{authorizers}");
    }
}
