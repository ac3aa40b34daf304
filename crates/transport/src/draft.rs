//! The document of a write as a tree.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use serde_json::Value;

use crate::{Body, BoxError};

/// Request extension: the object or patch of a write, from a caller in this process. A server that takes it decodes
/// nothing, and the caller encoded nothing. [`Draft::body`] is the body of the same request: it encodes the document
/// for every other reader, such as a proxy. The document can be taken once; the body fails after that.
#[derive(Clone)]
pub struct Draft(Arc<Mutex<Option<Value>>>);

impl Draft {
    pub fn new(document: Value) -> Self {
        Self(Arc::new(Mutex::new(Some(document))))
    }

    /// The document; `None` when it was taken or sent before.
    pub fn take(&self) -> Option<Value> {
        self.0.lock().take()
    }

    /// Shows the document to `reader`, unless it was taken or sent before.
    pub fn look(&self, reader: impl FnOnce(&Value)) {
        if let Some(document) = &*self.0.lock() {
            reader(document);
        }
    }

    /// A body that encodes the document when it is first read.
    pub fn body(&self) -> Body {
        Encoding { draft: self.clone(), done: false }.boxed_unsync()
    }
}

struct Encoding {
    draft: Draft,
    done: bool,
}

impl http_body::Body for Encoding {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if std::mem::replace(&mut self.done, true) {
            return Poll::Ready(None);
        }
        let document = self.draft.take().ok_or_else(|| BoxError::from("the document was taken as a tree"));
        let bytes = document.and_then(|document| serde_json::to_vec(&document).map_err(BoxError::from));
        Poll::Ready(Some(bytes.map(|bytes| Frame::data(bytes.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.done
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_draft_is_read_once_as_a_tree_or_as_bytes() {
        let read = |draft: &Draft| draft.body().collect().now_or_never().expect("in memory").map(|all| all.to_bytes());
        let draft = Draft::new(json!({"a": 1}));
        assert_eq!(read(&draft).expect("encodes"), r#"{"a":1}"#);
        assert_eq!(draft.take(), None);
        let draft = Draft::new(json!({"a": 1}));
        assert_eq!(draft.take(), Some(json!({"a": 1})));
        assert!(read(&draft).is_err());
    }
}
