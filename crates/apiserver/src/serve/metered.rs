//! A response body that counts its bytes until the client takes them, and produces no more while too many are in flight.

use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use hyper::body::{Body as _, Frame, SizeHint};
use transport::{Body, BoxError, Response};

use crate::limits::budget::{Accounts, Billed, Lease, PIECE, Produced, Reservation, Stream, Ticket, Wire};

/// Bytes of finished responses that a connection may have in flight. A response that would exceed it ends only when the
/// client has taken it, so that it can still be cut.
const UNATTENDED: usize = 256 << 10;

/// A part of a body in flight.
pub(super) struct Piece {
    bytes: Bytes,
    lease: Lease,
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.bytes.chunks_vectored(slices)
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.lease.take(count);
    }

    fn copy_to_bytes(&mut self, length: usize) -> Bytes {
        self.lease.take(length);
        self.bytes.copy_to_bytes(length)
    }
}

/// The response with its body metered. `stream` is the HTTP/2 stream, or the connection of HTTP/1.
pub(super) fn response(response: Response, stream: Arc<Stream>, wire: &Wire, http2: bool) -> http::Response<Metered> {
    let (mut parts, body) = response.into_parts();
    let accounts = match parts.extensions.remove::<Billed>() {
        Some(Billed(accounts)) => accounts,
        None => wire.own_accounts(),
    };
    let produced = parts.extensions.remove::<Produced>();
    http::Response::from_parts(parts, Metered::new(body, stream, accounts, produced.as_ref(), http2))
}

pub(super) struct Metered {
    body: Body,
    stream: Arc<Stream>,
    accounts: Arc<Accounts>,
    /// The rest of a frame that was larger than a piece; it has been counted.
    rest: Bytes,
    /// Held in memory, and not sent yet.
    whole: usize,
    /// Held until the end.
    held: usize,
    to_begin: usize,
    shared: bool,
    /// A stream without an end may always have something in flight: others on its connection do not delay it.
    endless: bool,
    http2: bool,
    produced: bool,
    /// The body has ended; it must not be polled again.
    ended: bool,
    ticket: Option<Ticket>,
    sent: usize,
}

impl Metered {
    fn new(body: Body, stream: Arc<Stream>, accounts: Arc<Accounts>, produced: Option<&Produced>, http2: bool) -> Self {
        let length = body.size_hint().exact().and_then(|length| usize::try_from(length).ok());
        let whole = if produced.is_none() { length.unwrap_or(0) } else { 0 };
        let held = produced.map_or(0, |produced| produced.held);
        if whole + held > 0 {
            accounts.hold(whole + held);
        }
        Self {
            body,
            stream,
            accounts,
            rest: Bytes::new(),
            whole,
            held,
            to_begin: produced.map_or(0, |produced| produced.to_begin),
            shared: produced.is_some_and(|produced| produced.shared),
            endless: produced.is_none() && length.is_none(),
            http2,
            produced: false,
            ended: false,
            ticket: None,
            sent: 0,
        }
    }

    /// Waits until more may be produced.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // Memory shrinks only when parts are sent.
        if self.whole > 0 {
            return Poll::Ready(());
        }
        let begins = !self.produced && self.to_begin > 0;
        let reservation = if begins { Reservation::ToBegin } else { Reservation::ToSend };
        if !(self.endless && self.stream.in_flight() == 0) {
            let blocked = self.accounts.connection.poll(reservation, &mut self.ticket, context);
            self.stream.blocked.store(blocked.is_pending(), Relaxed);
            ready!(blocked);
        }
        ready!(self.accounts.user.poll(Reservation::ToSend, &mut self.ticket, context));
        ready!(self.accounts.server.poll(Reservation::ToSend, &mut self.ticket, context));
        if begins {
            self.accounts.connection.hold(self.to_begin);
            self.accounts.hold(self.to_begin);
        }
        self.produced = true;
        Poll::Ready(())
    }

    /// Counts a frame and hands over the first piece of it.
    fn piece(&mut self, frame: Bytes) -> Frame<Piece> {
        let held = frame.len().min(self.whole);
        self.whole -= held;
        self.accounts.send(frame.len(), self.shared);
        if held > 0 {
            self.accounts.release(held);
        }
        self.rest = frame;
        self.next()
    }

    fn next(&mut self) -> Frame<Piece> {
        let bytes = self.rest.split_to(self.rest.len().min(PIECE));
        self.sent += bytes.len();
        let lease = Lease::new(&self.stream, &self.accounts, bytes.len(), self.shared);
        Frame::data(Piece { bytes, lease })
    }

    /// Whether the end waits until the client has taken everything: a stream that has ended cannot be cut.
    fn waits_to_end(&self) -> bool {
        self.http2 && self.sent > 0 && (self.sent > PIECE || self.accounts.connection.sending() > UNATTENDED)
    }
}

impl hyper::body::Body for Metered {
    type Data = Piece;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Piece>, BoxError>>> {
        let this = &mut *self;
        if !this.rest.is_empty() {
            return Poll::Ready(Some(Ok(this.next())));
        }
        if !this.ended && !this.body.is_end_stream() {
            ready!(this.poll_room(context));
            match ready!(Pin::new(&mut this.body).poll_frame(context)?) {
                Some(frame) => match frame.into_data() {
                    Ok(data) => return Poll::Ready(Some(Ok(this.piece(data)))),
                    Err(frame) => return Poll::Ready(frame.into_trailers().ok().map(|it| Ok(Frame::trailers(it)))),
                },
                None => this.ended = true,
            }
        }
        if !this.waits_to_end() {
            return Poll::Ready(None);
        }
        this.stream.waker.register(context.waker());
        if this.stream.in_flight() == 0 { Poll::Ready(None) } else { Poll::Pending }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && (self.ended || self.body.is_end_stream()) && !self.waits_to_end()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.size_hint();
        let rest = self.rest.len() as u64;
        match hint.exact() {
            Some(length) => hint.set_exact(length + rest),
            None => hint.set_lower(hint.lower() + rest),
        }
        hint
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        self.accounts.release(self.whole + self.held);
        if self.produced && self.to_begin > 0 {
            self.accounts.connection.release(self.to_begin);
            self.accounts.release(self.to_begin);
        }
        if !self.rest.is_empty() {
            self.accounts.sent(self.rest.len(), self.shared);
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, StreamBody};

    use super::*;
    use crate::limits::budget::Budgets;

    #[test]
    fn an_ended_body_is_not_polled_again() {
        // This stream panics when it is polled after its end.
        let frames = futures::stream::unfold(0, |n| async move {
            (n < 2).then(|| (Ok::<_, BoxError>(Frame::data(Bytes::from(vec![0; PIECE]))), n + 1))
        });
        let wire = Wire::alone(Budgets::default());
        let stream = Arc::new(Stream::default());
        let body = StreamBody::new(frames).boxed_unsync();
        let mut metered = Metered::new(body, Arc::clone(&stream), wire.accounts("a"), None, true);
        let mut poll = || Pin::new(&mut metered).poll_frame(&mut Context::from_waker(std::task::Waker::noop()));
        let taken: Vec<_> = (0..2).map(|_| poll()).collect();
        assert!(taken.iter().all(|frame| matches!(frame, Poll::Ready(Some(Ok(frame))) if frame.is_data())));
        for _ in 0..3 {
            assert!(poll().is_pending(), "it can still be cut");
        }
        drop(taken);
        assert!(matches!(poll(), Poll::Ready(None)));
    }
}
