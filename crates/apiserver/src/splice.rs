//! A list as it goes out: stored bytes put together piece by piece, so that a list of any length costs the memory of one
//! piece. Nothing is decoded or encoded.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use apimachinery::Object;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// A piece ends with the item in which it reaches this many bytes: some TLS records, and within the processor's caches.
const PIECE: usize = 64 << 10;
const TAIL: &[u8] = b"]}\n";

/// The body of a list of whole objects.
pub struct Splice {
    /// Everything up to and including the bracket that opens the items; empty once it is sent.
    head: Vec<u8>,
    /// How items begin that do not repeat what the list's kind says; empty when items are sent as they are.
    implied: Vec<u8>,
    items: std::vec::IntoIter<Arc<Object>>,
    first: bool,
    left: u64,
}

impl Splice {
    pub fn new(head: Vec<u8>, implied: String, items: Vec<Arc<Object>>) -> Self {
        let implied = implied.into_bytes();
        let commas = items.len().saturating_sub(1);
        let bytes: usize = items.iter().map(|item| item.size() - skipped(item, &implied)).sum();
        let left = (head.len() + bytes + commas + TAIL.len()) as u64;
        Self { head, implied, items: items.into_iter(), first: true, left }
    }

    /// The next piece; `None` after the last.
    fn piece(&mut self) -> Option<Vec<u8>> {
        if self.left == 0 {
            return None;
        }
        let mut out = std::mem::take(&mut self.head);
        out.reserve(usize::try_from(self.left).unwrap_or(PIECE).min(PIECE + PIECE / 4));
        while out.len() < PIECE {
            let Some(item) = self.items.next() else {
                out.extend_from_slice(TAIL);
                break;
            };
            if !std::mem::take(&mut self.first) {
                out.push(b',');
            }
            let (json, skipped) = (item.json(), skipped(&item, &self.implied));
            if skipped > 0 {
                out.push(b'{');
                out.extend_from_slice(&json[skipped + 1..]);
            } else {
                out.extend_from_slice(&json);
            }
        }
        self.left = self.left.saturating_sub(out.len() as u64);
        Some(out)
    }
}

/// Bytes of an item that are not sent: what it begins with, but for the opening brace.
fn skipped(item: &Object, implied: &[u8]) -> usize {
    if item.begins_with(implied) { implied.len() - 1 } else { 0 }
}

impl Body for Splice {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.piece().map(|piece| Ok(Frame::data(piece.into()))))
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
    async fn pieces_make_the_same_list_as_trees_do() {
        let implied = r#"{"apiVersion":"v1","kind":"ConfigMap","#;
        // None, one, several in a piece, one larger than a piece, many pieces.
        for (count, size) in [(0, 0), (1, 10), (50, 100), (3, 2 * PIECE), (400, 1000)] {
            for custom in [true, false] {
                let items: Vec<_> = (0..count).map(|n| object(n, size)).collect();
                let mut packer = Packer::default();
                items.iter().step_by(2).for_each(|item| packer.pack(item));
                let head = br#"{"kind":"ConfigMapList","items":["#.to_vec();
                let implied = if custom { String::new() } else { implied.to_owned() };
                let mut body = Splice::new(head, implied, items.clone());
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
}
