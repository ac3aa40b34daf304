//! A list in a shape other than whole, a table above all: written piece by piece, as the client takes it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use apimachinery::meta::Time;
use apimachinery::resource::Resource;
use apimachinery::status::ListMeta;
use apimachinery::{Object, Status};
use bytes::Bytes;
use http_body::{Body, Frame};
use serde_json::Value;
use transport::BoxError;

use crate::cache::snapshot::{Snapshot, TAIL};
use crate::errors;
use crate::limits::budget::PIECE;
use crate::wire::negotiate::Shape;
use crate::wire::shape::{self, Form, Include};

/// The body of such a list.
pub(crate) struct Rows {
    resource: Resource,
    items: Arc<Snapshot>,
    form: Form,
    /// Ages are those of the moment of the request.
    now: Time,
    /// Written and not sent.
    out: Vec<u8>,
    next: usize,
    ended: bool,
}

impl Rows {
    pub fn new(resource: &Resource, items: Arc<Snapshot>, meta: &ListMeta, form: Form, now: Time) -> Self {
        let out = shape::list_head(resource, meta, form);
        let rank = resource.strategy.row_rank().filter(|_| form.shape == Shape::Table);
        let items = rank.map_or(items.clone(), |rank| Arc::new(Snapshot::own(in_order(&items, rank))));
        Self { resource: resource.clone(), items, form, now, out, next: 0, ended: false }
    }

    /// Writes rows until `most` bytes wait to be sent; answers whether these are all.
    ///
    /// # Errors
    /// If a stored object cannot be decoded.
    pub fn write(&mut self, most: usize) -> Result<bool, Status> {
        let items = Arc::clone(&self.items);
        while self.out.len() < most && !self.ended {
            match items.get(self.next) {
                Some(item) => self.row(item)?,
                None => {
                    self.out.extend_from_slice(TAIL);
                    self.ended = true;
                }
            }
        }
        Ok(self.ended)
    }

    /// The bytes written and not sent yet.
    pub fn written(self) -> Vec<u8> {
        self.out
    }

    /// Its memory in bytes, without shared data.
    pub fn size(&self) -> usize {
        self.out.len() + if self.items.is_shared() { 0 } else { self.items.size() }
    }

    fn row(&mut self, item: &Object) -> Result<(), Status> {
        let out = &mut self.out;
        if self.next > 0 {
            out.push(b',');
        }
        self.next += 1;
        if self.form.shape == Shape::Metadata {
            put_metadata(out, item, self.form.meta);
            return Ok(());
        }
        out.push(b'{');
        self.resource.strategy.write_row(item, self.now, out).map_err(errors::document)?;
        out.extend_from_slice(b",\"object\":");
        match self.form.include {
            Include::None => out.extend_from_slice(b"null"),
            Include::Metadata => put_metadata(out, item, self.form.meta),
            Include::Object => out.extend_from_slice(&item.json()),
        }
        out.push(b'}');
        Ok(())
    }
}

impl Body for Rows {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Err(status) = self.write(PIECE) {
            return Poll::Ready(Some(Err(status.message.into())));
        }
        let piece = std::mem::take(&mut self.out);
        Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(piece.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.ended && self.out.is_empty()
    }
}

fn in_order(items: &[Arc<Object>], rank: fn(&Value) -> i64) -> Vec<Arc<Object>> {
    let mut items = items.to_vec();
    items.sort_by_cached_key(|item| item.to_value().map_or(i64::MAX, |tree| rank(&tree)));
    items
}

/// `PartialObjectMetadata` of an object, spliced.
fn put_metadata(out: &mut Vec<u8>, object: &Object, api_version: &str) {
    out.extend_from_slice(b"{\"apiVersion\":\"");
    out.extend_from_slice(api_version.as_bytes());
    out.extend_from_slice(b"\",\"kind\":\"PartialObjectMetadata\",\"metadata\":");
    out.extend_from_slice(&object.metadata_json());
    out.push(b'}');
}
