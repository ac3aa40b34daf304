//! The client's metrics, with client-go's names.

use metrics::Description;

/// The label `host` of requests in this process.
pub(crate) const IN_PROCESS: &str = "in-process";

/// Requests by response code, method and server.
pub const REQUESTS: Description = Description::counter(
    "rest_client_requests_total",
    &["code", "method", "host"],
    "Requests to API servers by code (<error> without a response), method and server.",
);
/// The metrics of this crate.
pub const ALL: &[Description] = &[REQUESTS];

#[cfg(test)]
mod tests {
    use metrics::Registry;
    use transport::{ApiService, Identity};

    use crate::Client;

    #[tokio::test]
    async fn requests_are_counted_by_their_answer() {
        let service = ApiService::new(tower::service_fn(|_| async {
            let mut response = http::Response::new(transport::empty());
            *response.status_mut() = http::StatusCode::NOT_FOUND;
            Ok(response)
        }));
        let registry = Registry::default();
        let client = Client::in_process(service, Identity::system("t")).counted_in(&registry).with_limit(None);
        client.request(http::Method::GET, "/readyz", None).await.expect_err("nothing is found");
        let text = registry.text();
        let line = "rest_client_requests_total{code=\"404\",method=\"GET\",host=\"in-process\"} 1\n";
        assert!(text.contains(line), "{text}");
    }
}
