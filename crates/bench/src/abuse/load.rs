//! The greedy client: reaches its full load, reports that in a line, continues for a while, and ends with its counts.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::client::TlsStream;

use super::{NAMESPACE, config_maps, first};
use crate::apiserver::connection::{Call, Connection, JSON, Target};

/// The first line of the output.
pub const UNDERWAY: &str = "underway";
/// Streams the server allows on a connection.
const STREAMS: usize = 1000;
/// Connections opened at once.
const OPENING: usize = 64;
const MERGE: &str = "application/merge-patch+json";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// LIST streams on one connection that accepts no byte of a response.
    ZeroWindow,
    /// Watchers that never read, while objects change.
    Watchers,
    /// Lists of all objects.
    Lists,
    /// Lists with a selector that one object in a hundred matches.
    SelectorLists,
    /// Patches of one object.
    Patches,
    /// Connections without credentials.
    Connections,
    /// CustomResourceDefinitions that are created and deleted.
    Definitions,
    /// Lists in flight, beside unread watches.
    Overload,
    /// Connections whose requests never end: a byte of a header each second.
    SlowHeaders,
}

/// How large each load is.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Sizes {
    /// LIST streams without a window.
    #[arg(long, default_value_t = 1000)]
    streams: usize,
    /// Watchers that never read.
    #[arg(long, default_value_t = 300)]
    watchers: usize,
    /// Lists in flight at once.
    #[arg(long, default_value_t = 10_000)]
    lists: usize,
    /// Patches in flight at once.
    #[arg(long, default_value_t = 10_000)]
    patches: usize,
    /// Connections without credentials.
    #[arg(long, default_value_t = 10_000)]
    connections: usize,
    /// Definitions that are created and deleted.
    #[arg(long, default_value_t = 200)]
    definitions: usize,
    /// Number of unread watches, beside lists in flight
    #[arg(long, default_value_t = 5_000)]
    unread: usize,
}

impl Sizes {
    pub fn flags(&self) -> [(&'static str, usize); 7] {
        [
            ("--streams", self.streams),
            ("--watchers", self.watchers),
            ("--lists", self.lists),
            ("--patches", self.patches),
            ("--connections", self.connections),
            ("--definitions", self.definitions),
            ("--unread", self.unread),
        ]
    }
}

impl Kind {
    pub const ALL: [Self; 9] = [
        Self::ZeroWindow,
        Self::Watchers,
        Self::Lists,
        Self::SelectorLists,
        Self::Patches,
        Self::Connections,
        Self::Definitions,
        Self::Overload,
        Self::SlowHeaders,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::ZeroWindow => "zero-window",
            Self::Watchers => "watchers",
            Self::Lists => "lists",
            Self::SelectorLists => "selector-lists",
            Self::Patches => "patches",
            Self::Connections => "connections",
            Self::Definitions => "definitions",
            Self::Overload => "overload",
            Self::SlowHeaders => "slow-headers",
        }
    }

