//! Spans on their way to a collector.

use std::time::Duration;

use metrics::Registry;
use otlp::{Endpoint, Exporter, Limits, Source, start};
use std::sync::Arc;
use tokio::time::Instant;
use tonic::Status;
use trace::{Kind, Tracer};
use world::World;

use crate::collector::{Answer, Collector};

/// Shorter than the defaults, so that no test waits for them.
const LIMITS: Limits = Limits {
    queue: 100,
    batch: 10,
    delay: Duration::from_millis(50),
    attempt: Duration::from_millis(500),
    pause: Duration::from_millis(50),
    patience: Duration::from_secs(2),
    flush: Duration::from_secs(1),
};

struct Traced {
    tracer: Arc<Tracer>,
    exporter: Exporter,
    registry: Registry,
}

fn exporting(collector: std::net::SocketAddr, limits: Limits) -> Traced {
    let (registry, source) = (Registry::default(), Source { name: "apiserver".into(), instance: "apiserver-1".into() });
    let endpoint = Endpoint::Tcp(collector.ip().to_string(), collector.port());
    let (queue, exporter) = start(endpoint, &source, limits, &registry);
    Traced { tracer: Tracer::new(World::system(), 1_000_000, queue), exporter, registry }
}

impl Traced {
    /// Ends this many spans.
    fn spans(&self, count: usize) {
        for number in 0..count {
            drop(self.tracer.request(None, false, Duration::ZERO, || format!("span {number}")));
        }
    }

    fn exported(&self) -> u64 {
        let text = self.registry.text();
        let line = text.lines().find_map(|line| line.strip_prefix("karmada_tracing_exported_spans_total "));
        line.map_or(0, |value| value.parse().expect("a number"))
    }

