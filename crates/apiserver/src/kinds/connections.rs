//! Subresources that connect to a node, a pod or a service: checked, and refused because no connection follows.

use apimachinery::{ObjectKey, Status, StatusReason};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{CONTENT_TYPE, HeaderValue};
use kubernetes_api::connections::{self, LogOptions, Target};
use serde_json::Value;
use transport::{Body, Response};

use crate::errors;
use crate::handlers::{Call, DeleteOptions, Kind};
use crate::request::options::integer;

pub(super) const NODES: Kind = Kind { plural: "nodes", part: Some(node), ..Kind::ORDINARY };

pub(super) const SERVICES: Kind =
    Kind { plural: "services", part: Some(service), removed: Some(delete_endpoints), ..Kind::ORDINARY };

/// Deletes the Endpoints of a removed service, so that a later service of its name does not get them. Those of the server's
/// own service stay: it is created again at once.
fn delete_endpoints<'a>(call: &'a Call<'_>, service: &'a ObjectKey) -> BoxFuture<'a, ()> {
    async move {
        let served = call.server.registry.snapshot();
        let is_own = service.namespace() == Some("default") && service.name() == "kubernetes";
        let Some(endpoints) = served.get("", "v1", "endpoints").filter(|_| !is_own) else { return };
        let deletion = Call { seat: None, ..call.facade(endpoints) };
        match deletion.delete_object(service, &DeleteOptions::default()).await {
            Err(error) if !error.is(StatusReason::NotFound) => {
                tracing::warn!(service = %service, err = %error.message, "Endpoints of a deleted Service were not deleted");
            }
            _ => {}
        }
    }
    .boxed()
}

fn node<'a>(call: &'a Call<'_>, _: Body) -> BoxFuture<'a, Result<Response, Status>> {
    proxy(call, "node", connections::to_node).boxed()
}

fn service<'a>(call: &'a Call<'_>, _: Body) -> BoxFuture<'a, Result<Response, Status>> {
    proxy(call, "service", connections::to_service).boxed()
}

/// `pods/log`, `exec`, `attach`, `portforward` and `proxy`.
pub(super) async fn of_pod(call: &Call<'_>) -> Result<Response, Status> {
    let (name, query) = (&call.info.name, &call.info.query);
    let container = query.get("container").unwrap_or_default();
    match call.info.subresource.as_str() {
        "proxy" => proxy(call, "pod", connections::to_pod).await,
        "log" if call.info.verb != "get" => Err(errors::method_not_allowed()),
        "log" => {
            let options = LogOptions {
                tail_lines: integer(query, "tailLines")?,
                limit_bytes: integer(query, "limitBytes")?,
                since_seconds: integer(query, "sinceSeconds")?,
                since_time: query.text("sinceTime").is_some(),
            };
            options.check(name)?;
            connections::log(&stored(call, name).await?, container)?;
            let mut response = Response::new(transport::empty());
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
            Ok(response)
        }
        streamed => Err(connections::stream(&stored(call, name).await?, streamed, container)),
    }
}

async fn proxy(call: &Call<'_>, what: &str, refuse: fn(&Value, Target<'_>) -> Status) -> Result<Response, Status> {
    let id = &call.info.name;
    let target = Target::parse(id).ok_or_else(|| Status::bad_request(format!("invalid {what} request {id:?}")))?;
    Err(refuse(&stored(call, target.name).await?, target))
}

async fn stored(call: &Call<'_>, name: &str) -> Result<Value, Status> {
    call.server.cache.catch_up().await?;
    let object = call.cache().get(&call.key_of(name))?.ok_or_else(|| call.not_found(name))?;
    object.to_value().map_err(errors::document)
}
