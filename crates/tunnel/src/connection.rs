//! HTTP/2 settings and limits of both ends of a tunnel.

use std::future::Future;
use std::time::Duration;

use hyper_util::rt::TokioTimer;
use tokio_util::sync::CancellationToken;

/// The maximum number of connections to the member per tunnel. Each is a TCP connection of the agent.
pub const STREAMS: usize = 512;
/// The flow-control window of a stream: 1 MiB/s at a round trip of 128 ms.
pub const STREAM_WINDOW: u32 = 128 << 10;
/// The window of all streams together. It is the sum, so that stalled streams do not block others: a tunnel buffers at
/// most 64 MiB, and only if all of its streams stall.
pub const WINDOW: u32 = STREAM_WINDOW * STREAMS as u32;
/// The send buffer of a stream: the next frames, while the last ones are sent.
pub const SEND_BUFFER: usize = 64 << 10;
/// The maximum size of headers: they have only an address or a status code.
pub const HEADERS: u32 = 16 << 10;
/// After this idle time the peer is pinged; without a response within `PING_TIMEOUT` the connection is closed.
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
