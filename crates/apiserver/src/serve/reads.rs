//! How much a connection reads in one turn. HTTP/2 decodes everything that has arrived and begins all requests in it before it
//! returns: a thousand of them, which take some ten milliseconds. Other users wait meanwhile.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// Requests after which a turn reads no more: a millisecond.
const REQUESTS: usize = 32;
/// The first read of a turn. It holds at most some sixty requests, whose headers the compression has seen before.
const FIRST: usize = 1 << 10;
/// A read after which so few requests began is followed by a larger one: it belongs to the body of one.
const FEW: usize = 2;
/// Bytes of one turn: several windows of a stream. Frames that begin no request take time, too.
const BYTES: usize = 256 << 10;

/// The requests that a connection has begun in the present turn.
#[derive(Clone, Debug, Default)]
pub(super) struct Begun(Arc<AtomicUsize>);

impl Begun {
    /// Counts a request.
    pub fn count(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    fn get(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// The reads of one turn.
#[derive(Debug)]
pub(super) struct Reads {
    begun: Begun,
    /// The size of the next read.
    size: usize,
    bytes: usize,
    /// Requests before the last read.
    seen: usize,
}

impl Reads {
    pub fn new(begun: Begun) -> Self {
        Self { begun, size: FIRST, bytes: 0, seen: 0 }
    }

    /// The size of the next read; `None` if the turn has read enough.
    pub fn next(&mut self) -> Option<usize> {
        let begun = self.begun.get();
        if begun >= REQUESTS || self.bytes >= BYTES {
            return None;
        }
        let follows_few = self.bytes > 0 && begun - self.seen <= FEW;
        self.size = if follows_few { (self.size * 2).min(BYTES) } else { FIRST };
        self.seen = begun;
        Some(self.size)
    }

    /// Counts what was read.
    pub fn read(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// The turn is over.
    pub fn end_turn(&mut self) {
        self.begun.0.store(0, Relaxed);
        (self.size, self.bytes, self.seen) = (FIRST, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reads of a turn that begin so many requests each.
    fn turn(requests_in_each: usize) -> Vec<usize> {
        let begun = Begun::default();
        let mut reads = Reads::new(begun.clone());
        let mut sizes = Vec::new();
        while let Some(size) = reads.next() {
            sizes.push(size);
            reads.read(size);
            (0..requests_in_each).for_each(|_| begun.count());
        }
        reads.end_turn();
        assert_eq!(reads.next(), Some(FIRST), "another turn begins");
        sizes
    }

    #[test]
    fn a_turn_reads_many_bytes_and_few_requests() {
        assert_eq!(turn(60), [FIRST]);
        assert_eq!(turn(10), [FIRST; 4]);
        let of_a_body = turn(0);
        assert_eq!(of_a_body[..4], [FIRST, 2 * FIRST, 4 * FIRST, 8 * FIRST]);
        assert!(of_a_body.iter().sum::<usize>() < 2 * BYTES && of_a_body.len() < 10, "{of_a_body:?}");
    }
}
