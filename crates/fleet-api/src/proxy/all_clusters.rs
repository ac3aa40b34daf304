//! `clusters/*/proxy/PATH`: one object in the member that has it, or a list over all members.
//!
//! The request is sent to every member, impersonating the user. Responses other than 200 are skipped, as upstream does:
//! for this request, objects that the user may not read do not exist.

use apimachinery::{Status, StatusReason};
use apiserver::RequestInfo;
use apiserver::Shared;
use apiserver::respond;
use futures::StreamExt;
use futures::future::{BoxFuture, join_all};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt;
use karmada_api::cluster::proxy_path;
use serde_json::Value;
use transport::{Body, Identity, Request, Response};

use super::{ClusterProxy, failed};

/// The maximum size of one member's list, the limit of our client.
const MAX_LIST: usize = 64 << 20;

/// The path and query that follow the path of the proxy, and the request that they describe.
pub(crate) fn target_of(info: &RequestInfo, request: &Request) -> Result<(String, RequestInfo), Status> {
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    let target = format!("/{}{query}", info.subpath);
    let uri: http::Uri = target.parse().map_err(|error| Status::bad_request(format!("path {target}: {error}")))?;
    let tail = RequestInfo::parse(request.method(), &uri);
    Ok((target, tail))
}

/// Reads a body up to a limit.
pub(crate) async fn read_body(body: Body, limit: usize) -> Result<Vec<u8>, Status> {
    let mut chunks = body.into_data_stream();
    let mut bytes = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| Status::bad_request(format!("reading the body: {error}")))?;
        if bytes.len() + chunk.len() > limit {
            return Err(Status::failure(StatusReason::RequestEntityTooLarge, "Request body is too large"));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// A response of upstream that is not a Status.
fn plain(code: StatusCode, text: &str) -> Response {
    let mut response = Response::new(transport::full(format!("{text}\n")));
    *response.status_mut() = code;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// The path of the object without its subresource.
fn object_path(tail: &RequestInfo) -> String {
    let root = if tail.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", tail.group) };
    let within = match tail.resource.as_str() {
        "namespaces" => String::new(),
        _ if tail.namespace.is_empty() => String::new(),
        _ => format!("/namespaces/{}", tail.namespace),
    };
    format!("{root}/{}{within}/{}/{}", tail.version, tail.resource, tail.name)
}

fn address(cluster: &str, path: &str) -> Result<http::Uri, Status> {
    let uri = format!("{}{path}", proxy_path(cluster));
    uri.parse().map_err(|error| Status::bad_request(format!("path {path}: {error}")))
}

impl ClusterProxy {
    pub(super) async fn all_clusters(
        &self,
        server: &Shared,
        info: &RequestInfo,
        user: &Identity,
        request: Request,
    ) -> Result<Response, Status> {
        let (target, tail) = target_of(info, &request)?;
        if !tail.is_resource {
            return self.in_control_plane(user, request, &target).await;
        }
        match (tail.name.is_empty(), tail.verb) {
            (false, _) => self.forward_to_owner(server, &tail, user, request, &target).await,
            (true, "list") => self.merged_list(server, user, &target).await,
            (true, verb) => Ok(plain(StatusCode::METHOD_NOT_ALLOWED, &format!("Request verb {verb} is not support"))),
        }
    }

    /// Responses with 200, in the order of the clusters' names.
    async fn get_from_all(
        &self,
        server: &Shared,
        user: &Identity,
        path: &str,
    ) -> Result<Vec<(String, Response)>, Status> {
        let clusters = self.clusters(server).await?.all()?;
        let mut requests: Vec<BoxFuture<'_, Option<(String, Response)>>> = Vec::new();
        for name in clusters.iter().map(|cluster| cluster.name().to_owned()) {
            let mut request = Request::new(transport::empty());
            *request.method_mut() = Method::GET;
            *request.uri_mut() = address(&name, path)?;
            *request.headers_mut() =
                HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static("application/json"))]);
            requests.push(Box::pin(async move {
                let answer = self.forward(server, &name, user, request).await.ok()?;
                (answer.status() == StatusCode::OK).then_some((name, answer))
            }));
        }
        Ok(join_all(requests).await.into_iter().flatten().collect())
    }

    /// Forwards the request unchanged to the one member that has the object.
    async fn forward_to_owner(
        &self,
        server: &Shared,
        tail: &RequestInfo,
        user: &Identity,
        request: Request,
        target: &str,
    ) -> Result<Response, Status> {
        let found = self.get_from_all(server, user, &object_path(tail)).await?;
        let clusters: Vec<String> = found.into_iter().map(|(cluster, _)| cluster).collect();
        match clusters.as_slice() {
            [] => Ok(plain(StatusCode::NOT_FOUND, "resource not found or don't have permission to get it")),
            [cluster] => {
                let (mut parts, body) = request.into_parts();
                parts.uri = address(cluster, target)?;
                self.forward(server, cluster, user, Request::from_parts(parts, body)).await
            }
            several => {
                let text = format!("conflict resource, exist in more than one cluster: {}", several.join(","));
                Ok(plain(StatusCode::CONFLICT, &text))
            }
        }
    }

    /// Merges the lists of all members; the metadata are those of the first list.
    async fn merged_list(&self, server: &Shared, user: &Identity, target: &str) -> Result<Response, Status> {
        let mut whole_list: Option<Value> = None;
        for (cluster, answer) in self.get_from_all(server, user, target).await? {
            let bytes = read_body(answer.into_body(), MAX_LIST).await?;
            let unreadable =
                |why: &dyn std::fmt::Display| failed(format!("the list of cluster {cluster} cannot be read: {why}"));
            let mut list: Value = serde_json::from_slice(&bytes).map_err(|error| unreadable(&error))?;
            // Go's encoder may write an empty list as null.
            if list.get("items").is_some_and(Value::is_null) {
                list["items"] = Value::Array(Vec::new());
            }
            let more = list.get_mut("items").and_then(Value::as_array_mut);
            let more = more.ok_or_else(|| unreadable(&"it has no items"))?;
            match &mut whole_list {
                None => whole_list = Some(list),
                Some(known) => {
                    let more = std::mem::take(more);
                    if let Some(items) = known.get_mut("items").and_then(Value::as_array_mut) {
                        items.extend(more);
                    }
                }
            }
        }
        Ok(match whole_list {
            Some(list) => respond::value(StatusCode::OK, &list),
            None => plain(StatusCode::NOT_FOUND, "not found"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_looked_for_without_its_subresource() {
        for (path, expected) in [
            ("/api/v1/namespaces/a/pods/p/log?follow=true", "/api/v1/namespaces/a/pods/p"),
            ("/apis/apps/v1/namespaces/a/deployments/d", "/apis/apps/v1/namespaces/a/deployments/d"),
            ("/api/v1/nodes/n", "/api/v1/nodes/n"),
            ("/api/v1/namespaces/a", "/api/v1/namespaces/a"),
        ] {
            let tail = RequestInfo::parse(&Method::GET, &path.parse().unwrap());
            assert_eq!(object_path(&tail), expected);
        }
    }
}
