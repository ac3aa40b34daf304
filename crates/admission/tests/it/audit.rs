//! Audit annotations of webhooks and policies.

use std::sync::Arc;

use apiserver::audit::{Auditor, Sink, SinkError};
use audit::{Event, Policy, Stage};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::harness::{CONFIG_MAPS, Hooks, Plane, config_map};
use crate::policies::{binding, policy, put};

/// The annotations of complete requests.
#[derive(Default)]
struct Annotations(Mutex<Map<String, Value>>);

impl Sink for Annotations {
    fn take<'a>(&'a self, event: &'a Event) -> BoxFuture<'a, Result<(), SinkError>> {
        if event.stage == Stage::ResponseComplete {
            let all = event.annotations.iter().map(|(key, value)| (key.clone(), json!(value)));
            *self.0.lock() = all.filter(|(key, _)| !key.starts_with("authorization.k8s.io/")).collect();
        }
        std::future::ready(Ok(())).boxed()
    }
}

/// The annotations of the creation of a ConfigMap at a level.
async fn annotations(plane: &Plane, level: &str) -> Value {
    let text = format!("{{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{{level: {level}}}]}}");
    let policy = Policy::parse(text.as_bytes()).expect("a policy").policy;
    let found = Arc::new(Annotations::default());
    let sinks: Vec<Arc<dyn Sink>> = vec![found.clone()];
    plane.server.audit(Auditor::new(policy, sinks, &plane.server.shared().metrics));
    let reply = plane.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("a")).await;
    assert!(matches!(reply.code, 201 | 422), "{reply:?}");
    let found = found.0.lock().clone();
    Value::Object(found)
}

#[tokio::test]
async fn webhooks_are_recorded_with_kube_apiservers_keys() {
    let patch = r#"{"configuration":"m","webhook":"w.example.com","patch":[{"op":"add","path":"/metadata/labels","value":{"by":"hook"}}],"patchType":"JSONPatch"}"#;
    let mut expected = json!({
        "mutation.webhook.admission.k8s.io/round_0_index_1": r#"{"configuration":"m","webhook":"w.example.com","mutated":true}"#,
        "mutation.webhook.admission.k8s.io/round_0_index_2": r#"{"configuration":"m","webhook":"x.example.com","mutated":false}"#,
        "failed-open.mutation.webhook.admission.k8s.io/round_0_index_2": "x.example.com",
        "failed-open.validating.webhook.admission.k8s.io/round_0_index_1": "x.example.com",
        "y.example.com/a": "b",
    });
    for level in ["Metadata", "Request"] {
        let (plane, hooks) = (Plane::start().await, Hooks::start().await);
        let other = hooks.webhook("v", "label/x", json!({"objectSelector": {"matchLabels": {"a": "b"}}}));
        let ignored = hooks.webhook("x", "code/500", json!({"failurePolicy": "Ignore"}));
        let own = hooks.webhook("w", "label/hook", json!({}));
        plane.configure("Mutating", "m", vec![other, own, ignored.clone()]).await;
        plane.configure("Validating", "n", vec![hooks.webhook("y", "warn/no", json!({})), ignored]).await;
        if level == "Request" {
            // A patch has parts of the object.
            expected["patch.webhook.admission.k8s.io/round_0_index_1"] = patch.into();
        }
        assert_eq!(annotations(&plane, level).await, expected, "{level}");
    }
}

#[tokio::test]
async fn slow_requests_are_recorded_with_the_time_of_webhooks() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    let webhook = hooks.webhook("w", "hang", json!({"timeoutSeconds": 1, "failurePolicy": "Ignore"}));
    plane.configure("Validating", "n", vec![webhook]).await;
    let found = annotations(&plane, "Metadata").await;
    let latencies = found
        .as_object()
        .into_iter()
        .flat_map(Map::keys)
        .filter_map(|key| key.strip_prefix("apiserver.latency.k8s.io/"));
    assert_eq!(latencies.collect::<Vec<_>>(), ["total", "validating-webhook"], "{found}");
}

#[tokio::test]
async fn annotations_of_a_policy_are_joined() {
    let plane = Plane::start().await;
    for (name, text) in [("one", "first"), ("two", "second")] {
        let mut param = config_map(name);
        param["data"]["k"] = text.into();
        assert_eq!(plane.post(CONFIG_MAPS, &param).await.code, 201);
    }
    let spec = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "false", "messageExpression": "string(params.data.k)"}],
        "auditAnnotations": [{"key": "k", "valueExpression": "string(params.data.k)"}, {"key": "same", "valueExpression": "'same'"}]});
    put(&plane, "validatingadmissionpolicies", &policy("p", spec)).await;
    for (name, param) in [("b", "one"), ("c", "two")] {
        let reference = json!({"name": param, "parameterNotFoundAction": "Deny"});
        let spec = json!({"paramRef": reference, "validationActions": ["Audit", "Deny"]});
        put(&plane, "validatingadmissionpolicybindings", &binding(name, "p", spec)).await;
    }
    let failure = |binding: &str, message: &str| {
        format!(
            r#"{{"message":"{message}","policy":"p","binding":"{binding}","expressionIndex":0,"validationActions":["Audit","Deny"]}}"#
        )
    };
    let failures = format!("[{},{}]", failure("b", "first"), failure("c", "second"));
    let expected = json!({"p/k": "first, second", "p/same": "same",
        "validation.policy.admission.k8s.io/validation_failure": failures});
    assert_eq!(annotations(&plane, "Metadata").await, expected);
}
