//! Behaviour required by kubernetes' own integration suites, rewritten: each test names the suite it follows.

mod decoding;
mod definitions;
mod deletions;
mod ownership;
mod patches;
mod pods;

use apiserver::ApiServer;
use serde_json::{Value, json};

use crate::parity::{Reply, send};

const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const JSON_PATCH: &str = "application/json-patch+json";

async fn call(server: &ApiServer, method: &str, path: &str, body: &Value) -> Reply {
    send(server, method, path, &[("content-type", "application/json")], &body.to_string()).await
}

async fn patch(server: &ApiServer, path: &str, media_type: &str, body: &str) -> Reply {
    send(server, "PATCH", path, &[("content-type", media_type)], body).await
}

/// The texts of the warnings.
fn warnings(reply: &Reply) -> Vec<String> {
    let texts = reply.headers.get_all("warning").iter().filter_map(|warning| warning.to_str().ok());
    texts.filter_map(|text| Some(text.strip_prefix("299 - \"")?.strip_suffix('"')?.replace("\\\"", "\""))).collect()
}

/// A definition in `it.example` with these versions.
fn definition(plural: &str, kind: &str, versions: Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.it.example")},
        "spec": {"group": "it.example", "scope": "Cluster", "versions": versions,
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")}}})
}

/// One version, stored and served.
fn version(name: &str, schema: Value) -> Value {
    json!({"name": name, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}})
}

/// Polls until it is so: a change of a definition or a role takes a moment to be effective.
async fn soon(is_so: impl AsyncFn() -> bool) {
    let polling = async {
        while !is_so().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), polling).await.expect("it counts");
}
