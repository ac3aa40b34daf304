//! A switch in front of an API server: during an outage the server answers no request, and watches end. For the
//! demonstration and for tests of failed members.

use std::convert::Infallible;
use std::sync::Arc;

use apimachinery::{Status, StatusReason};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use tower::ServiceExt as _;
use transport::{ApiService, Payload, Request, Response};
use world::Level;

type Answer = BoxFuture<'static, Result<Response, Infallible>>;

/// Cheap to clone; clones are the same switch.
#[derive(Clone, Default)]
pub struct Outage(Arc<Level<bool>>);

impl Outage {
    pub fn begin(&self) {
        self.0.set(true);
    }

    pub fn end(&self) {
        self.0.set(false);
    }

    /// The same server behind this switch.
    pub fn before(&self, service: ApiService) -> ApiService {
        let outage = self.clone();
        ApiService::new(tower::service_fn(move |request: Request| {
            // The request is sent when this is awaited.
            let answer: Answer = Box::pin(service.clone().oneshot(request));
            let passed: Answer = Box::pin(outage.clone().pass(answer));
            passed
        }))
    }

    async fn pass(self, answer: Answer) -> Result<Response, Infallible> {
        if self.0.get() {
            return Ok(unavailable());
        }
        let Ok(mut response) = answer.await;
        if let Some(Payload::Watch(stream)) = response.extensions().get::<Payload>() {
            let stream = stream.lock().take();
            if let Some(stream) = stream {
                let outage = async move { self.0.wait_for(|lasts| *lasts).await };
                let until = stream.take_until(Box::pin(outage));
                response.extensions_mut().insert(Payload::watch(Box::pin(until)));
            }
        }
        Ok(response)
    }
}

/// The response of a load balancer without a backend.
fn unavailable() -> Response {
    let status =
        Status::failure(StatusReason::ServiceUnavailable, "the server is currently unable to handle the request");
    let body = serde_json::to_vec(&status).unwrap_or_default();
    let mut response = Response::new(transport::full(body));
    *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}
