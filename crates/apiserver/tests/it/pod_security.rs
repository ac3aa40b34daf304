//! The Pod Security Standards on a server: refusals, warnings, and audit annotations.

use std::sync::Arc;

use apiserver::ApiServer;
use apiserver::admit::plugins::{self, PodSecurityConfiguration, Settings, Switches};
use http_body_util::BodyExt;
use serde_json::{Map, Value, json};
use tower::ServiceExt;
use transport::{Identity, Request};
use world::World;

use crate::audit::{Memory, recorded};
use crate::objects::server_with;

const PREFIX: &str = "pod-security.kubernetes.io/";
const WHY: &str = "privileged (container \"c\" must not set securityContext.privileged=true)";

struct Cluster {
    server: ApiServer,
    memory: Arc<Memory>,
}

/// A response, with its warnings and the audit annotations of the plugin.
struct Reply {
    code: u16,
    body: Value,
    warnings: Vec<String>,
    annotations: Vec<(String, String)>,
}

async fn cluster(configuration: Value) -> Cluster {
    let mut tree = json!({"apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration"});
    tree.as_object_mut().expect("a map").extend(configuration.as_object().cloned().expect("a map"));
    let pod_security = PodSecurityConfiguration::read(&tree).expect("a configuration");
    let world = World::system();
    let settings = Settings { world: &world, pod_security };
    let switches = Switches { enable: Vec::new(), disable: vec!["ServiceAccount".into()] };
    let plugins = plugins::configured(Default::default(), &settings, &switches).expect("known names");
    let (server, _client) = server_with(plugins).await;
    let memory = recorded(&server, "[{level: Metadata, omitStages: [RequestReceived]}]", false);
    Cluster { server, memory }
}

impl Cluster {
    async fn send(&self, user: &str, method: &str, path: &str, body: &Value) -> Reply {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
        let mut request: Request = request.body(transport::full(body.to_string())).expect("a request");
        let groups = vec!["system:masters".to_owned()];
        request.extensions_mut().insert(Identity { user: user.to_owned(), groups, ..Identity::default() });
        let response = self.server.service().oneshot(request).await.expect("an answer");
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        let warnings = parts.headers.get_all("warning").iter().map(|value| {
            let text = value.to_str().expect("text").strip_prefix("299 - \"").and_then(|text| text.strip_suffix('"'));
            text.expect("a text").replace("\\\"", "\"")
        });
        let events = self.memory.take_events();
        let annotations = events.last().and_then(|event| event["annotations"].as_object());
        let annotations: Map<String, Value> = annotations.cloned().unwrap_or_default();
        Reply {
            code: parts.status.as_u16(),
            warnings: warnings.collect(),
            body: serde_json::from_slice(&body).expect("JSON"),
            annotations: annotations
                .into_iter()
                .filter_map(|(key, value)| {
                    Some((key.strip_prefix(PREFIX)?.to_owned(), value.as_str().expect("text").to_owned()))
                })
                .collect(),
        }
    }

    async fn namespace(&self, name: &str, labels: &[(&str, &str)]) -> Reply {
        let body = json!({"metadata": {"name": name, "labels": marked(labels)}});
        self.send("ann", "POST", "/api/v1/namespaces", &body).await
    }

    async fn relabel(&self, name: &str, labels: &[(&str, &str)]) -> Reply {
        let body = json!({"metadata": {"labels": marked(labels)}});
        self.send("ann", "PATCH", &format!("/api/v1/namespaces/{name}"), &body).await
    }

    async fn pod(&self, namespace: &str, name: &str) -> Reply {
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        self.send("ann", "POST", &path, &json!({"metadata": {"name": name}, "spec": spec()})).await
    }
}

fn marked(labels: &[(&str, &str)]) -> Value {
    labels.iter().map(|(mode, value)| (format!("{PREFIX}{mode}"), Value::from(*value))).collect()
}

fn spec() -> Value {
    json!({"containers": [{"name": "c", "image": "i:1", "securityContext": {"privileged": true}}]})
}

fn annotations(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test]
async fn each_mode_has_its_effect_on_pods() {
    let cluster = cluster(json!({})).await;
    let free = cluster.pod("default", "p").await;
    assert_eq!((free.code, free.annotations), (201, annotations(&[("enforce-policy", "privileged:latest")])));
    cluster.namespace("strict", &[("enforce", "baseline"), ("warn", "baseline"), ("audit", "restricted")]).await;
    let refused = cluster.pod("strict", "p").await;
    let message = format!("pods \"p\" is forbidden: violates PodSecurity \"baseline:latest\": {WHY}");
    assert_eq!((refused.code, &refused.body["message"]), (403, &json!(message)));
    assert!(refused.warnings.is_empty(), "{:?}", refused.warnings);
    let [(audit, would), (enforce, policy)] = refused.annotations.as_slice() else { panic!("two annotations") };
    assert_eq!((&**audit, &**enforce, &**policy), ("audit-violations", "enforce-policy", "baseline:latest"));
    assert!(would.starts_with(&format!("would violate PodSecurity \"restricted:latest\": {WHY}, allow")), "{would}");
    cluster.namespace("loose", &[("warn", "baseline"), ("warn-version", "v1.20")]).await;
    let warned = cluster.pod("loose", "p").await;
    let would = format!("would violate PodSecurity \"baseline:v1.20\": {WHY}");
    assert_eq!((warned.code, warned.warnings), (201, vec![would.clone()]));
    let path = "/api/v1/namespaces/loose/pods/p";
    for (body, expected) in [
        (json!({"metadata": {"labels": {"a": "b"}}}), vec![]),
        (
            json!({"spec": {"containers": [{"name": "c", "image": "i:2", "securityContext": {"privileged": true}}]}}),
            vec![would],
        ),
    ] {
        let updated = cluster.send("ann", "PATCH", path, &body).await;
        assert_eq!((updated.code, updated.warnings), (200, expected), "{}", updated.body);
    }
}

