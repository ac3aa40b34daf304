//! Measures what many FederatedHPAs cost while nothing scales. Run manually, in virtual time:
//!
//! ```text
//! HPAS=1000 MEMBERS=10 PLACES=1,2,10 cargo test -p controllers --test it -- --ignored --nocapture scaling_load
//! ```

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use controllers::Settings;
use futures::future::BoxFuture;
use http::Method;
use karmada_api::ApiType;
use karmada_api::autoscaling::v1alpha1::FederatedHPA;
use karmada_api::scope::{Policy, Scope};
use serde_json::json;
use transport::{ApiService, Request, Response};

use crate::harness::Plane;

/// The processor time of this thread, on which everything runs.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|number| number.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or_default())
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

type Answer = BoxFuture<'static, Result<Response, Infallible>>;

/// Two ready pods of any workload, at their target.
struct Answers {
    scale: &'static str,
    pods: &'static str,
    usage: &'static str,
    served: AtomicU64,
}

impl Answers {
    fn new() -> Self {
        let pod = |name: &str| {
            json!({"metadata": {"name": name, "namespace": "demo", "uid": name, "resourceVersion": "1",
                    "labels": {"app": "web", "pod-template-hash": "5d8f7c9b6"}},
                "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "nginx:1.27",
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]},
                "status": {"phase": "Running", "startTime": "2026-11-20T00:00:00Z",
                    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-20T00:00:00Z"}]}})
        };
        let usage = |name: &str| {
            json!({"metadata": {"name": name, "namespace": "demo"}, "timestamp": "2026-11-21T00:00:00Z", "window": "30s",
                "containers": [{"name": "c", "usage": {"cpu": "50m", "memory": "32Mi"}}]})
        };
        let text = |value: serde_json::Value| -> &'static str { value.to_string().leak() };
        Self {
            scale: text(
                json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "web", "namespace": "demo"},
                "spec": {"replicas": 2}, "status": {"replicas": 2, "selector": "app=web"}}),
            ),
            pods: text(json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"},
                "items": [pod("web-5d8f7c9b6-a"), pod("web-5d8f7c9b6-b")]})),
            usage: text(json!({"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {},
                "items": [usage("web-5d8f7c9b6-a"), usage("web-5d8f7c9b6-b")]})),
            served: AtomicU64::new(0),
        }
    }

    fn of(&self, request: &Request) -> Option<&'static str> {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        if request.method() != Method::GET || query.contains("watch=") {
            return None;
        }
        let answer = match path {
            path if path.ends_with("/scale") => self.scale,
            "/api/v1/namespaces/demo/pods" => self.pods,
            "/apis/metrics.k8s.io/v1beta1/namespaces/demo/pods" => self.usage,
            _ => return None,
        };
        self.served.fetch_add(1, Ordering::Relaxed);
        Some(answer)
    }

    /// A member whose pods and metrics are these, so that it costs next to nothing.
    fn before(self: &Arc<Self>, member: ApiService) -> ApiService {
        let answers = self.clone();
        ApiService::new(tower::service_fn(move |request: Request| -> Answer {
            let Some(answer) = answers.of(&request) else {
                return Box::pin(tower::ServiceExt::oneshot(member.clone(), request));
            };
            let mut response = Response::new(transport::full(answer));
            let json = http::HeaderValue::from_static("application/json");
            response.headers_mut().insert(http::header::CONTENT_TYPE, json);
            Box::pin(std::future::ready(Ok(response)))
        }))
    }
}

/// The processor time of a minute.
async fn minute() -> Duration {
    let before = cpu();
    tokio::time::sleep(Duration::from_secs(60)).await;
    cpu().saturating_sub(before)
}

async fn measure(hpas: usize, members: usize, places: usize) {
    let names: Vec<String> = (0..members).map(|n| format!("m{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let plane = Plane::of(&names, Settings::default()).await;
    plane.network.mute_events();
    let answers = Arc::new(Answers::new());
    for name in &names {
        plane.network.serve(name, answers.before(plane.service_of(name)));
        plane.join(name).await;
        plane.until_ready(name).await;
    }
    let deployments = ApiResource::namespaced("apps", "v1", "Deployment", "deployments");
    for first in 0..members {
        let clusters: Vec<&str> = names.iter().cycle().skip(first).take(places).copied().collect();
        let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": format!("from-{first}"), "namespace": "demo"}, "spec": {
                "placement": {"clusterAffinity": {"clusterNames": clusters}},
                "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment",
                    "labelSelector": {"matchLabels": {"first": first.to_string()}}}]}});
        plane.create(Policy::api_resource(Scope::Namespaced), policy).await;
    }
    for n in 0..hpas {
        let first = (n % members).to_string();
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": format!("web-{n}"), "namespace": "demo", "labels": {"first": first}},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx:1.27"}]}}}});
        plane.create(deployments.clone(), object).await;
    }
    tokio::time::sleep(Duration::from_secs(300)).await;
    let idle = minute().await;
    for n in 0..hpas {
        let object = json!({"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA",
            "metadata": {"name": format!("web-{n}"), "namespace": "demo"}, "spec": {"minReplicas": 1, "maxReplicas": 9,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": format!("web-{n}")},
                "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": 50}}}]}});
        plane.create(FederatedHPA::api_resource(), object).await;
    }
    tokio::time::sleep(Duration::from_secs(120)).await;
    let (before, requests) = (answers.served.load(Ordering::Relaxed), plane.requests());
    let used = minute().await;
    let read = answers.served.load(Ordering::Relaxed) - before;
    let mut others: Vec<String> = Vec::new();
    for (name, count) in plane.requests() {
        let more = count - requests.get(&name).copied().unwrap_or_default();
        others.extend((more > 0).then(|| format!("{name} {more}")));
    }
    let hpa = plane.get(&FederatedHPA::api_resource(), &ObjectKey::namespaced("demo", "web-0")).await.expect("it");
    assert_eq!(hpa["status"]["currentMetrics"][0]["resource"]["current"]["averageUtilization"], 50, "{hpa}");
    let used_by_hpas = used.saturating_sub(idle).as_secs_f64();
    println!(
        "{hpas} FederatedHPAs, each in {places} of {members} members: {:.2} s of processor time a minute without them, {:.2} s \
         with them: {:.1} % of a core, {:.0} us a decision; {read} reads of members; requests to the control plane: {}",
        idle.as_secs_f64(),
        used.as_secs_f64(),
        used_by_hpas / 60.0 * 100.0,
        used_by_hpas * 1e6 / (hpas as f64 * 4.0),
        others.join(", ")
    );
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
#[ignore = "takes minutes; prints figures for docs/benchmarks.md"]
async fn measured() {
    let places = std::env::var("PLACES").unwrap_or_else(|_| "1,2,10".to_owned());
    for places in places.split(',') {
        measure(number("HPAS", 1000), number("MEMBERS", 10), places.parse().expect("a number of members")).await;
    }
}
