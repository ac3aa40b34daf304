//! Operations x match x failure policy x reinvocation x dry run, generated: whether the webhook is called, and the
//! outcome of the request.

use http::Method;
use serde_json::{Value, json};

use crate::harness::{CONFIG_MAPS, Hooks, Plane, config_map};

const OPERATIONS: [&str; 3] = ["CREATE", "UPDATE", "DELETE"];
/// How a webhook selects requests, and whether it selects those of the test.
const MATCHES: [(&str, bool); 8] = [
    ("all", true),
    ("resource", false),
    ("namespace", true),
    ("other namespace", false),
    ("object", true),
    ("other object", false),
    ("condition", true),
    ("false condition", false),
];
/// Replies of the webhook: whether they allow the request, refuse it, or are failures.
const REPLIES: [&str; 3] = ["allow", "deny/no", "code/500"];

fn selecting(how: &str) -> Value {
    let namespace = |env: &str| json!({"namespaceSelector": {"matchLabels": {"env": env}}});
    let object = |app: &str| json!({"objectSelector": {"matchLabels": {"app": app}}});
    let condition = |source: &str| json!({"matchConditions": [{"name": "c", "expression": source}]});
    match how {
        "resource" => {
            json!({"rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"]}]})
        }
        "namespace" => namespace("prod"),
        "other namespace" => namespace("test"),
        "object" => object("web"),
        "other object" => object("db"),
        "condition" => condition("request.operation == 'DELETE' ? oldObject.data.k == 'v' : has(object.data)"),
        "false condition" => condition("request.userInfo.username == 'nobody'"),
        _ => json!({}),
    }
}

async fn run(plane: &Plane, operation: &str, dry_run: bool) -> crate::harness::Reply {
    let query = if dry_run { "?dryRun=All" } else { "" };
    let mut object = config_map("a");
    object["metadata"]["labels"] = json!({"app": "web"});
    let one = format!("{CONFIG_MAPS}/a");
    match operation {
        "CREATE" => plane.post(&format!("{CONFIG_MAPS}{query}"), &object).await,
        "UPDATE" => {
            object["data"]["more"] = "x".into();
            plane.put(&format!("{one}{query}"), &object).await
        }
        _ => plane.delete(&format!("{one}{query}")).await,
    }
}

/// The object before the operation, without webhooks.
async fn reset(plane: &Plane, operation: &str) {
    for kind in ["mutating", "validating"] {
        plane.delete(&format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/m")).await;
    }
    plane.observed().await;
    plane.delete(&format!("{CONFIG_MAPS}/a")).await;
    if operation != "CREATE" {
        assert_eq!(run(plane, "CREATE", false).await.code, 201);
    }
}

async fn case(plane: &Plane, hooks: &Hooks, kind: &str, at: (&str, (&str, bool), &str, &str, bool)) {
    let (operation, (how, matches), policy, reply, dry_run) = at;
    let name = format!("{kind} {operation} {how} {policy} {reply} dry run {dry_run}");
    reset(plane, operation).await;
    let mut more = selecting(how);
    more["failurePolicy"] = policy.into();
    plane.configure(kind, "m", vec![hooks.webhook("w", reply, more)]).await;
    hooks.take_paths();
    let answer = run(plane, operation, dry_run).await;
    let calls = hooks.take_paths().len();
    assert_eq!(calls, usize::from(matches), "{name}: {answer:?}");
    let success = if operation == "CREATE" { 201 } else { 200 };
    let (code, message) = match (matches, reply, policy) {
        (true, "deny/no", _) => (418, "admission webhook \"w.example.com\" denied the request: no"),
        (true, "code/500", "Fail") => (
            500,
            "Internal error occurred: failed calling webhook \"w.example.com\": failed to call webhook: an error on the \
             server (\"body\") has prevented the request from succeeding",
        ),
        _ => (success, answer.message()),
    };
    assert_eq!((answer.code, answer.message()), (code, message), "{name}");
    if code == 418 {
        assert_eq!(answer.body["reason"], "Teapot", "{name}");
    }
    // No object is stored or removed without its verdict.
    let found = plane.send(Method::GET, &format!("{CONFIG_MAPS}/a"), "", &Value::Null).await;
    let is_done = code < 300 && !dry_run;
    let exists = if operation == "CREATE" { is_done } else { operation == "UPDATE" || !is_done };
    assert_eq!(found.code == 200, exists, "{name}");
    if operation == "UPDATE" {
        assert_eq!(found.body["data"]["more"] == "x", is_done, "{name}");
    }
}

#[tokio::test]
async fn every_combination_has_its_outcome() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    for kind in ["Mutating", "Validating"] {
        for operation in OPERATIONS {
            for matching in MATCHES {
                for policy in ["Fail", "Ignore"] {
                    for reply in REPLIES {
                        for dry_run in [false, true] {
                            case(&plane, &hooks, kind, (operation, matching, policy, reply, dry_run)).await;
                        }
                    }
                }
            }
        }
    }
    assert!(hooks.connections() < 10, "connections are kept: {}", hooks.connections());
}