    fn lost(&self, reason: &str) -> u64 {
        let name = format!("karmada_tracing_dropped_spans_total{{reason=\"{reason}\"}} ");
        let text = self.registry.text();
        text.lines().find_map(|line| line.strip_prefix(&name)).map_or(0, |value| value.parse().expect("a number"))
    }

    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        for _ in 0..200 {
            if holds(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{what}: {}", self.registry.text());
    }
}

#[tokio::test]
async fn spans_arrive_in_batches_with_their_source() {
    let collector = Collector::start(Answer::Accepts).await;
    let traced = exporting(collector.address, LIMITS);
    let mut root =
        traced.tracer.request(None, false, Duration::from_secs(2), || "GET /api".to_owned()).expect("sampled");
    root.set("http.request.method", "GET");
    root.set("http.response.status_code", 500_u16);
    root.fail("broken");
    trace::within(Some(root.scope()), async { drop(trace::child(Kind::Client, "HTTP POST")) }).await;
    let name = root.scope().context();
    drop(root);
    traced.spans(24);
    let spans = collector.spans(|spans| spans.len() == 26).await;
    let root = spans.iter().find(|span| span.name == "GET /api").expect("the root");
    assert_eq!(format!("00-{}-{}-01", root.trace, root.span), name.header());
    assert_eq!((root.parent.as_str(), root.kind, root.error.as_deref()), ("", 2, Some("broken")));
    assert!(root.nanos >= 2_000_000_000);
    let found: Vec<_> = root.attributes.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(found, ["http.request.method=GET", "http.response.status_code=500"]);
    let child = spans.iter().find(|span| span.name == "HTTP POST").expect("the child");
    assert_eq!((&child.trace, &child.parent, child.kind), (&root.trace, &root.span, 3));
    let requests = collector.requests();
    let sizes = requests.iter().map(|request| request.resource_spans[0].scope_spans[0].spans.len());
    assert!(sizes.clone().all(|size| size <= LIMITS.batch) && requests.len() <= 5, "{:?}", sizes.collect::<Vec<_>>());
    let source = requests[0].resource_spans[0].resource.as_ref().expect("a source");
    let names: Vec<_> = source.attributes.iter().map(|it| it.key.as_str()).collect();
    assert_eq!(names, ["service.name", "service.instance.id"]);
    traced.until("all are counted", |traced| traced.exported() == 26).await;
    traced.exporter.close().await;
}

#[tokio::test]
async fn a_short_outage_of_the_collector_loses_no_span() {
    let address = Collector::start(Answer::Accepts).await.address;
    let traced = exporting(address, LIMITS);
    traced.spans(3);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let collector = Collector::on(address, Answer::Refuses(Status::unavailable("starting"))).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    collector.answer(Answer::Accepts);
    collector.spans(|spans| spans.len() == 3).await;
    // Restarted between two batches.
    drop(collector);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let collector = Collector::on(address, Answer::Accepts).await;
    let Traced { tracer, .. } = &traced;
    drop(tracer.request(None, false, Duration::ZERO, || "later".to_owned()));
    collector.spans(|spans| spans.iter().any(|span| span.name == "later")).await;
}

#[tokio::test]
async fn refused_spans_are_counted_and_not_sent_again() {
    let collector = Collector::start(Answer::Refuses(Status::permission_denied("no"))).await;
    let traced = exporting(collector.address, LIMITS);
    traced.spans(4);
    traced.until("refused as a whole", |traced| traced.lost("failed") == 4).await;
    collector.answer(Answer::RejectsPart(3));
    traced.spans(4);
    traced.until("refused in part", |traced| traced.lost("rejected") == 3 && traced.exported() == 1).await;
    collector.answer(Answer::Accepts);
    traced.spans(2);
    traced.until("accepted again", |traced| traced.exported() == 3).await;
}

#[tokio::test]
async fn a_hanging_collector_delays_nothing_and_the_queue_is_bounded() {
    let collector = Collector::start(Answer::Hangs).await;
    let traced = exporting(collector.address, Limits { patience: Duration::ZERO, ..LIMITS });
    traced.spans(LIMITS.batch);
    // The first batch is in flight.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let began = Instant::now();
    traced.spans(1000);
    assert!(began.elapsed() < Duration::from_millis(200), "{:?}", began.elapsed());
    let full = traced.lost("queue_full");
    assert!((1000 - LIMITS.queue as u64..1000).contains(&full), "{full}");
    traced.until("given up after an attempt", |traced| traced.lost("failed") >= 10).await;
    collector.answer(Answer::Accepts);
    traced.until("the next ones arrive", |traced| traced.exported() > 0).await;
    traced.exporter.close().await;
    let total = ["queue_full", "failed", "shutdown"].map(|reason| traced_lost(&traced.registry, reason));
    let exported = collector.spans(|_| true).await.len() as u64;
    assert_eq!(total.iter().sum::<u64>() + exported, 1010, "{total:?} {exported}");
}

fn traced_lost(registry: &Registry, reason: &str) -> u64 {
    registry.counters(&otlp::ALL[1]).value(&[reason])
}

#[tokio::test]
async fn remaining_spans_are_sent_at_shutdown() {
    let collector = Collector::start(Answer::Accepts).await;
    // The batch would wait for an hour.
    let traced = exporting(collector.address, Limits { delay: Duration::from_secs(3600), ..LIMITS });
    traced.spans(25);
    traced.exporter.close().await;
    assert_eq!(collector.spans(|_| true).await.len(), 25);
}

#[tokio::test]
async fn shutdown_waits_no_longer_than_the_flush() {
    let collector = Collector::start(Answer::Hangs).await;
    let traced = exporting(collector.address, Limits { delay: Duration::from_secs(3600), ..LIMITS });
    traced.spans(25);
    let began = Instant::now();
    traced.exporter.close().await;
    let elapsed = began.elapsed();
    assert!((LIMITS.flush..LIMITS.flush * 3).contains(&elapsed), "{elapsed:?}");
    assert_eq!(traced_lost(&traced.registry, "shutdown"), 25);
}
