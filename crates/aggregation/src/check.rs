//! Checks one other server: when its APIService or service changes, and every half minute.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use apiserver::Shared;
use apiserver::documents::openapi::ExternalSpec;
use bytes::Bytes;
use client::{Client, Patch, PatchOptions};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::StatusCode;
use http::header::{ACCEPT, ETAG, IF_NONE_MATCH};
use http_body_util::{BodyExt as _, Limited};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::availability::{Verdict, of_service};
use crate::documents::{Documents, v3_url};
use crate::registered::{Condition, Remote};
use crate::resolve::Routing;
use crate::{Aggregation, listed, outgoing};

/// Between checks of a server that is available: upstream's period.
const PERIOD: Duration = Duration::from_secs(30);
/// After the first failed check; each further pause is twice as long, up to [`PERIOD`].
const RETRY: Duration = Duration::from_secs(1);
/// For the response to a check: upstream's time-out.
const TIMEOUT: Duration = Duration::from_secs(5);
/// For an OpenAPI document.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(20);
/// Endpoints that are tried in one check, with `--enable-aggregator-routing`.
const ATTEMPTS: u64 = 5;
/// OpenAPI documents are read again with every second check, that is each minute, as upstream.
const CHECKS_PER_DOCUMENT: u32 = 2;

/// A list of resources has some hundred bytes a resource.
const MAX_LIST: usize = 4 << 20;
/// The OpenAPI v2 document of kube-apiserver with hundreds of custom resources.
const MAX_DOCUMENT: usize = 32 << 20;

pub fn api_services() -> ApiResource {
    ApiResource::cluster("apiregistration.k8s.io", "v1", "APIService", "apiservices")
}

/// The pauses between the checks of a server: short ones once it fails, so that a restart is over soon for clients.
#[derive(Debug, Default)]
struct Pauses {
    failures: u32,
}

impl Pauses {
    fn after(&mut self, is_available: bool) -> Duration {
        self.failures = if is_available { 0 } else { self.failures.saturating_add(1) };
        match self.failures.checked_sub(1) {
            None => PERIOD,
            Some(doublings) => RETRY.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX)).min(PERIOD),
        }
    }
}

/// A response that was read completely.
struct Read {
    code: StatusCode,
    tag: Option<String>,
    body: Bytes,
}

impl Aggregation {
    /// Checks until `stop`.
    pub(crate) async fn follow(
        self: Arc<Self>,
        server: Arc<Shared>,
        client: Client,
        remote: Arc<Remote>,
        stop: CancellationToken,
    ) {
        let mut pauses = Pauses::default();
        let mut checks = 0;
        loop {
            let seen = self.changes.get();
            let following = async {
                let (verdict, list) = self.examine(&server, &remote).await;
                if verdict.is_available() {
                    self.keep(&remote, &list);
                } else {
                    self.stale(&remote);
                }
                let pause = pauses.after(verdict.is_available());
                self.report(&server, &client, &remote, &verdict).await;
                if verdict.is_available() && checks % CHECKS_PER_DOCUMENT == 0 {
                    self.read_openapi(&server, &remote).await;
                }
                checks = if verdict.is_available() { checks.wrapping_add(1) } else { 0 };
                tokio::select! {
                    biased;
                    _ = self.changes.wait_for(|now| *now > seen) => pauses = Pauses::default(),
                    () = tokio::time::sleep(pause) => {}
                }
            };
            if stop.run_until_cancelled(following).await.is_none() {
                return;
            }
        }
    }

    /// The verdict, and the list of resources if there is one.
    async fn examine(&self, server: &Shared, remote: &Remote) -> (Verdict, Bytes) {
        let found = match self.found(server, remote, true) {
            Ok(found) => found,
            Err(status) => return (Verdict::unknown(&remote.service, &status.message), Bytes::new()),
        };
        if let Some(verdict) = of_service(&remote.service, &found) {
            return (verdict, Bytes::new());
        }
        let attempts = if self.routing == Routing::Endpoints { ATTEMPTS } else { 1 };
        let first = server.world.random_u64();
        let mut last = String::new();
        for attempt in 0..attempts {
            match self.discover(server, remote, first.wrapping_add(attempt)).await {
                Ok(list) => return (Verdict::passed(), list),
                Err(why) => last = why,
            }
        }
        (Verdict::no_discovery(last), Bytes::new())
    }

    async fn discover(&self, server: &Shared, remote: &Remote, chance: u64) -> Result<Bytes, String> {
        let endpoint = self.endpoint(server, remote, chance)?;
        let path = format!("/apis/{}/{}", remote.group, remote.version);
        let url = format!("{}{path}", endpoint.server);
        let failed = |why: String| format!("failing or missing response from {url}: {why}");
        let client = self.connections.client(&endpoint).map_err(|error| failed(error.to_string()))?;
        let reading = tokio::time::timeout(TIMEOUT, read(&client, &path, "application/json", None, MAX_LIST));
        let answer = match reading.await {
            Ok(answer) => answer.map_err(|error| error.in_go(&endpoint.server)),
            Err(_) => Err("context deadline exceeded (Client.Timeout exceeded while awaiting headers)".to_owned()),
        };
        let answer = answer.map_err(|why| failed(format!("Get {url:?}: {why}")))?;
        match answer.code.is_success() {
            true => Ok(answer.body),
            false => Err(failed(format!("bad status from {url}: {}", answer.code.as_u16()))),
        }
    }

    /// Stores the list of resources. A document that is not a list only changes the freshness.
    fn keep(&self, remote: &Remote, list: &[u8]) {
        let resources = listed::resources(list).inspect_err(|why| {
            tracing::debug!(object = remote.name, err = why, "Aggregated API server lists no resources");
        });
        self.change(remote, |known| {
            known.is_current = resources.is_ok();
            if let Ok(resources) = resources
                && resources != *known.resources
            {
                known.resources = Arc::new(resources);
            }
        });
    }

