//! An OTLP collector on a loopback port, which records its requests.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use otlp::wire::{self, Any, ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::Status;
use tonic_prost::ProstCodec;

/// How the collector answers.
#[derive(Clone)]
pub enum Answer {
    Accepts,
    Refuses(Status),
    RejectsPart(i64),
    Hangs,
}

/// Stops with its last value.
pub struct Collector {
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
    answer: Arc<Mutex<Answer>>,
    task: JoinHandle<()>,
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Collector {
    pub async fn start(answer: Answer) -> Self {
        Self::on("127.0.0.1:0".parse().expect("an address"), answer).await
    }

    pub async fn on(address: SocketAddr, answer: Answer) -> Self {
        let listener = TcpListener::bind(address).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (received, answer) = (Arc::<Mutex<Vec<_>>>::default(), Arc::new(Mutex::new(answer)));
        let (keeps, answers) = (Arc::clone(&received), Arc::clone(&answer));
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (keeps, answers) = (Arc::clone(&keeps), Arc::clone(&answers));
                let handler = service_fn(move |request| answered(request, Arc::clone(&keeps), Arc::clone(&answers)));
                connections.spawn(Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), handler));
            }
        });
        Self { address, received, answer, task }
    }

    pub fn answer(&self, answer: Answer) {
        *self.answer.lock() = answer;
    }

    pub fn requests(&self) -> Vec<ExportTraceServiceRequest> {
        self.received.lock().clone()
    }

    /// The spans received, once `enough` holds for them.
    pub async fn spans(&self, enough: impl Fn(&[Seen]) -> bool) -> Vec<Seen> {
        let found = || -> Vec<Seen> {
            let requests = self.received.lock();
            let sources = requests.iter().flat_map(|request| &request.resource_spans);
            let spans = sources.flat_map(|source| &source.scope_spans).flat_map(|scope| &scope.spans);
            spans.map(Seen::of).collect()
        };
        for _ in 0..400 {
            let spans = found();
            if enough(&spans) {
                return spans;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("not received: {:#?}", found());
    }
}

/// A span in a form that is easy to compare.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "each test reads some of it")]
pub struct Seen {
    pub trace: String,
    pub span: String,
    pub parent: String,
    pub links: Vec<String>,
    pub name: String,
    pub kind: i32,
    pub nanos: u64,
    pub error: Option<String>,
    pub attributes: BTreeMap<String, String>,
}

impl Seen {
    fn of(span: &wire::Span) -> Self {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let value = |value: Option<wire::AnyValue>| match value.and_then(|value| value.value) {
            Some(Any::Text(text)) => text,
            Some(Any::Number(number)) => number.to_string(),
            None => String::new(),
        };
        Self {
            trace: hex(&span.trace_id),
            span: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            links: span.links.iter().map(|link| hex(&link.span_id)).collect(),
            name: span.name.clone(),
            kind: span.kind,
            nanos: span.end_time_unix_nano - span.start_time_unix_nano,
            error: span.status.as_ref().map(|status| status.message.clone()),
            attributes: span.attributes.iter().map(|it| (it.key.clone(), value(it.value.clone()))).collect(),
        }
    }
}

async fn answered(
    request: Request<Incoming>,
    keeps: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
    answers: Arc<Mutex<Answer>>,
) -> Result<http::Response<tonic::body::Body>, Infallible> {
    assert_eq!(request.uri().path(), wire::EXPORT);
    let service = tower::service_fn(move |request: tonic::Request<ExportTraceServiceRequest>| {
        let answer = answers.lock().clone();
        let keeps = Arc::clone(&keeps);
        async move {
            let rejected = match answer {
                Answer::Hangs => std::future::pending().await,
                Answer::Refuses(status) => return Err(status),
                Answer::Accepts => None,
                Answer::RejectsPart(rejected_spans) => {
                    let error_message = "too old".to_owned();
                    Some(ExportTracePartialSuccess { rejected_spans, error_message })
                }
            };
            keeps.lock().push(request.into_inner());
            Ok(tonic::Response::new(ExportTraceServiceResponse { partial_success: rejected }))
        }
    });
    let codec = ProstCodec::<ExportTraceServiceResponse, ExportTraceServiceRequest>::default();
    Ok(tonic::server::Grpc::new(codec).unary(service, request).await)
}
