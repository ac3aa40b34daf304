//! Responses that their clients do not read. An HTTP/2 stream is ended alone, the others of its connection continue;
//! with HTTP/1, or when no stream is read, the connection is ended.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::task::futures::TaskLocalFuture;
use tokio::time::{Instant, Sleep};

use crate::limits::budget::{Enrolled, Stream, Subject, Wire};
use crate::limits::fairness::in_turns;

/// Checks the progress of a client this many times within the time limit.
const LOOKS: u32 = 4;

/// Bytes that a client has to take within the limit, where so many are in flight.
const LEAST: u64 = 1 << 10;

tokio::task_local! {
    /// The stream whose request is being answered.
    static STREAM: Arc<Stream>;
}

/// The HTTP/2 stream of the task.
pub(super) fn stream() -> Arc<Stream> {
    STREAM.try_with(Arc::clone).unwrap_or_default()
}

/// Whether data in flight has not progressed for a while. Its timer runs only while data is in flight, and is checked a
/// few times a minute, so timely reads cost nothing. While the server is short of bytes in flight, it may be ended earlier.
pub(super) struct Stall {
    period: Duration,
    looks: u32,
    timer: Option<(Pin<Box<Sleep>>, Enrolled)>,
    /// The number of bytes read at the last progress, and the number of checks since without progress.
    seen: u64,
    still: u32,
}

impl Stall {
    /// Reports a stall after `limit` times `limits`, and at most a quarter of `limit` later.
    pub fn new(limit: Duration, limits: u32) -> Self {
        Self { period: limit / LOOKS, looks: LOOKS * limits, timer: None, seen: 0, still: 0 }
    }

    /// `enrol` enters it among those that may be ended earlier.
    pub fn poll(
        &mut self,
        (in_flight, taken): (usize, u64),
        enrol: impl FnOnce() -> Enrolled,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        let busy = in_flight > 0;
        let mut enrol = Some(enrol);
        loop {
            let Some((timer, enrolled)) = &mut self.timer else {
                let Some(enrol) = enrol.take().filter(|_| busy) else { return Poll::Pending };
                (self.seen, self.still) = (taken, 0);
                self.timer = Some((Box::pin(tokio::time::sleep(self.period)), enrol()));
                continue;
            };
            if busy && enrolled.poll_end(context) {
                return Poll::Ready(());
            }
            if timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            if !busy {
                self.timer = None;
                return Poll::Pending;
            }
            if taken.abs_diff(self.seen) >= LEAST.min(in_flight as u64) {
                (self.seen, self.still) = (taken, 0);
            } else {
                self.still += 1;
            }
            if self.still >= self.looks {
                return Poll::Ready(());
            }
            timer.as_mut().reset(Instant::now() + self.period);
        }
    }
}

/// Runs the streams of one connection in turns of its user, and ends those that stall.
#[derive(Clone)]
pub(super) struct Streams {
    pub limit: Duration,
    pub wire: Wire,
}

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Streams {
    fn execute(&self, work: F) {
        let stream = Arc::new(Stream::default());
        let work = STREAM.scope(Arc::clone(&stream), work);
        let answering = Answering { stall: Stall::new(self.limit, 1), stream, wire: self.wire.clone(), work };
        tokio::spawn(in_turns(Arc::clone(self.wire.place()), answering));
    }
}

pin_project! {
    /// A stream with a response in progress. Not an `async` block: that would store the work twice.
    struct Answering<F> {
        stall: Stall,
        stream: Arc<Stream>,
        wire: Wire,
        #[pin]
        work: TaskLocalFuture<Arc<Stream>, F>,
    }
}

impl<F: Future<Output = ()>> Future for Answering<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if this.work.poll(context).is_ready() {
            return Poll::Ready(());
        }
        // One that waits for its connection moves as that does.
        let blocked = this.stream.blocked.load(Relaxed);
        let in_flight = this.stream.in_flight().max(usize::from(blocked));
        let taken = if blocked { this.wire.account().taken() } else { this.stream.taken() };
        let enrol = || this.wire.enrol(Subject::Stream(Arc::clone(this.stream)));
        std::task::ready!(this.stall.poll((in_flight, taken), enrol, context));
        this.wire.budgets().count_cut("stream");
        Poll::Ready(())
    }
}