    pub fn title(self, sizes: &Sizes) -> String {
        match self {
            Self::ZeroWindow => format!("{} LIST streams on one connection without a window", sizes.streams),
            Self::Watchers => format!("{} watchers that never read", sizes.watchers),
            Self::Lists => format!("{} lists in flight", sizes.lists),
            Self::SelectorLists => format!("{} lists with a selector in flight", sizes.lists),
            Self::Patches => format!("{} patches of one object in flight", sizes.patches),
            Self::Connections => format!("{} connections without credentials", sizes.connections),
            Self::Definitions => format!("{} definitions come and go", sizes.definitions),
            Self::Overload => {
                format!("{} lists in flight and {} watches that nothing reads", sizes.lists, sizes.unread)
            }
            Self::SlowHeaders => format!("{} connections with headers that never end", sizes.connections),
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(clap::Args)]
pub struct Args {
    #[arg(long)]
    kubeconfig: PathBuf,
    #[arg(long, value_enum)]
    kind: Kind,
    #[arg(long)]
    seconds: u64,
    #[command(flatten)]
    sizes: Sizes,
}

/// The server's responses to the greedy client.
#[derive(Default)]
struct Count {
    done: AtomicUsize,
    /// 429 and 503.
    refused: AtomicUsize,
    conflicts: AtomicUsize,
    failed: AtomicUsize,
}

impl Count {
    fn note(&self, answer: &anyhow::Result<StatusCode>) {
        let kind = match answer {
            Ok(status) if status.is_success() => &self.done,
            Ok(StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) => &self.refused,
            Ok(StatusCode::CONFLICT) => &self.conflicts,
            _ => &self.failed,
        };
        kind.fetch_add(1, Relaxed);
    }
}

pub async fn run(args: Args) -> anyhow::Result<()> {
    let target = Target::of(&args.kubeconfig)?;
    let greedy = target.with_token(Some("greedy-token"))?;
    let (sizes, span) = (args.sizes, Duration::from_secs(args.seconds));
    let count = Arc::new(Count::default());
    let small = "?labelSelector=group%3Dfew";
    match args.kind {
        Kind::ZeroWindow => zero_window(&greedy, sizes.streams, span).await?,
        Kind::Watchers => watchers(&greedy, sizes.watchers, span, &count).await?,
        Kind::Lists => many(&greedy, sizes.lists, span, &count, |_| Call::get(config_maps(NAMESPACE))).await?,
        Kind::SelectorLists => {
            many(&greedy, sizes.lists, span, &count, |_| Call::get(config_maps(NAMESPACE) + small)).await?;
        }
        Kind::Patches => many(&greedy, sizes.patches, span, &count, patch).await?,
        Kind::Connections => connections(&target.with_token(None)?, sizes.connections, span, &count).await?,
        Kind::Definitions => definitions(&greedy, sizes.definitions, span, &count).await?,
        Kind::Overload => {
            let unread = unread(&greedy, sizes.unread).await?;
            many(&greedy, sizes.lists, span, &count, |_| Call::get(config_maps(NAMESPACE))).await?;
            println!("{} watches open", unread.len());
        }
        Kind::SlowHeaders => slow_headers(&target.with_token(None)?, sizes.connections, span, &count).await?,
    }
    let Count { done, refused, conflicts, failed } = &*count;
    let [done, refused, conflicts, failed] = [done, refused, conflicts, failed].map(|count| count.load(Relaxed));
    println!("{done} done, {refused} refused (429, 503), {conflicts} conflicts, {failed} failed");
    // Requests in flight end with the process.
    std::process::exit(0)
}

fn patch(n: usize) -> Call {
    Call::send(Method::PATCH, first(NAMESPACE), MERGE, format!(r#"{{"data":{{"p":"{n}"}}}}"#))
}

/// Keeps `size` requests in flight; rejected ones are retried after the second that the server specifies.
async fn many(
    target: &Target,
    size: usize,
    span: Duration,
    count: &Arc<Count>,
    make: impl Fn(usize) -> Call + Clone + Send + Sync + 'static,
) -> anyhow::Result<()> {
    let opened: Vec<Connection> = stream::iter(0..size.div_ceil(STREAMS))
        .map(|_| target.connect())
        .buffer_unordered(OPENING)
        .try_collect()
        .await
        .context("opening connections")?;
    for n in 0..size {
        let (connection, count, make) = (opened[n / STREAMS].clone(), Arc::clone(count), make.clone());
        tokio::spawn(async move {
            for round in 0.. {
                let answer = discard(&connection, make(n + round * size)).await;
                count.note(&answer);
                match answer {
                    Ok(StatusCode::TOO_MANY_REQUESTS) => tokio::time::sleep(Duration::from_secs(1)).await,
                    Ok(_) => {}
                    Err(_) => return,
                }
            }
        });
    }
    println!("{UNDERWAY}");
    tokio::time::sleep(span).await;
    Ok(())
}

async fn discard(connection: &Connection, call: Call) -> anyhow::Result<StatusCode> {
    let response = connection.send(call).await?;
    let status = response.status();
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        frame.context("reading the answer")?;
    }
    Ok(status)
}

async fn zero_window(target: &Target, size: usize, span: Duration) -> anyhow::Result<()> {
    let (connection, driver) = target.dial(0).await?;
    tokio::spawn(driver);
    let mut open_requests = Vec::new();
    for _ in 0..size {
        let connection = connection.clone();
        open_requests.push(tokio::spawn(async move {
            let response = connection.send(Call::get(config_maps(NAMESPACE))).await?;
            // The stream stays open and is not read.
            std::future::pending::<()>().await;
            drop(response);
            anyhow::Ok(())
        }));
    }
    println!("{UNDERWAY}");
    tokio::time::sleep(span).await;
    Ok(())
}

/// Opens watches whose connections are not polled afterwards. The server may refuse some.
async fn unread(target: &Target, size: usize) -> anyhow::Result<Vec<impl Sized + use<>>> {
    let path = config_maps(NAMESPACE) + "?watch=1&resourceVersion=0";
    let opened: Vec<_> = stream::iter(0..size)
        .map(async |_| {
            let (connection, mut driver) = target.dial(64 << 10).await?;
            let response = tokio::select! {
                response = connection.send(Call::get(path.clone())) => response?,
                ended = &mut driver => return ended.map(|()| None).context("the connection of a watch"),
            };
            // From here on the connection is not polled.
            anyhow::Ok(Some((connection, driver, response)))
        })
        .buffer_unordered(OPENING)
        .try_collect()
        .await
        .context("opening watches")?;
    Ok(opened.into_iter().flatten().collect())
}

async fn watchers(target: &Target, size: usize, span: Duration, count: &Arc<Count>) -> anyhow::Result<()> {
    let open_requests = unread(target, size).await?;
    println!("{UNDERWAY}");
    let writer = target.connect().await?;
    let end = Instant::now() + span;
    let mut n = 0;
    while Instant::now() < end {
        let text = "y".repeat(1024);
        let writes = stream::iter(n..n + 32).map(|n| {
            let path = format!("{}/{}", config_maps(NAMESPACE), crate::apiserver::objects::name(n % 500));
            let body = format!(r#"{{"data":{{"n":"{n}","text":"{text}"}}}}"#);
            discard(&writer, Call::send(Method::PATCH, path, MERGE, body))
        });
        writes.buffer_unordered(32).for_each(async |answer| count.note(&answer)).await;
        n += 32;
    }
    drop(open_requests);
    Ok(())
}

/// Connections that handshake and send nothing.
async fn connections(target: &Target, size: usize, span: Duration, count: &Arc<Count>) -> anyhow::Result<()> {
    let idle = |mut stream: TlsStream<TcpStream>| async move {
        let mut byte = [0];
        let _closed = tokio::io::AsyncReadExt::read(&mut stream, &mut byte).await;
    };
    hold(target, size, span, count, idle).await
}

/// Each sends the beginning of a request, and then a byte of a header each second.
async fn slow_headers(target: &Target, size: usize, span: Duration, count: &Arc<Count>) -> anyhow::Result<()> {
    let slow = |mut stream: TlsStream<TcpStream>| async move {
        let mut next: &[u8] = b"GET /api HTTP/1.1\r\nhost: a\r\nx: ";
        // The server ends the connection when the headers take too long.
        while tokio::io::AsyncWriteExt::write_all(&mut stream, next).await.is_ok() {
            tokio::io::AsyncWriteExt::flush(&mut stream).await.ok();
            tokio::time::sleep(Duration::from_secs(1)).await;
            next = b"y";
        }
    };
    hold(target, size, span, count, slow).await
}

/// Opens connections and does `work` on each; those that the server closes are reopened.
async fn hold<W: Future<Output = ()> + Send>(
    target: &Target,
    size: usize,
    span: Duration,
    count: &Arc<Count>,
    work: impl Fn(TlsStream<TcpStream>) -> W + Clone + Send + Sync + 'static,
) -> anyhow::Result<()> {
    println!("{UNDERWAY}");
    for n in 0..size {
        let (target, count, work) = (target.clone(), Arc::clone(count), work.clone());
        tokio::spawn(async move {
            // The handshakes begin within a second.
            tokio::time::sleep(Duration::from_millis(n as u64 * 1000 / size as u64)).await;
            loop {
                let stream = target.handshake().await;
                count.note(&stream.as_ref().map(|_| StatusCode::OK).map_err(|error| anyhow::anyhow!("{error}")));
                if let Ok(stream) = stream {
                    work(stream).await;
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
    }
    tokio::time::sleep(span).await;
    Ok(())
}

async fn definitions(target: &Target, size: usize, span: Duration, count: &Arc<Count>) -> anyhow::Result<()> {
    let connection = target.connect().await?;
    println!("{UNDERWAY}");
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let create = |n: usize| Call::send(Method::POST, path, JSON, definition(n));
    let delete = |n: usize| Call { method: Method::DELETE, ..Call::get(format!("{path}/bench{n}s.bench.example.com")) };
    let work = async {
        let created = stream::iter(0..size).map(|n| discard(&connection, create(n))).buffer_unordered(8);
        created.for_each(async |answer| count.note(&answer)).await;
        let deleted = stream::iter(0..size).map(|n| discard(&connection, delete(n))).buffer_unordered(8);
        deleted.for_each(async |answer| count.note(&answer)).await;
    };
    let begun = Instant::now();
    work.await;
    tokio::time::sleep_until(begun + span).await;
    Ok(())
}

fn definition(n: usize) -> String {
    let fields: Vec<String> =
        (0..50).map(|f| format!(r#""field{f}":{{"type":"string","description":"a field of some kind"}}"#)).collect();
    format!(
        concat!(
            r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","#,
            r#""metadata":{{"name":"bench{n}s.bench.example.com"}},"spec":{{"group":"bench.example.com","scope":"Namespaced","#,
            r#""names":{{"plural":"bench{n}s","singular":"bench{n}","kind":"Bench{n}","listKind":"Bench{n}List"}},"#,
            r#""versions":[{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{{"type":"object","#,
            r#""properties":{{"spec":{{"type":"object","properties":{{{fields}}}}}}}}}}}}}]}}}}"#
        ),
        n = n,
        fields = fields.join(",")
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn definitions_are_json() {
        let tree: serde_json::Value = serde_json::from_str(&super::definition(7)).expect("valid JSON");
        assert_eq!(tree["spec"]["versions"][0]["name"], "v1");
    }
}
