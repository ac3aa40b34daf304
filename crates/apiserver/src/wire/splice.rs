//! The body of a list: stored bytes assembled piece by piece, so that a list of any length needs the memory of one
//! piece. Nothing is decoded or encoded.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::cache::snapshot::{Sent, Snapshot};
use crate::limits::budget::{Accounts, PIECE, Produced};

/// The body of a list of whole objects.
pub struct Splice {
    /// Everything up to and including the bracket that opens the items; empty once it is sent.
    head: Vec<u8>,
    list: Arc<Sent>,
    next: usize,
    left: u64,
    /// The accounts of pieces that are shared with other responses.
    accounts: Option<Arc<Accounts>>,
}

impl Splice {
    pub(crate) fn new(head: Vec<u8>, implied: String, items: &Arc<Snapshot>, accounts: Option<Arc<Accounts>>) -> Self {
        let list = items.sent(implied.into_bytes());
        let left = head.len() as u64 + list.size;
        Self { head, list, next: 0, left, accounts }
    }

    /// How a response with this body counts, which holds `held` bytes besides it.
    pub(crate) fn produced(&self, held: usize) -> Produced {
        Produced { held, shared: self.is_shared(), to_begin: 0 }
    }

    /// A list that fits into one piece costs less to encode than to share.
    fn is_shared(&self) -> bool {
        self.list.is_shared() && self.list.size > PIECE as u64
    }

    /// The next piece; `None` after the last.
    fn piece(&mut self) -> Option<Bytes> {
        if self.left == 0 {
            return None;
        }
        let piece = if !self.is_shared() {
            let mut out = std::mem::take(&mut self.head);
            out.reserve(usize::try_from(self.left).unwrap_or(PIECE).min(PIECE + PIECE / 4));
            self.next = self.list.write(self.next, &mut out);
            out.into()
        } else if !self.head.is_empty() {
            std::mem::take(&mut self.head).into()
        } else {
            let (piece, next) = self.list.piece(self.next, self.accounts.as_ref());
            self.next = next;
            piece
        };
        self.left = self.left.saturating_sub(piece.len() as u64);
        Some(piece)
    }
}

impl Body for Splice {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.piece().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use apimachinery::Object;
    use apimachinery::object::Packer;
    use http_body_util::BodyExt as _;
    use serde_json::{Value, json};

    use super::*;

    fn object(n: usize, size: usize) -> Arc<Object> {
        let text = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a{n}"}},"data":{{"k":"{}"}}}}"#,
            "x".repeat(size)
        );
        Object::parse(text).unwrap().shared()
    }

    /// The list as a tree, built the slow way.
    fn tree(items: &[Arc<Object>], custom: bool) -> Value {
        let items = items.iter().map(|item| {
            let mut item = item.to_value().unwrap();
            if let (Some(map), false) = (item.as_object_mut(), custom) {
                map.remove("apiVersion");
                map.remove("kind");
            }
            item
        });
        json!({"kind": "ConfigMapList", "items": items.collect::<Vec<_>>()})
    }

    #[tokio::test]
    async fn spliced_lists_equal_encoded_lists() {
        let implied = r#"{"apiVersion":"v1","kind":"ConfigMap","#;
        // None, one, several in a piece, one larger than a piece, many pieces.
        for (count, size) in [(0, 0), (1, 10), (50, 100), (3, 2 * PIECE), (400, 1000)] {
            for (custom, shared) in [(true, false), (false, false), (true, true), (false, true)] {
                let items: Vec<_> = (0..count).map(|n| object(n, size)).collect();
                let list =
                    Arc::new(if shared { Snapshot::shared(items.clone()) } else { Snapshot::own(items.clone()) });
                let mut packer = Packer::default();
                items.iter().step_by(2).for_each(|item| packer.pack(item));
                let head = br#"{"kind":"ConfigMapList","items":["#.to_vec();
                let implied = if custom { String::new() } else { implied.to_owned() };
                let mut body = Splice::new(head, implied, &list, None);
                let promised = body.size_hint().exact().unwrap();
                let mut whole = Vec::new();
                while let Some(frame) = body.frame().await {
                    let piece = frame.unwrap().into_data().unwrap();
                    assert!(piece.len() <= PIECE + size + 200, "{} bytes in a piece", piece.len());
                    whole.extend_from_slice(&piece);
                }
                assert_eq!(promised, whole.len() as u64);
                assert!(body.is_end_stream());
                assert_eq!(serde_json::from_slice::<Value>(&whole).unwrap(), tree(&items, custom));
            }
        }
    }

    #[tokio::test]
    async fn responses_to_the_same_list_share_their_bytes() {
        let list = Arc::new(Snapshot::shared((0..400).map(|n| object(n, 1000)).collect()));
        let body = || Splice::new(b"[".to_vec(), String::new(), &list, None);
        let mut bodies: Vec<_> = (0..100).map(|_| body()).collect();
        let mut whole = Vec::new();
        loop {
            let mut pieces: Vec<_> = bodies.iter_mut().map(Splice::piece).collect();
            let Some(first) = pieces.swap_remove(0) else { break };
            whole.extend_from_slice(&first);
            let same = |piece: &Option<Bytes>| {
                piece.as_ref().is_some_and(|piece| piece.as_ptr() == first.as_ptr() || first.len() == 1)
            };
            assert!(pieces.iter().all(same), "the bytes are those of the first");
        }
        // It is dropped when all readers have it.
        let mut later = body();
        let mut again = Vec::new();
        while let Some(piece) = later.piece() {
            again.extend_from_slice(&piece);
        }
        assert_eq!(again, whole);
    }
}