    fn stale(&self, remote: &Remote) {
        self.change(remote, |known| known.is_current = false);
    }

    fn change(&self, remote: &Remote, change: impl FnOnce(&mut Documents)) {
        let mut stored = self.stored.lock();
        change(stored.documents.entry(remote.uid.clone()).or_default());
        self.publish(&mut stored);
    }

    /// Reads the OpenAPI documents. Unreadable ones keep their previous content; a server without such a document has
    /// none.
    async fn read_openapi(&self, server: &Shared, remote: &Remote) {
        let Ok(endpoint) = self.endpoint(server, remote, 0) else { return };
        let Ok(client) = self.connections.client(&endpoint) else { return };
        let known = self.stored.lock().documents.get(&remote.uid).and_then(|known| known.v2_tag.clone());
        let index = read(&client, "/openapi/v3", "application/json", None, MAX_LIST);
        let index = tokio::time::timeout(DOCUMENT_TIMEOUT, index).await;
        let document = read(&client, "/openapi/v2", "application/json", known.as_deref(), MAX_DOCUMENT);
        let document = tokio::time::timeout(DOCUMENT_TIMEOUT, document).await;
        self.change(remote, |known| {
            if let Ok(Ok(index)) = index {
                known.v3_url = index.code.is_success().then(|| v3_url(&index.body, remote)).flatten();
            }
            match document {
                Ok(Ok(document)) if document.code.is_success() => {
                    let spec = ExternalSpec::new(document.body.to_vec()).inspect_err(|err| {
                        tracing::warn!(object = remote.name, %err, "OpenAPI of the aggregated API server is not merged");
                    });
                    known.v2 = spec.ok().map(Arc::new);
                    known.v2_tag = document.tag;
                }
                Ok(Ok(document)) if document.code.is_client_error() => (known.v2, known.v2_tag) = (None, None),
                _ => {}
            }
        });
    }

    /// Writes the condition if it differs, and counts.
    async fn report(&self, server: &Shared, client: &Client, remote: &Remote, verdict: &Verdict) {
        let previous = {
            let stored = self.stored.lock();
            let service = stored.services.get(&remote.name).filter(|service| service.uid == remote.uid);
            let Some(service) = service else { return };
            service.available.clone()
        };
        let was_available = previous.as_ref().is_some_and(|it| it.status == "True");
        let reason = (was_available && !verdict.is_available()).then_some(verdict.reason);
        self.counted.checked(&remote.name, verdict.is_available(), reason);
        if verdict.is_in(previous.as_ref()) {
            return;
        }
        if !verdict.is_available() {
            let (reason, err) = (verdict.reason, &verdict.message);
            tracing::warn!(object = remote.name, reason, err, "Aggregated API server is unavailable");
        }
        write_condition(server, client, (&remote.name, &remote.uid), verdict, previous.as_ref()).await;
    }
}

/// Writes the condition `Available`. The next check repeats a write that fails.
pub async fn write_condition(
    server: &Shared,
    client: &Client,
    (name, uid): (&str, &str),
    verdict: &Verdict,
    previous: Option<&Condition>,
) {
    let now = apimachinery::meta::Time::new(server.world.now()).to_string();
    let conditions = [verdict.condition(previous, &now)];
    let patch = Patch::Merge(json!({"metadata": {"uid": uid}, "status": {"conditions": conditions}}));
    let options = PatchOptions { subresource: Some("status"), ..PatchOptions::default() };
    if let Err(error) = client.patch(&api_services(), &ObjectKey::cluster(name), &patch, &options).await
        && !error.is_not_found()
        && !error.is_conflict()
    {
        tracing::warn!(object = name, err = %error, "Condition of the APIService cannot be written");
    }
}

/// Requests a document as this server itself.
async fn read(client: &Client, path: &str, accept: &str, tag: Option<&str>, limit: usize) -> client::Result<Read> {
    let mut builder = http::Request::get(path).header(ACCEPT, accept);
    if let Some(tag) = tag {
        builder = builder.header(IF_NONE_MATCH, tag);
    }
    let refused = |why: String| client::Error::Request { attempt: path.to_owned(), why };
    let mut request = builder.body(transport::empty()).map_err(|error| refused(error.to_string()))?;
    outgoing::identify(request.headers_mut(), &outgoing::own_identity()).map_err(|status| refused(status.message))?;
    let (parts, body) = client.send(request).await?.into_parts();
    let transport = |source| client::Error::Transport { host: "".into(), attempt: path.to_owned(), source };
    let body = whole(body, limit).await.map_err(transport)?;
    let tag = parts.headers.get(ETAG).and_then(|value| value.to_str().ok()).map(str::to_owned);
    Ok(Read { code: parts.status, tag, body })
}

/// Not an `async fn`, so that the types of the body do not become part of the caller's task.
fn whole(body: transport::Body, limit: usize) -> BoxFuture<'static, Result<Bytes, transport::BoxError>> {
    Box::pin(Limited::new(body, limit).collect().map(|whole| whole.map(http_body_util::Collected::to_bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_fails_is_checked_again_soon() {
        let mut pauses = Pauses::default();
        let mut after = |outcomes: &[bool]| outcomes.iter().map(|it| pauses.after(*it).as_secs()).collect::<Vec<_>>();
        assert_eq!(after(&[true, true, false, false, false, true]), [30, 30, 1, 2, 4, 30]);
        assert_eq!(after(&[false; 7]), [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(after(&[false; 40]).last(), Some(&30));
    }
}
