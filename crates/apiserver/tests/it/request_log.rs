//! Slow requests in the log.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::Status;
use apiserver::{ApiServer, Authorization, RequestInfo, Route, ServerConfig, Shared};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use storage::memory::MemoryStore;
use tower::ServiceExt;
use tracing_subscriber::fmt::MakeWriter;
use transport::{Identity, Request, Response};
use world::World;

/// Answers after the number of milliseconds in the requested name.
struct Slow;

impl Route for Slow {
    fn takes(&self, info: &RequestInfo) -> bool {
        info.resource == "deployments"
    }

    fn call<'a>(
        &'a self,
        _server: &'a Shared,
        info: &'a RequestInfo,
        _user: &'a Identity,
        _request: Request,
    ) -> BoxFuture<'a, Result<Response, Status>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(info.name.parse().expect("a number"))).await;
            Ok(Response::new(transport::empty()))
        })
    }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn take(&self) -> Vec<String> {
        let bytes = std::mem::take(&mut *self.0.lock());
        String::from_utf8(bytes).expect("UTF-8").lines().map(|line| line.trim().to_owned()).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn slow_requests_are_logged_at_a_bounded_rate() {
    let log = Log::default();
    // With a single subscriber, tracing lets the first thread to reach an event decide whether it is enabled.
    let _other = tracing::Dispatch::new(tracing_subscriber::registry());
    let subscriber = tracing_subscriber::fmt()
        .without_time()
        .with_target(false)
        .with_ansi(false)
        .with_max_level(tracing::Level::INFO)
        .with_writer(log.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let config = ServerConfig {
        store: Arc::new(MemoryStore::new()),
        world: World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 1),
        resources: kubernetes_api::resources(),
        admission: Vec::new(),
        authentication: Box::new(|_| Default::default()),
        authorization: Authorization::AlwaysAllow,
        routes: vec![Arc::new(Slow)],
        crds: Vec::new(),
        converters: Default::default(),
        version: Default::default(),
    };
    let server = ApiServer::start(config).await.expect("a server");
    let service = server.service();
    let get = async |name: &str| {
        let request = http::Request::get(format!("/apis/apps/v1/namespaces/a/deployments/{name}?token=secret"))
            .header("authorization", "Bearer secret")
            .extension(Identity::system("karmada-scheduler"))
            .body(transport::empty())
            .expect("a request");
        service.clone().oneshot(request).await.expect("an answer").status().as_u16()
    };
    assert_eq!(get("499").await, 200);
    assert_eq!(log.take(), [""; 0]);
    assert_eq!((get("700").await, get("90000").await), (200, 504));
    assert_eq!(
        log.take(),
        [
            r#"WARN Slow request verb="get" resource="deployments.apps" object="a/700" user="system:karmada-scheduler" status=200 duration=700ms"#,
            r#"WARN Slow request verb="get" resource="deployments.apps" object="a/90000" user="system:karmada-scheduler" duration=60s err="ended without an answer: timed out, or the client left""#,
        ]
    );
    tokio::time::sleep(Duration::from_secs(60)).await;
    let many = futures::future::join_all((0..200).map(|_| get("600"))).await;
    assert_eq!(many, [200; 200]);
    assert_eq!(log.take().len(), 10);
    get("1500").await;
    let last = log.take().pop().unwrap_or_default();
    assert!(last.ends_with("suppressed=190"), "{last}");
    server.shutdown();
}
