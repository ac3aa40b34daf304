//! Writes of a connection in one turn, sent together. HTTP/2 puts at most 16 KiB into a frame and flushes after each,
//! which is two TLS records and a system call for a fraction of a list; held back until the turn ends, or until there
//! is enough, several frames are sent at once.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf, Take};

use super::reads::{Begun, Reads};

/// The maximum number of buffered bytes: four records of TLS. It also bounds the cost of a connection with a slow
/// reader.
const MOST: usize = 64 << 10;

/// A stream that holds back what is written to it, and who lets it go. `begun` counts the requests that are read from it.
pub(super) fn corked<S: AsyncRead>(stream: S, begun: Begun) -> (Corked<S>, Cork<S>) {
    let stream = stream.take(u64::MAX);
    let wire = Wire {
        stream,
        waiting: Vec::new(),
        sent: 0,
        sent_ever: 0,
        dirty: false,
        holds: true,
        reads: Reads::new(begun),
    };
    let wire = Arc::new(Mutex::new(wire));
    (Corked(Arc::clone(&wire)), Cork(wire))
}

/// The stream. Its flush does nothing; only [`Cork`] knows when a turn is over.
pub(super) struct Corked<S>(Arc<Mutex<Wire<S>>>);

pub(super) struct Cork<S>(Arc<Mutex<Wire<S>>>);

