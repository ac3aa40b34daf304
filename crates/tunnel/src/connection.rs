//! HTTP/2 as both ends of a tunnel speak it, and its limits.

use std::future::Future;
use std::time::Duration;

use hyper_util::rt::TokioTimer;
use tokio_util::sync::CancellationToken;

/// Connections to the member over one tunnel. Each is a TCP connection at the agent's side.
pub const STREAMS: usize = 512;
/// What a stream may send before its reader takes something: 1 MiB/s at a round trip of 128 ms.
pub const STREAM_WINDOW: u32 = 128 << 10;
/// All streams together. Stalled streams never use up what others need, so it is the sum: at most 64 MiB are held for the
/// readers of one tunnel, and only if all of its streams stall.
pub const WINDOW: u32 = STREAM_WINDOW * STREAMS as u32;
/// Written and not sent yet, of each stream: the next frames, while the last ones are on the wire.
pub const SEND_BUFFER: usize = 64 << 10;
/// Head of a request or an answer: there is nothing in it but an address, or a code.
pub const HEADERS: u32 = 16 << 10;
/// After this much silence the other end is pinged; one that does not answer in `PING_TIMEOUT` is gone.
pub const PING: Duration = Duration::from_secs(15);
pub const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs the tasks of a connection until it is cancelled.
#[derive(Clone, Debug)]
pub struct Tasks(pub CancellationToken);

impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, task: F) {
        let token = self.0.clone();
        tokio::spawn(async move { drop(token.run_until_cancelled(task).await) });
    }
}

pub fn client(tasks: Tasks) -> hyper::client::conn::http2::Builder<Tasks> {
    let mut builder = hyper::client::conn::http2::Builder::new(tasks);
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(HEADERS)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true);
    builder
}

pub fn server(tasks: Tasks) -> hyper::server::conn::http2::Builder<Tasks> {
    let mut builder = hyper::server::conn::http2::Builder::new(tasks);
    builder
        .timer(TokioTimer::new())
        // The greeting needs one more.
        .max_concurrent_streams(STREAMS as u32 + 1)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(HEADERS)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}