/// The marks that webhooks leave, in the order of their calls.
#[tokio::test]
async fn mutating_webhooks_run_in_order_and_are_reinvoked() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    let never = json!({});
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    for (configurations, expected) in [
        (vec![("b", vec![("mark/1", &never)]), ("a", vec![("mark/2", &never), ("mark/3", &never)])], "231"),
        // The first is called again, because the second changed the object; the change is not its own.
        (vec![("a", vec![("mark/1", &again), ("mark/2", &never)])], "121"),
        // The second is called again, because the first has changed the object in the second round.
        (vec![("a", vec![("mark/1", &again), ("mark/2", &again)])], "1212"),
        (vec![("a", vec![("mark/1", &again), ("allow", &never)])], "1"),
        (vec![("a", vec![("label/x", &again), ("mark/2", &never)])], "2"),
        (vec![("a", vec![("mark/1", &never), ("mark/2", &again)])], "12"),
    ] {
        for name in ["a", "b"] {
            plane.configure("Mutating", name, Vec::new()).await;
        }
        for (name, webhooks) in &configurations {
            let webhooks = webhooks.iter().enumerate();
            let webhooks = webhooks.map(|(at, (path, more))| hooks.webhook(&format!("w{at}"), path, (*more).clone()));
            plane.configure("Mutating", name, webhooks.collect()).await;
        }
        let reply = plane.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("c")).await;
        assert_eq!(reply.body["metadata"]["annotations"]["marks"], expected, "{configurations:?}: {}", reply.body);
    }
}

#[tokio::test]
async fn a_webhook_with_side_effects_refuses_dry_runs() {
    let plane = Plane::start().await;
    let hooks = Hooks::start().await;
    // The API does not accept such webhooks any more; older versions did.
    let mut webhook = hooks.webhook("w", "allow", json!({"sideEffects": "NoneOnDryRun"}));
    plane.configure("Validating", "v", vec![webhook.clone()]).await;
    let dry = format!("{CONFIG_MAPS}?dryRun=All");
    assert_eq!(plane.post(&dry, &config_map("a")).await.code, 201);
    assert_eq!(hooks.requests("allow")[0]["dryRun"], true);
    webhook["sideEffects"] = "Some".into();
    let stored = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
                        "metadata": {"name": "v"}, "webhooks": [webhook]});
    let object = apimachinery::Object::from_value(&stored).expect("an object").shared();
    let event = apiserver::cache::Event { revision: 1, current: Some(object), previous: None };
    let place = "admissionregistration.k8s.io/validatingwebhookconfigurations";
    apiserver::Admission::observe(&*plane.users, place, &event);
    let reply = plane.post(&dry, &config_map("a")).await;
    assert_eq!((reply.code, reply.message()), (400, "admission webhook \"w.example.com\" does not support dry run"));
    assert_eq!(plane.post(CONFIG_MAPS, &config_map("a")).await.code, 201);
}
