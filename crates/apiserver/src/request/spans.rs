//! The spans of requests, with the names and attributes of kube-apiserver's. A span has no header but the user agent,
//! and no value of a query but those of the API's own parameters.

use std::sync::Arc;

use http::header::{HOST, USER_AGENT};
use http::{Version, request::Parts};
use tokio::time::Instant;
use trace::{Attribute, Remote, Span, Tracer};
use transport::{Identity, Response};

use super::RequestInfo;
use super::peer::Peer;

/// The groups whose members decide whether their requests are traced.
const DECIDE: [&str; 2] = ["system:masters", "system:monitoring"];

/// Parameters whose values are shown: others may be of another server behind a proxy, and may be secrets.
const SHOWN: [&str; 18] = [
    "allowWatchBookmarks",
    "dryRun",
    "fieldManager",
    "fieldSelector",
    "fieldValidation",
    "force",
    "gracePeriodSeconds",
    "labelSelector",
    "limit",
    "orphanDependents",
    "pretty",
    "propagationPolicy",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeout",
    "timeoutSeconds",
    "watch",
];

/// Begins the span of a request that was received at `started`; `None` if it is not sampled.
pub(crate) fn begin(
    tracer: &Arc<Tracer>,
    info: &RequestInfo,
    (parts, caller): (&Parts, &Identity),
    started: Instant,
) -> Option<Span> {
    let decides = caller.groups.iter().any(|group| DECIDE.contains(&group.as_str()));
    let mut span =
        tracer.request(Remote::of(&parts.headers), decides, started.elapsed(), || name(info, &parts.method))?;
    span.set("http.request.method", parts.method.to_string());
    span.set("url.path", info.path.clone());
    span.set("http.target", target(&parts.uri));
    let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let host = parts.uri.authority().map(http::uri::Authority::as_str).or_else(|| header(HOST.as_str()));
    if let Some(authority) = host.and_then(|host| host.parse::<http::uri::Authority>().ok()) {
        span.set("server.address", authority.host().to_owned());
        authority.port_u16().into_iter().for_each(|port| span.set("server.port", port));
    }
    if let Some(peer) = parts.extensions.get::<Peer>() {
        span.set("url.scheme", "https");
        span.set("network.peer.address", peer.address.ip().to_string());
        span.set("network.peer.port", peer.address.port());
        let version = if parts.version == Version::HTTP_2 { "2" } else { "1.1" };
        span.set("network.protocol.version", version);
        let forwarded = header("x-forwarded-for").and_then(|list| list.split(',').next()).map(str::trim);
        span.set("client.address", forwarded.map_or_else(|| peer.address.ip().to_string(), str::to_owned));
    }
    if let Some(agent) = header(USER_AGENT.as_str()) {
        span.set("user_agent.original", agent.to_owned());
    }
    Some(span)
}

/// Ends the span of a request when its response begins.
pub(crate) fn end(mut span: Span, response: &Response) {
    if let Some(id) = response.headers().get("audit-id").and_then(|id| id.to_str().ok()) {
        span.set("audit-id", id.to_owned());
    }
    span.set("http.response.status_code", response.status().as_u16());
    if response.status().is_server_error() {
        span.fail("");
    }
}

/// The method and the path without names of objects; other paths than those of resources have any number of names.
fn name(info: &RequestInfo, method: &http::Method) -> String {
    if !info.is_resource {
        return method.to_string();
    }
    let mut name = format!("{method} {}", if info.group.is_empty() { "/api" } else { "/apis" });
    let mut add = |part: &str| {
        name.push('/');
        name.push_str(part);
    };
    for part in [&info.group, &info.version] {
        if !part.is_empty() {
            add(part);
        }
    }
    if !info.namespace.is_empty() {
        add("namespaces/{:namespace}");
    }
    add(&info.resource);
    if !info.name.is_empty() {
        add("{:name}");
    }
    if !info.subresource.is_empty() {
        add(&info.subresource);
    }
    name
}

/// Path and query, without values that may be secrets.
fn target(uri: &http::Uri) -> String {
    let mut target = uri.path().to_owned();
    for (place, pair) in uri.query().into_iter().flat_map(|query| query.split('&')).enumerate() {
        target.push(if place == 0 { '?' } else { '&' });
        match pair.split_once('=') {
            Some((name, _)) if !SHOWN.contains(&name) => {
                target.push_str(name);
                target.push_str("=REDACTED");
            }
            _ => target.push_str(pair),
        }
    }
    target
}

/// The name of the step that handles a verb; a watch is treated as a list.
pub(crate) fn step_of(verb: &str) -> &'static str {
    match verb {
        "get" => "Get",
        "list" | "watch" => "List",
        "create" => "Create",
        "update" => "Update",
        "patch" => "Patch",
        "delete" | "deletecollection" => "Delete",
        _ => "Handle",
    }
}

/// The attributes of that step.
pub(crate) fn subject(info: &RequestInfo) -> Vec<Attribute> {
    let fields = [
        ("api-group", &info.group),
        ("api-version", &info.version),
        ("resource", &info.resource),
        ("subresource", &info.subresource),
        ("namespace", &info.namespace),
        ("name", &info.name),
    ];
    let present = fields.into_iter().filter(|(_, text)| !text.is_empty());
    present.map(|(name, text)| (name, text.clone().into())).chain([("verb", info.verb.into())]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_kube_apiserver() {
        for (method, url, expected) in [
            ("GET", "/api/v1/namespaces/a/pods/p", "GET /api/v1/namespaces/{:namespace}/pods/{:name}"),
            ("GET", "/api/v1/nodes?watch=1", "GET /api/v1/nodes"),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/a/deployments/d/status",
                "PATCH /apis/apps/v1/namespaces/{:namespace}/deployments/{:name}/status",
            ),
            (
                "POST",
                "/apis/apps/v1/namespaces/a/deployments",
                "POST /apis/apps/v1/namespaces/{:namespace}/deployments",
            ),
            ("GET", "/api/v1/namespaces/a", "GET /api/v1/namespaces/{:namespace}/namespaces/{:name}"),
            ("GET", "/openapi/v3/apis/apps/v1", "GET"),
            ("GET", "/healthz", "GET"),
        ] {
            let method: http::Method = method.parse().expect("a method");
            let info = RequestInfo::parse(&method, &url.parse().expect("a URL"));
            assert_eq!(name(&info, &method), expected);
        }
    }

    #[test]
    fn queries_show_parameters_of_the_api_alone() {
        for (url, expected) in [
            ("/api/v1/pods?limit=5&labelSelector=app%3Da&watch", "/api/v1/pods?limit=5&labelSelector=app%3Da&watch"),
            ("/x?token=secret&limit=1&continue=abc", "/x?token=REDACTED&limit=1&continue=REDACTED"),
            ("/x?a=b=c", "/x?a=REDACTED"),
            ("/x", "/x"),
        ] {
            assert_eq!(target(&url.parse().expect("a URL")), expected);
        }
    }
}
