use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use ::audit::Level;
use tokio::time::Instant;

use super::*;

/// What a backend does with its writes.
#[derive(Clone, Copy)]
enum Way {
    Hangs,
    Refuses,
    /// Takes each write after a second.
    IsSlow,
}

struct Fake {
    way: Way,
    concurrency: usize,
    running: AtomicUsize,
    most: AtomicUsize,
    taken: AtomicUsize,
}

impl Fake {
    fn new(way: Way, concurrency: usize) -> Arc<Self> {
        let [running, most, taken] = Default::default();
        Arc::new(Self { way, concurrency, running, most, taken })
    }
}

/// A write, until it ends or is given up.
struct Running<'f>(&'f Fake);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Relaxed);
    }
}

impl Writer for Fake {
    fn name(&self) -> &'static str {
        "webhook"
    }

    fn concurrency(&self) -> usize {
        self.concurrency
    }

    fn write(&self, events: Vec<String>) -> BoxFuture<'_, Result<(), String>> {
        async move {
            self.most.fetch_max(self.running.fetch_add(1, Relaxed) + 1, Relaxed);
            let _running = Running(self);
            match self.way {
                Way::Hangs => std::future::pending().await,
                Way::Refuses => Err("refused".to_owned()),
                Way::IsSlow => {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    self.taken.fetch_add(events.len(), Relaxed);
                    Ok(())
                }
            }
        }
        .boxed()
    }
}

/// The sink of a backend, and the number of lost events by the name of what lost them.
struct Rig {
    sink: Arc<dyn Sink>,
    backends: Backends,
    errors: Counters,
}

impl Rig {
    fn new(writer: &Arc<Fake>, mode: Mode) -> Self {
        let errors = Registry::default().counters(&ERRORS);
        let losses = Losses { errors: errors.clone(), failures: Arc::new(Failures::lasting(Duration::ZERO)) };
        let backends = Backends { stop: CancellationToken::new(), tasks: Vec::new() };
        let mut opened = Opened { sinks: Vec::new(), backends, losses };
        let encoder = Encoder { encode: Event::to_json, limits: None };
        opened.add(Arc::clone(writer) as _, mode, encoder);
        let sink = opened.sinks.remove(0);
        Self { sink, backends: opened.backends, errors }
    }
}

fn event(size: usize) -> Event {
    Event::new(Level::Metadata, "x".repeat(size), jiff::Timestamp::UNIX_EPOCH)
}

fn batching(size: usize) -> Mode {
    Mode::Batch(Batching { buffer: 10_000, size, wait: Duration::from_secs(1), throttle: None })
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_does_not_answer_delays_the_end_for_a_bounded_time() {
    let (stop, begun) = (CancellationToken::new(), Instant::now());
    let hangs = || tokio::spawn(std::future::pending());
    Backends { stop, tasks: vec![hangs(), hangs()] }.close().await;
    assert_eq!(begun.elapsed(), LONGEST_END);
}

/// No request waits, what waits is bounded in number and in bytes, and each lost event is counted.
#[tokio::test(start_paused = true)]
async fn a_hanging_backend_in_batches_costs_events_and_nothing_else() {
    // The buffer, the batches that are being written, and one that waits for its turn.
    for (size, count, most) in [(100, 50_000, 10_000 + 33 * 400), (100_000, 2_000, (64 << 20) / 100_000)] {
        let writer = Fake::new(Way::Hangs, 32);
        let rig = Rig::new(&writer, batching(400));
        let (event, begun) = (event(size), Instant::now());
        let mut taken = 0;
        for n in 0..count {
            taken += usize::from(rig.sink.take(&event).await.is_ok());
            if n % 100 == 0 {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(begun.elapsed(), Duration::ZERO, "no event waits");
        assert!(taken > most / 2 && taken <= most, "{taken} of {size} bytes were taken");
        assert_eq!(rig.errors.value(&["buffered"]), (count - taken) as u64);
        assert!(writer.most.load(Relaxed) <= 32);
        rig.backends.close().await;
        assert!(begun.elapsed() <= LONGEST_END + Duration::from_secs(1), "{:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusing_backend_loses_what_it_was_sent() {
    let writer = Fake::new(Way::Refuses, 32);
    let rig = Rig::new(&writer, batching(7));
    for _ in 0..100 {
        rig.sink.take(&event(10)).await.expect("the buffer has room");
    }
    rig.backends.close().await;
    assert_eq!((rig.errors.value(&["webhook"]), rig.errors.value(&["buffered"])), (100, 0));
}

/// A backend with latency takes as many events as kube-apiserver's, which sends batches in parallel, too.
#[tokio::test(start_paused = true)]
async fn a_slow_backend_gets_batches_in_parallel() {
    let writer = Fake::new(Way::IsSlow, 32);
    let rig = Rig::new(&writer, batching(10));
    for _ in 0..6_400 {
        rig.sink.take(&event(10)).await.expect("the buffer has room");
    }
    let begun = Instant::now();
    rig.backends.close().await;
    assert_eq!((writer.taken.load(Relaxed), writer.most.load(Relaxed)), (6_400, 32));
    assert!(begun.elapsed() <= Duration::from_secs(21), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_hanging_backend_delays_blocking_requests_for_a_bounded_time() {
    for (mode, is_strict) in [(Mode::Blocking, false), (Mode::BlockingStrict, true)] {
        let writer = Fake::new(Way::Hangs, 32);
        let rig = Rig::new(&writer, mode);
        let (event, begun) = (event(10), Instant::now());
        let results = futures::future::join_all((0..1_000).map(|_| rig.sink.take(&event))).await;
        assert_eq!(begun.elapsed(), LONGEST_WAIT, "all at the same time, not one after another");
        let late = SinkError { message: "the backend did not take the event within 30 s".into(), is_strict };
        assert!(results.iter().all(|result| *result == Err(late.clone())));
        assert_eq!(rig.errors.value(&["webhook"]), 1_000);
        assert!(writer.most.load(Relaxed) <= 32, "{} writes at once", writer.most.load(Relaxed));
    }
}