#[tokio::test]
async fn workloads_are_admitted_with_warnings() {
    let cluster = cluster(json!({})).await;
    let levels = [("enforce", "restricted"), ("warn", "baseline"), ("audit", "baseline")];
    cluster.namespace("strict", &levels).await;
    let metadata = json!({"labels": {"app": "a"}});
    let deployment = json!({"metadata": {"name": "d"}, "spec":
        {"selector": {"matchLabels": {"app": "a"}}, "template": {"metadata": metadata, "spec": spec()}}});
    let path = "/apis/apps/v1/namespaces/strict/deployments";
    let created = cluster.send("ann", "POST", path, &deployment).await;
    let would = format!("would violate PodSecurity \"baseline:latest\": {WHY}");
    assert_eq!((created.code, created.warnings), (201, vec![would.clone()]), "{}", created.body);
    assert_eq!(created.annotations, annotations(&[("audit-violations", &would)]));
    let path = format!("{path}/d");
    let unchanged = cluster.send("ann", "PATCH", &path, &json!({})).await;
    assert_eq!((unchanged.code, unchanged.warnings), (200, vec![would]), "as long as the template violates it");
    let scaled = cluster.send("ann", "PATCH", &format!("{path}/scale"), &json!({"spec": {"replicas": 2}})).await;
    assert_eq!((scaled.code, scaled.warnings), (200, vec![]), "{}", scaled.body);
}

#[tokio::test]
async fn stricter_labels_are_tried_on_existing_pods() {
    let cluster = cluster(json!({})).await;
    let invalid = cluster.namespace("bad", &[("warn-version", "1")]).await;
    let message = "Namespace \"bad\" is invalid: metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: \
                   \"1\": must be \"latest\" or \"v1.x\"";
    assert_eq!((invalid.code, &invalid.body["message"]), (422, &json!(message)));
    for name in ["b", "a", "c"] {
        assert_eq!(cluster.pod("default", name).await.code, 201);
    }
    let stricter = cluster.relabel("default", &[("enforce", "baseline")]).await;
    let expected = [
        "existing pods in namespace \"default\" violate the new PodSecurity enforce level \"baseline:latest\"",
        "a (and 2 other pods): privileged",
    ];
    assert_eq!((stricter.code, stricter.warnings), (200, expected.map(str::to_owned).to_vec()));
    let looser = cluster.relabel("default", &[("enforce", "privileged")]).await;
    assert_eq!((looser.code, looser.warnings), (200, vec![]));
}

#[tokio::test]
async fn the_configuration_has_defaults_and_exemptions() {
    let exemptions = json!({"usernames": ["operator"], "namespaces": ["exempt"]});
    let cluster = cluster(json!({"defaults": {"enforce": "baseline"}, "exemptions": exemptions})).await;
    assert_eq!(cluster.pod("default", "p").await.code, 403, "by default");
    let body = json!({"metadata": {"name": "p"}, "spec": spec()});
    let by_user = cluster.send("operator", "POST", "/api/v1/namespaces/default/pods", &body).await;
    assert_eq!((by_user.code, by_user.annotations), (201, annotations(&[("exempt", "user")])));
    let named = cluster.namespace("exempt", &[("enforce", "restricted")]).await;
    let ignored = "namespace \"exempt\" is exempt from Pod Security, and the policy (enforce=restricted:latest) will be \
                   ignored";
    assert_eq!((named.code, named.warnings), (201, vec![ignored.to_owned()]));
    let by_namespace = cluster.pod("exempt", "p").await;
    assert_eq!((by_namespace.code, by_namespace.annotations), (201, annotations(&[("exempt", "namespace")])));
}

#[tokio::test]
async fn evaluations_exemptions_and_errors_are_counted() {
    let cluster = cluster(json!({"exemptions": {"usernames": ["operator"]}})).await;
    cluster.namespace("strict", &[("enforce", "baseline"), ("warn", "restricted"), ("warn-version", "v1.99")]).await;
    cluster.pod("default", "p").await;
    cluster.pod("strict", "p").await;
    let body = json!({"metadata": {"name": "p"}, "spec": spec()});
    cluster.send("operator", "POST", "/api/v1/namespaces/strict/pods", &body).await;
    let metadata = json!({"labels": {"app": "a"}});
    let deployment = json!({"metadata": {"name": "d"}, "spec":
        {"selector": {"matchLabels": {"app": "a"}}, "template": {"metadata": metadata, "spec": spec()}}});
    for namespace in ["default", "strict"] {
        cluster.send("ann", "POST", &format!("/apis/apps/v1/namespaces/{namespace}/deployments"), &deployment).await;
    }
    let text = cluster.server.shared().metrics.text();
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("pod_security_")).collect();
    let rest = r#"request_operation="create",resource="pod",subresource="""#;
    let of = |decision: &str, level: &str, version: &str, mode: &str, rest: &str| {
        format!(
            "pod_security_evaluations_total{{decision=\"{decision}\",policy_level=\"{level}\",policy_version=\"{version}\",\
             mode=\"{mode}\",{rest}}} 1"
        )
    };
    assert_eq!(
        lines,
        [
            of("allow", "privileged", "latest", "enforce", rest),
            of("deny", "baseline", "latest", "enforce", rest),
            of("deny", "restricted", "future", "warn", &rest.replace("pod", "controller")),
            format!("pod_security_exemptions_total{{{rest}}} 1"),
        ]
    );
}
