//! `/metrics` of an API server, in the Prometheus text format: what its store has done. Nothing else is counted yet.

use apimachinery::Status;
use apiserver::{RequestInfo, Route, Shared};
use futures::future::BoxFuture;
use http::header::{CONTENT_TYPE, HeaderValue};
use storage::embedded::{EmbeddedStore, Stats};
use transport::{Identity, Request, Response, full};

/// The counters of an embedded store since it was opened.
pub struct StoreMetrics(pub EmbeddedStore);

impl Route for StoreMetrics {
    fn takes(&self, info: &RequestInfo) -> bool {
        info.verb == "get" && info.path == "/metrics"
    }

    fn call<'a>(
        &'a self,
        _server: &'a Shared,
        _info: &'a RequestInfo,
        _user: &'a Identity,
        _request: Request,
    ) -> BoxFuture<'a, Result<Response, Status>> {
        let mut response = Response::new(full(text(&self.0.stats())));
        let media_type = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, media_type);
        Box::pin(async move { Ok(response) })
    }
}

fn text(stats: &Stats) -> String {
    let counter = |name: &str, help: &str, value: u64| {
        format!(
            "# HELP karmada_store_{name} {help}\n# TYPE karmada_store_{name} counter\nkarmada_store_{name} {value}\n"
        )
    };
    [
        counter("revisions_total", "Revisions written.", stats.revisions),
        counter("batches_total", "Durable transactions of the engine.", stats.batches),
        counter("syncs_total", "Times the disk was told to sync.", stats.syncs),
        counter("bytes_total", "Bytes of keys and values written.", stats.bytes),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_its_type() {
        let text = text(&Stats { syncs: 7, ..Stats::default() });
        assert!(text.contains("# TYPE karmada_store_syncs_total counter\nkarmada_store_syncs_total 7\n"), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("# TYPE")).count(), 4);
    }
}
