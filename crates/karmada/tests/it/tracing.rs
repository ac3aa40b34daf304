//! `--tracing-config-file`: spans of requests arrive at a collector.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use client::Client;

#[path = "../../../otlp/tests/it/collector.rs"]
#[allow(dead_code, reason = "the tests of otlp use all of it")]
mod collector;

use crate::process::Karmada;
use collector::{Answer, Collector};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn configuration(directory: &Path, address: impl std::fmt::Display, per_million: u32) -> String {
    let path = directory.join("tracing.yaml");
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: {address}\n\
         samplingRatePerMillion: {per_million}\n"
    );
    std::fs::write(&path, text).expect("written");
    format!("--tracing-config-file={}", path.display())
}

/// A request with or without a parent.
async fn get(server: &Karmada, path: &str, parent: Option<&str>) {
    let client = Client::from_kubeconfig(Path::new(server.kubeconfig()), None).await.expect("a kubeconfig");
    let mut request = http::Request::get(path);
    if let Some(parent) = parent {
        request = request.header("traceparent", parent);
    }
    let response = client.send(request.body(transport::empty()).expect("a request")).await.expect("a response");
    assert_eq!(response.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_in_a_clients_trace_reach_the_collector_with_their_steps() {
    let directory = tempfile::tempdir().expect("a directory");
    let collector = Collector::start(Answer::Accepts).await;
    let flag = configuration(directory.path(), collector.address, 0);
    let data = directory.path().join("data");
    let server = Karmada::apiserver_with(&data, &[&flag]);
    get(&server, "/api/v1/namespaces/default/configmaps?limit=5", Some(PARENT)).await;
    get(&server, "/api/v1/namespaces", None).await;
    let spans = collector.spans(|spans| spans.len() >= 3).await;
    let of = |name: &str| spans.iter().find(|span| span.name == name).expect(name);
    let root = of("GET /api/v1/namespaces/{:namespace}/configmaps");
    assert_eq!((root.trace.as_str(), root.parent.as_str()), (&PARENT[3..35], &PARENT[36..52]));
    assert_eq!((root.kind, &root.error, root.attributes["http.response.status_code"].as_str()), (2, &None, "200"));
    let expected = [
        ("http.target", "/api/v1/namespaces/default/configmaps?limit=5"),
        ("network.peer.address", "127.0.0.1"),
        ("url.scheme", "https"),
    ];
    for (name, value) in expected {
        assert_eq!(root.attributes[name], value, "{root:?}");
    }
    assert!(root.attributes.contains_key("audit-id") && root.attributes["user_agent.original"].starts_with("karmada/"));
    for step in ["authorization", "List"] {
        assert_eq!((&of(step).trace, &of(step).parent), (&root.trace, &root.span), "{step}");
    }
    assert_eq!(spans.len(), 3, "the other request has no parent: {spans:#?}");
    let requests = collector.requests();
    let source = requests[0].resource_spans[0].resource.clone().expect("a source");
    assert!(format!("{source:?}").contains("\"apiserver\""), "{source:?}");
    // It ends before the batch would be sent.
    get(&server, "/api/v1/nodes", Some(PARENT)).await;
    assert!(server.terminate());
    collector.spans(|spans| spans.iter().any(|span| span.name == "GET /api/v1/nodes")).await;
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "another process is watched: time is real here")]
async fn a_collector_that_hangs_delays_neither_requests_nor_the_end() {
    let directory = tempfile::tempdir().expect("a directory");
    let collector = Collector::start(Answer::Hangs).await;
    let flag = configuration(directory.path(), collector.address, 1_000_000);
    let server = Karmada::apiserver_with(&directory.path().join("data"), &[&flag]);
    let began = Instant::now();
    for _ in 0..20 {
        get(&server, "/api/v1/namespaces", None).await;
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let began = Instant::now();
    assert!(server.terminate());
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

#[test]
fn an_invalid_file_is_refused_before_anything_is_created() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    for (address, rate, expected) in [
        ("http://otel:4317", 1, "endpoint: Invalid value: \"http://otel:4317\": unsupported scheme: http."),
        ("otel:4317", 1_000_001, "samplingRatePerMillion: Invalid value: 1000001: sampling rate per million must be"),
    ] {
        let flag = configuration(directory.path(), address, rate);
        let started = Command::new(env!("CARGO_BIN_EXE_karmada"))
            .args(["apiserver", "--secure-port=0", &flag, "--data-dir"])
            .arg(&data)
            .output()
            .expect("the binary starts");
        let error = String::from_utf8_lossy(&started.stderr).into_owned();
        assert!(!started.status.success() && error.contains(expected) && error.contains("tracing.yaml"), "{error}");
        assert!(!data.exists());
    }
}

/// gRPC and the messages of OpenTelemetry itself.
#[test]
#[cfg_attr(any(no_kubectl, no_python_client), ignore = "kubectl or Python is missing")]
fn a_collector_in_python_understands_the_spans_of_kubectl() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut collector = crate::python_client::Program::start("collector.py", &[]);
    let port = collector.lines.next().and_then(Result::ok).expect("a port");
    let flag = configuration(directory.path(), format!("localhost:{port}"), 1_000_000);
    let server = Karmada::apiserver_with(&directory.path().join("data"), &[&flag]);
    server.ok(&["create", "configmap", "a", "--from-literal=password=secret"]);
    let mut seen = String::new();
    let created = collector.lines.by_ref().map_while(Result::ok).find_map(|line| {
        let span: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        seen.push_str(&line);
        let is_of_kubectl =
            span["attributes"]["user_agent.original"].as_str().is_some_and(|it| it.starts_with("kubectl"));
        (is_of_kubectl && span["attributes"]["http.request.method"] == "POST").then_some(span)
    });
    let created = created.unwrap_or_else(|| panic!("{seen}"));
    assert_eq!(created["name"], "POST /api/v1/namespaces/{:namespace}/configmaps");
    assert_eq!((&created["kind"], &created["scope"]), (&"SPAN_KIND_SERVER".into(), &"karmada".into()));
    assert_eq!(created["attributes"]["http.response.status_code"], 201);
    assert_eq!(created["source"]["service.name"], "apiserver");
    assert!(created["nanos"].as_u64().is_some_and(|nanos| nanos > 0) && !seen.contains("secret"), "{seen}");
    assert!(server.terminate());
}