struct Wire<S> {
    /// Its limit is set before each read.
    stream: Take<S>,
    waiting: Vec<u8>,
    /// How much of `waiting` the stream has taken.
    sent: usize,
    /// How much of all that waited it has taken.
    sent_ever: u64,
    /// Something was written since the stream was flushed.
    dirty: bool,
    holds: bool,
    reads: Reads,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Cork<S> {
    /// Sends what was written in the turn that is over now.
    pub fn poll_release(&self, context: &mut Context<'_>) -> Poll<Result<()>> {
        let mut wire = self.0.lock();
        wire.reads.end_turn();
        wire.poll_flush(context)
    }

    /// Buffered bytes that the stream has taken since it began.
    pub fn sent(&self) -> u64 {
        self.0.lock().sent_ever
    }

    /// Sends the buffered data and disables the buffer: the next owner of the stream flushes itself.
    pub async fn remove(self) -> Result<()> {
        self.0.lock().holds = false;
        std::future::poll_fn(|context| self.poll_release(context)).await
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        while self.sent < self.waiting.len() {
            let taken = ready!(Pin::new(self.stream.get_mut()).poll_write(context, &self.waiting[self.sent..]))?;
            if taken == 0 {
                return Poll::Ready(Err(Error::from(ErrorKind::WriteZero)));
            }
            self.sent += taken;
            self.sent_ever += taken as u64;
        }
        // An idle connection holds no buffer.
        (self.waiting, self.sent) = (Vec::new(), 0);
        Poll::Ready(Ok(()))
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        if !self.dirty {
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_drain(context))?;
        ready!(Pin::new(self.stream.get_mut()).poll_flush(context))?;
        self.dirty = false;
        Poll::Ready(Ok(()))
    }

    fn poll_write(&mut self, context: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<Result<usize>> {
        let size = parts.iter().map(|part| part.len()).sum::<usize>();
        self.dirty = true;
        if !self.holds || self.waiting.len() + size > MOST {
            ready!(self.poll_drain(context))?;
        }
        // Large writes are passed on without a copy.
        if !self.holds || size > MOST / 2 && self.waiting.is_empty() {
            return Pin::new(self.stream.get_mut()).poll_write_vectored(context, parts);
        }
        // A frame of a list is rarely the last one.
        self.waiting.reserve(if size > MOST / 8 { MOST - self.waiting.len() } else { size });
        parts.iter().for_each(|part| self.waiting.extend_from_slice(part));
        Poll::Ready(Ok(size))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Corked<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let mut wire = self.0.lock();
        // The next owner of the stream has turns of its own.
        let most = if wire.holds { wire.reads.next() } else { Some(usize::MAX) };
        let Some(most) = most else {
            context.waker().wake_by_ref();
            return Poll::Pending;
        };
        wire.stream.set_limit(most as u64);
        let before = buffer.filled().len();
        ready!(Pin::new(&mut wire.stream).poll_read(context, buffer))?;
        wire.reads.read(buffer.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Corked<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        self.0.lock().poll_write(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.0.lock().poll_write(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let mut wire = self.0.lock();
        if wire.holds { Poll::Ready(Ok(())) } else { wire.poll_flush(context) }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let mut wire = self.0.lock();
        ready!(wire.poll_drain(context))?;
        Pin::new(wire.stream.get_mut()).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    /// The bytes that can be read without waiting.
    fn arrived(peer: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
        let mut buffer = vec![0; 1 << 20];
        let mut read = ReadBuf::new(&mut buffer);
        let mut context = Context::from_waker(std::task::Waker::noop());
        while Pin::new(&mut *peer).poll_read(&mut context, &mut read).is_ready() && read.remaining() > 0 {}
        read.filled().to_vec()
    }

    async fn release(cork: &Cork<impl AsyncRead + AsyncWrite + Unpin>) {
        std::future::poll_fn(|context| cork.poll_release(context)).await.expect("it is open");
    }

    #[tokio::test]
    async fn writes_are_sent_when_the_turn_ends() {
        let (near, mut far) = duplex(1 << 20);
        let (mut stream, cork) = corked(near, Begun::default());
        for text in ["a", "b"] {
            stream.write_all(text.as_bytes()).await.expect("it is open");
            stream.flush().await.expect("it is open");
        }
        assert_eq!(arrived(&mut far), b"");
        release(&cork).await;
        assert_eq!(arrived(&mut far), b"ab");
        // Large writes are not delayed, and keep their order.
        let much = vec![b'c'; MOST];
        stream.write_all(b"b").await.expect("it is open");
        stream.write_all(&much).await.expect("it is open");
        assert_eq!(arrived(&mut far).len(), MOST + 1);
        stream.write_all(b"d").await.expect("it is open");
        cork.remove().await.expect("it is open");
        stream.write_all(b"e").await.expect("it is open");
        assert_eq!(arrived(&mut far), b"de");
        drop(stream);
    }

    #[tokio::test]
    async fn a_turn_starts_few_requests_and_is_woken_again() {
        let (near, mut far) = duplex(1 << 20);
        let begun = Begun::default();
        let (mut stream, cork) = corked(near, begun.clone());
        // A request a hundred bytes.
        far.write_all(&[b'r'; 100_000]).await.expect("it is open");
        let (mut turns, mut all) = (0, 0);
        while all < 100_000 {
            let mut read = 0;
            while let Some(count) =
                futures::poll!(std::pin::pin!(stream.read(&mut [0; 4096]))).is_ready().then_some(1024)
            {
                read += count;
                (0..count / 100).for_each(|_| begun.count());
            }
            assert!(read <= 4096, "{read} bytes in one turn");
            release(&cork).await;
            (turns, all) = (turns + 1, all + read);
        }
        assert!(turns > 20, "{turns}");
        drop((stream, cork));
    }

    #[tokio::test]
    async fn a_slow_reader_blocks_the_writer() {
        let (near, mut far) = duplex(10);
        let (mut stream, cork) = corked(near, Begun::default());
        let piece = vec![b'x'; MOST / 4];
        let mut taken = 0;
        while tokio::time::timeout(std::time::Duration::from_millis(1), stream.write_all(&piece)).await.is_ok() {
            taken += piece.len();
        }
        assert!(taken <= MOST, "{taken}");
        let reader = tokio::spawn(async move {
            let mut all = Vec::new();
            far.read_to_end(&mut all).await.map(|_| all)
        });
        release(&cork).await;
        stream.write_all(b"end").await.expect("it is open");
        stream.shutdown().await.expect("it is open");
        drop((stream, cork));
        let all = reader.await.expect("no panic").expect("the end");
        assert!(all.ends_with(b"end") && all.len() >= taken + 3);
    }
}
